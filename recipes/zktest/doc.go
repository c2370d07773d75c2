// Package zktest is an in-memory ZooKeeper server for tests and development. It speaks ZooKeeper's wire protocol, so programs use it
// through the client library they use in production: over TCP, or over net.Pipe inside a testing/synctest bubble. Time in a bubble is fake:
// a session timeout has its exact length, and your test does not wait for it.
//
//	func TestALostLockEndsItsWork(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) { // fake time: timeouts take no time
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
// [Start] closes the server when the test ends; programs that run without a test use [New]. Outside a bubble [Server.Addr] is a TCP
// address. The package needs the standard library only.
//
// The server is not for production. Everything is in memory, and is lost when the process ends. Nothing is replicated. By default, every
// client that reaches the port may do anything. Programs run on real ZooKeeper without a change: the protocol is the same.
//
// # What it can do besides serving
//
//   - declare locks as locktree apply would: [Server.Provision]
//   - read and edit the tree without a client: [Server.Get], [Server.Create],
//     [Server.Set], [Server.Delete], [Server.Dump], [Server.Sessions]
//   - count requests and round trips: [Server.Counts]
//   - inject faults into requests that a predicate selects ([Server.Inject]) or
//     into watch events ([Server.InjectEvent])
//   - expire, disconnect, partition or swap sessions: [Server.Expire],
//     [Server.Disconnect], [Server.Partition], [Server.SwapSessionID]
//   - freeze, refuse connections or become read-only: [Server.Freeze],
//     [Server.RefuseDials], [Server.SetReadOnly]
//   - simulate a follower that lags behind, or a leader that is cut off:
//     [Server.Replica]
//
// # Limits
//
// A packet longer than [WithMaxFrame] allows ends its connection before memory is allocated for it. While a connection has 8 MiB
// of requests waiting, or 8 MiB of replies unread, the server reads nothing from it. Watch events for a client that does not read
// pile up to 64 MiB; then the server cuts the connection. Only memory limits the tree.
//
// # Fidelity
//
// The server answers as Apache ZooKeeper 3.8.0 does, standalone, in the build of Debian 12 (3.8.0-11+deb12u2). Package conformance checks
// this with written scenarios (about 900 replies and events of the real server) and with random sequences from three sessions, played to
// both servers. In the last long run both servers gave the same 442,713 replies and events to 11,000 sequences. They were the same in
// results, codes, Stats, children, data, order, and the exact zxid of each. kazoo and Curator run their locks, elections and caches on this
// server. CONFORMANCE.md lists every operation and fault with the test that exercises it, and the differences found on the way.
//
// Supported:
//
//   - create and create2 in every mode, container and TTL nodes with reaping,
//     delete, exists, getData, setData, getACL, setACL, getChildren and
//     getChildren2, sync, multi, multiRead, getAllChildrenNumber,
//     getEphemerals, whoAmI, setWatches and setWatches2, addWatch (persistent
//     and recursive), removeWatches, checkWatches, auth, closeSession, ping
//   - sequence numbers from the parent's create count, until they run out at 2^31
//   - sessions: negotiated and rounded timeouts, expiry, re-attachment by
//     password, take-over, SessionMoved between servers of an ensemble
//   - ACLs of the schemes world, auth, digest, ip, with [WithTLS] x509, and with
//     [WithSASL] sasl; the super digest
//   - logins by SASL DIGEST-MD5 ([WithSASL]), which may be required
//     ([WithSASLRequired])
//   - quotas, counted always and enforced with [WithQuotaEnforcement]
//   - jute.maxbuffer ([WithMaxFrame]), TLS, read-only mode
//   - the four-letter words ruok srvr stat mntr cons dump wchs wchp wchc conf isro envi
//     crst srst
//
// Not supported:
//
//   - Kerberos; without [WithSASL] a token is answered with an empty one, as by a
//     server without SASL
//   - reconfiguration: the answer is ReconfigDisabled, as from a standalone
//     server by default
//   - persistence, snapshots, elections, observers, local sessions (except read-only)
//   - the admin server, JMX, Prometheus, the audit log; mntr has only the sixteen
//     gauges that mean something here
//   - throttling of requests and connections: inject [Fail] with
//     [CodeThrottled] instead
//   - the order of a Java hash set: several events of one transaction for one
//     connection come in order of path, and children are listed in order
package zktest

// The packages in internal do not use Server. internal/wire has the frames, internal/store the tree as a state machine, and internal/watch
// the watches. internal/outbox has the frames that a connection has yet to send, internal/words the answers to four-letter words.
// internal/digestmd5 has a login, internal/release the differences between releases of ZooKeeper, and internal/pipe a network without
// sockets.
//
// The files, along a frame's way: listen.go accepts connections. read.go lets package wire cut the stream into frames and decode them.
// fault.go decides what goes wrong, and conn.go queues requests. exec.go and reads.go ask the store and encode its answers; session.go and
// auth.go know the client. replica.go is another server's view of the tree, with its watchers. reap.go and the sessions' timers act by
// themselves. inspect.go, counts.go, disrupt.go and event.go serve the test, and words.go reports the server's state to internal/words.
//
// One lock (Server.mu) guards all of this. It is never held across I/O or a sleep, because in a bubble a goroutine that waits for a mutex
// stops time. So everything that may block (a reader, a writer, a fault's predicate) runs without the lock.
