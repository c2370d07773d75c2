// Package zktest is an in-memory ZooKeeper server for tests and development. It
// speaks ZooKeeper's wire protocol, so programs use it through the client
// library they use in production, over TCP or, inside a testing/synctest
// bubble, over net.Pipe and in fake time.
//
//	s := zktest.Start(t)
//	c, _, err := zk.Connect([]string{"zk"}, 10*time.Second, zk.WithDialer(s.Dialer()))
//
// It answers as Apache ZooKeeper 3.8.0 does, standalone. Everything is kept in
// memory and gone when the process ends: it is not for production.
package zktest
