// Package recipes gives Go programs the coordination recipes that run on
// ZooKeeper: mutex, read-write lock, semaphore, leader election and several
// locks taken at once. Their parameters are declared in the lock's node, by
// locktree apply, and checked when a program uses it.
//
//	c, err := recipes.Dial(ctx, recipes.Config{Servers: []string{"zk1:2181", "zk2:2181"}})
//	m := c.Mutex("/locks/payments/ledger")
//	err = m.Do(ctx, func(ctx context.Context, l *recipes.Lease) error {
//		return store.Write(ctx, l.Token(), row) // ctx ends if the lock is lost
//	})
//
// # Sessions, doubt and loss
//
// A [Client] outlives sessions; a [Lease] does not. It is bound to the session
// it was granted in. When that session is over, or must be assumed to be over, the
// lease is lost for good, and its Context is cancelled with the cause.
//
// A session is Suspect while it is disconnected, or while nothing proves that it
// is alive. A lease is still held then (unless Config.LoseOnSuspect is set), so a
// short break costs nothing. While a client holds anything, or is next in line
// for a mutex, it commits one write every sixth of the session timeout, however
// many locks it has. Only a committed write proves that a session is alive: a
// server that is cut off from the others answers pings, reads and even sync for
// seconds after the others have granted the lock to a rival. The lease ends half
// a session timeout after the last committed write was sent, by this process's
// own clock; it does not depend on an event that may never come.
//
// # What a grant means
//
//   - Order. At one moment (zxid) before the grant, the contender's node existed
//     and belonged to this session, and every conflicting earlier contender was
//     gone. A listing shows that; so does the deletion of the last of them, if the
//     contender's own node is watched too; and so does a sequence number that
//     follows that of a contender of this client which was the first and has gone.
//     This needs no clock.
//   - Life. The session has committed a write that was sent less than half its
//     timeout before the grant: the create, a heartbeat, or a write made for the
//     purpose. The lease's time counts from there.
//   - Fencing. [Lease.Token] grows from grant to grant, across sessions, restarts
//     and re-created nodes. A resource that refuses tokens smaller than the
//     largest it has seen never obeys a stale holder. This needs no clock.
//   - Guarded writes. What [Lease.Multi] writes to ZooKeeper is never applied
//     after the lease is gone; for readers that share a contender, after the last
//     of them has gone. This needs no clock.
//   - One believer. No two processes hold a valid Lease at once if the session
//     timeout is at least four ticks of the servers, and if this process's clock
//     runs at the right rate, within a sixteenth, while the process is scheduled.
//
// Grants are made in the order of arrival at ZooKeeper. A goroutine first waits
// for its turn within its client, in order of arrival there. The goroutines of
// one client share one place in the queue; between two of them the client queues
// at the end again, so that other processes get their turns. A release wakes one
// waiter; a mutex's tells the one behind it too. Readers are the exception to
// both rules: those of one client hold one place together until the last of them
// has gone, and a writer's release wakes all readers that waited for it. A reader
// may share a place that is older than itself while that place waits; it shares
// one that is held only while no writer is queued.
//
// A context derived from a lease's Context carries the lease. To lock the same
// lock with it is ErrWouldDeadlock; a handle made with [WithReentrancy] enters the
// lease again instead.
//
// # A lock that is kept
//
// A worker that takes the same lock again and again pays two round trips each time, mostly to learn that nobody else
// wants it. [WithRetention] keeps a mutex for some time after the last goroutine of the client has released it, as file
// systems and databases cache locks. The next Lock then costs no request and takes microseconds.
//
// A kept lock is a held lock. Everything said above about grants, heartbeats and loss applies to it: other clients find
// its node ahead of theirs, its session commits heartbeats, and it is lost with that session. But nobody works under it, so it can
// be given up at any time. The client watches the queue from the grant on. As soon as a client of any library queues, or
// the lock is drained, moved or revoked, the client deletes its node at once. A rival therefore waits for one event and one delete
// longer than for a free lock: about one round trip of each of the two clients, provided that this process runs. If it is
// stopped, the rival waits as for any stopped holder.
//
// The price: tokens order clients and retentions, and no longer the goroutines that held the lock within one retention.
// If a store must refuse the late write of one goroutine after a write of the next one in the same process, each grant needs a
// token of its own. Leave the option out then.
//
// # What is not guaranteed
//
//   - That a process stops acting in time. A process may be paused for any time
//     between looking at the Context and acting. Use the token, or Multi.
//   - One believer, for a client whose session somebody else closes. Anybody who
//     knows a session's number and password can close it. Its nodes are then gone
//     at once, and a rival may be granted before the owner learns of it. Its
//     leases end at its deadline at the latest. Tokens and Multi still protect.
//   - That a lost session's nodes are gone at once. After a crash they stay until
//     the servers expire the session: the next waiter is granted within the
//     session timeout and two ticks, if a majority of the servers can be reached.
//   - Order between clients if one of them uses WithLocalHandoff, which lets its
//     goroutines overtake other processes, up to a number; and separate tokens
//     for those goroutines, or for those that share a retention.
//   - Anything if programs delete nodes that are not theirs. Such a deletion is
//     noticed and ends the lease, after the fact. A holder's node is watched once
//     the lock has been held for 100 ms; an earlier deletion or revocation is
//     noticed then.
//   - Exclusion across different wire formats: Curator's clients do not see
//     kazoo's contenders, and a lock declared for one must not be used by the other.
//
// # What a crash leaves behind
//
// Nothing that outlasts the session: every contender is an ephemeral node. If the
// reply to a create or delete is lost, the client finds out what happened, in the
// background if the caller has gone, until the outcome is known or the session is
// over. No call leaves a node in a queue that it has left. A server whose threads
// stall can execute a create so late that later writes of the session, sent to
// another server, have already shown it absent. The client looks for such a node
// for an hour, and deletes it at the latest after about as long again as it was
// late. [Client.Close] ends the session, which frees its locks at once.
//
// # Other clients
//
// By default contenders have the names that Apache Curator's recipes use, so Java
// programs contend for the same locks. Python programs can do so with kazoo and
// two-line subclasses that use those names:
//
//	class CuratorLock(Lock):   _NODE_NAME = "-lock-";   _EXCLUDE_NAMES = ["lock-"]
//	class CuratorWrite(WriteLock): _NODE_NAME = "__WRIT__"; _EXCLUDE_NAMES = ["__WRIT__", "__READ__"]
//	class CuratorRead(ReadLock):   _NODE_NAME = "__READ__"; _EXCLUDE_NAMES = ["__WRIT__"]
//
// Before kazoo 2.9 (Debian has 2.8.0) CuratorRead must also override
// _get_predecessor (python-zk/kazoo#649): testdata/interop/README.md shows how.
// Unchanged kazoo works with locks declared with wire = "kazoo", which Curator then
// cannot use. Children that are no contenders are ignored; package inspect shows
// them.
//
// # Testing
//
// Package zktest is an in-memory ZooKeeper server for tests of programs that use
// locks. Its documentation begins with such a test.
//
// # Where the proofs are
//
// Each proof is a comment beside the code it is about: a grant at place.prove, a
// lease at proof in package session, a lost reply at txn.resolve, permits at
// acquisition.settle and place.serve, sets at [MultiLock], kept places at retention,
// watches at Session.attach, and the order of numbers that wrap at
// kind.SortContenders. After a change of one of these, run TestSimulation, the tests
// that cut connections at every byte (cut_test.go, cuts_test.go), and TestZoo,
// whose exhibits are mistakes that others made.
package recipes
