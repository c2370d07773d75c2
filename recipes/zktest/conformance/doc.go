// Package conformance is the suite that a ZooKeeper server must pass to be taken for Apache ZooKeeper 3.8.0. The suite runs on zktest's
// server in memory. It also runs on the real server, to show that the suite tells the truth.
//
// The tests of this package play scenarios and random sequences against a server of their own, and write down what the server answers.
//
// The suite speaks the protocol by itself, because no Go client can send all of its requests. The codec is that of package session. It
// shares no line with the codec of zktest, so a mistake in one codec cannot hide behind the same mistake in the other.
package conformance
