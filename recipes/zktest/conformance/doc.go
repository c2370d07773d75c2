// Package conformance is the suite that a ZooKeeper server must pass to be taken for Apache ZooKeeper 3.8.0. It runs on zktest's
// server in memory, and on the real one, to show that the suite tells the truth.
//
// The tests of this package play scenarios and random sequences against a server of their own, and write down what it says.
//
// It speaks the protocol by itself, without a client library, because no Go
// client can send all of its requests, and with a codec of its own.
package conformance
