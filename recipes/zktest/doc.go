// Package zktest is an in-memory ZooKeeper server for tests and development. It
// speaks ZooKeeper's wire protocol, so programs use it through the client
// library they use in production, over TCP or, inside a testing/synctest
// bubble, over net.Pipe and in fake time, where a session timeout takes no time
// at all and exactly as long as it should.
//
//	func TestALostLockEndsItsWork(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) { // fake time: timeouts take none
//			server := zktest.Start(t)
//			err := server.Provision("/locks/ledger", &kind.Payload{Params: &kind.MutexParams{}})
//			...
//			client, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{"zk"}, Dialer: server.DialContext})
//			...
//			defer client.Close()
//
//			err = client.Mutex("/locks/ledger").Do(t.Context(), func(ctx context.Context, _ *recipes.Lease) error {
//				server.Expire(server.Sessions()[0].ID)
//				<-ctx.Done()
//				return context.Cause(ctx)
//			})
//			... // err is recipes.ErrLost
//		})
//	}
//
// Clients that dial with a timeout take [Server.Dialer]:
//
//	c, _, err := zk.Connect([]string{"zk"}, 10*time.Second, zk.WithDialer(s.Dialer()))
//
// [Start] closes the server with the test; programs that run without one use
// [New]. Outside a bubble [Server.Addr] is a TCP address. The package imports
// the standard library only.
//
// Everything is kept in memory and gone when the process ends; nothing is
// replicated; whoever reaches the port may do anything. It is not for
// production. What outgrows one process runs on real ZooKeeper: same protocol,
// no change of code.
//
// # What it can do besides serving
//
// It declares locks as locktree apply would ([Server.Provision]), looks into and
// edits the tree by the server's own hand ([Server.Get], [Server.Create],
// [Server.Set], [Server.Delete], [Server.Dump], [Server.Sessions]), counts requests and round trips ([Server.Counts]), and
// fails on demand: a fault for the requests a predicate picks
// ([Server.Inject]) or for watch events ([Server.InjectEvent]), expired,
// disconnected, partitioned, swapped sessions ([Server.Expire],
// [Server.Disconnect], [Server.Partition], [Server.SwapSessionID]), a frozen,
// refusing or read-only server ([Server.Freeze], [Server.RefuseDials],
// [Server.SetReadOnly]) and followers that lag behind or leaders that were cut off ([Server.Replica]).
//
// # Limits
//
// A packet longer than [WithMaxFrame] allows ends its connection before memory
// is taken for it. A connection may have 8 MiB of requests waiting and 8 MiB of
// replies unread; beyond either the server reads no more from it. Watch events
// pile up to 64 MiB on a client that does not read, then it is cut. The tree
// itself grows as far as memory does.
//
// # Fidelity
//
// It answers as Apache ZooKeeper 3.8.0 does, standalone, in the build of Debian
// 12 (3.8.0-11+deb12u2). Package conformance holds what that means: written
// scenarios with the real server's answers, about 900 replies and events, and
// random sequences from three sessions played to both. In the last long run
// 11,000 sequences with 442,713 replies and events were the same: results,
// codes, Stats, children, data, the order of events and replies, and the exact
// zxid of each. kazoo and Curator run their locks, elections and caches on it.
// CONFORMANCE.md lists every operation and fault with the test that exercises
// it, and the differences found on the way.
//
// Supported:
//
//   - create and create2 in every mode, container and TTL nodes with reaping,
//     delete, exists, getData, setData, getACL, setACL, getChildren and
//     getChildren2, sync, multi, multiRead, getAllChildrenNumber,
//     getEphemerals, whoAmI, setWatches and setWatches2, addWatch (persistent
//     and recursive), removeWatches, checkWatches, auth, closeSession, ping
//   - sequence numbers from the parent's create count, up to their end at 2^31
//   - sessions: negotiated and rounded timeouts, expiry, re-attachment by
//     password, take-over, SessionMoved between servers of an ensemble
//   - ACLs of the schemes world, auth, digest, ip and, with [WithTLS], x509;
//     the super digest
//   - quotas, counted always and enforced with [WithQuotaEnforcement]
//   - jute.maxbuffer ([WithMaxFrame]), TLS, read-only mode
//   - the four-letter words ruok srvr stat mntr cons dump wchs wchp wchc conf isro envi
//     crst srst
//
// Not supported:
//
//   - SASL and Kerberos: a token is answered with none, as by a server without
//   - reconfiguration: ReconfigDisabled, as a standalone server's default
//   - persistence, snapshots, elections, observers, local sessions
//   - the admin server, JMX, Prometheus, audit log; of mntr the sixteen gauges
//     that have a meaning here
//   - throttling of requests and connections: inject [Fail] with
//     [CodeThrottled] instead
//   - several events that one transaction owes one connection come in order of
//     path where ZooKeeper's order is that of a hash set; children are listed
//     in order for the same reason
//
// # Where what is
//
// A frame's way: listen.go accepts, read.go cuts the stream into frames, request.go
// and jute.go decode them, fault.go says what is to go wrong, conn.go queues them in
// and their replies out, exec.go executes. session.go, tree.go, watch.go, acl.go and
// quota.go are what it executes on; reads.go and txn.go are how. replica.go is what
// another server of the ensemble shows; reap.go and the sessions' timers are what
// happens by itself. inspect.go, counts.go, disrupt.go, event.go and readonly.go are
// the test's own hands; words.go answers four-letter words.
//
// One lock guards all of it and is never held across I/O or a sleep: in a bubble a
// goroutine that waits for a mutex stops the time. So whatever may block, a reader, a
// writer, a predicate of a fault, runs without it.
package zktest
