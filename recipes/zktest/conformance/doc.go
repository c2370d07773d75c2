// Package conformance is the suite that a ZooKeeper server must pass to be
// taken for Apache ZooKeeper 3.8.0: zktest's server in memory, and the real one,
// to show that the suite tells the truth.
//
// It is a package of its own because zktest imports the standard library only,
// while the suite generates its sequences with pgregory.net/rapid; whoever
// imports zktest does not link it. It speaks the protocol by itself, without a
// client library, because no Go client can send all of its requests.
package conformance
