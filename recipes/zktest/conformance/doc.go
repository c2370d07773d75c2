// Package conformance is the suite that a ZooKeeper server must pass to be
// taken for Apache ZooKeeper 3.8.0: zktest's server in memory, and the real one,
// to show that the suite tells the truth.
//
// The package plays scenarios against a server and writes down what it says.
// [Examine] asks a server in use what locktree needs of it; locktree compat
// prints the result. The rest of the suite takes a server of its own, and is
// in the tests of this package, which also generate random sequences.
//
// It speaks the protocol by itself, without a client library, because no Go
// client can send all of its requests, and with a codec of its own.
package conformance
