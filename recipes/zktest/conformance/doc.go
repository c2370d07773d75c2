// Package conformance is the suite that a ZooKeeper server must pass to be taken for Apache ZooKeeper 3.8.0. It runs on zktest's
// server in memory, and on the real one, to show that the suite tells the truth.
//
// The tests of this package play scenarios and random sequences against a server of their own, and write down what it says.
//
// The suite speaks the protocol by itself, because no Go client can send all of its requests. The codec is that of package
// session, which shares no line with zktest's: a mistake in one cannot hide behind the same mistake in the other.
package conformance
