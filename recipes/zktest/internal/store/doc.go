// Package store is ZooKeeper's tree as a state machine. Its caller gives the store one operation or a transaction of several, the client
// that asks (Caller), and the transaction's number and time (Stamp). The store returns results, and the changes that watches report. The
// same sequence of operations makes the same tree: the store has no clock, no connection and no lock of its own.
//
// The store holds the nodes with their access lists, the quotas, the list of each session's ephemeral nodes, the containers and the TTL
// nodes. The caller keeps sessions, watches and the zxid.
//
//	t := store.New(store.Rules{})
//	result, changes := t.Apply(store.Super, store.Stamp{Zxid: 1, Millis: now}, store.Create{Path: "/a", ACL: store.OpenACL})
package store

// op.go has operations and results. txn.go applies them: create.go and write.go with the checks of acl.go, quota.go and path.go, on the
// data of tree.go. read.go answers clients' reads, and look.go the reads of tests and of the server itself.
