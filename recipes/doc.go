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
// it was granted in, and when that session is over, or must be taken to be over,
// the lease is lost, for good, and its Context is cancelled with the cause.
//
// A session is Suspect while it is disconnected or nothing proves it. A lease
// is still held then (unless Config.LoseOnSuspect says otherwise): a short break
// costs nothing. While it holds anything, or is next in line for a mutex, the
// client commits one write every sixth of the session timeout, whatever the
// number of locks, because only a committed write proves that a session lives: a
// server cut off from the others answers pings, reads and even sync for seconds
// after the rest have let a rival in. The lease ends half a session timeout after the last committed write was
// sent, by this process's own clock and not by an event that may never come.
//
// # What a grant means
//
//   - Order. At one moment (zxid) before the grant, the contender's node existed,
//     belonged to this session, and every conflicting earlier contender was gone:
//     a listing shows that, or the event of the last one's deletion where the
//     contender's own node is watched too. This needs no clock.
//   - Life. The session has committed a write, sent less than half its timeout
//     before the grant: the create, a heartbeat, or one made for the purpose. The
//     lease's clock counts from then.
//   - Fencing. [Lease.Token] grows from grant to grant, across sessions, restarts
//     and re-created nodes. A resource that refuses tokens smaller than the
//     largest it has seen never obeys a stale holder. This needs no clock.
//   - Guarded writes. What [Lease.Multi] writes to ZooKeeper is never applied
//     after the lease is gone; of readers that share a contender, after the last
//     of them. This needs no clock.
//   - One believer. No two processes hold a valid Lease at once, if the session
//     timeout is at least four ticks of the servers, and this process's clock
//     runs at the right rate, within a sixteenth, while the process is scheduled.
//
// Grants are made in the order of arrival at ZooKeeper. A goroutine waits its
// turn in its client first, in order of arrival there: goroutines of one client
// share one place in the queue, and between two of them the place goes to the
// end, so other processes get theirs. A release wakes one waiter. Readers are
// the exception to both: those of one client hold one place together, which goes
// with the last of them, and a writer's release wakes all readers that waited
// for it. A reader may share a place older than itself while that waits; one that
// is held it shares only while no writer is queued.
//
// A context derived from a lease's carries the lease. Locking the same lock with it is ErrWouldDeadlock, or enters the
// lease again where the handle was made [WithReentrancy].
//
// # A lock that is kept
//
// A worker that locks and unlocks again and again, and mostly alone, pays two round trips each time to learn what it knew: that
// nobody else wants the lock. [WithRetention] keeps a mutex for a time after the last goroutine of the client has given it
// back, as file systems and databases cache locks, so that the next Lock costs no request and takes microseconds.
//
// A kept lock is a held lock. All that is said here of a grant, of heartbeats and of loss is true of it: other clients
// find its node ahead of theirs, its session commits heartbeats, and when that session is over it is lost like a lease. What is
// different: nobody is at work in it, so nothing keeps it from being given up. The client watches the queue, from the grant on.
// As soon as it hears that anybody queues, of whatever library, that the lock is drained or moved, or asked back, it
// deletes its node, without waiting for the time to pass. So a rival waits for one event and one delete longer than on a free
// lock: about a round trip of each of the two clients, if this one's process runs. If it stands still, the rival waits as for
// any holder that does.
//
// What it costs is the order of tokens within the client: they order clients, and retentions, and no more the goroutines that
// held the lock within one. A store that has to refuse the late write of one goroutine behind the write of the next one
// in the same process needs a token for each grant: leave the option out there.
//
// # What is not guaranteed
//
//   - That a process stops acting in time. Between a look at the Context and the
//     act a process may be paused for as long as it likes. Use the token, or Multi.
//   - One believer, for a client whose session somebody else has closed: whoever
//     knows a session's number and password can end it in its owner's name. Its
//     nodes are gone at once, and a rival may be granted before the owner hears of
//     it. Its leases end by its deadline at the latest. Tokens and Multi hold.
//   - That a lost session's nodes are gone at once. A crash leaves them until the
//     servers expire the session: the next waiter is granted within the session
//     timeout and two ticks while a majority of the servers can be reached.
//   - Order between clients of which one has WithLocalHandoff, which lets
//     goroutines overtake other processes, up to a number; and tokens of their own
//     for those goroutines, or for those that share a retention.
//   - Anything beside programs that delete, by hand, nodes that are not theirs.
//     Such a deletion is noticed and ends the lease, after the fact. A holder's
//     node is watched once the lock has been held for 100 ms; a deletion, or a
//     request to give the lock back, that comes earlier is noticed then.
//   - Exclusion across different wire formats: Curator's clients do not see
//     kazoo's contenders, and a lock declared for one must not be used by the other.
//
// # What a crash leaves behind
//
// Nothing for longer than a session: every contender is an ephemeral node. A
// create or delete whose reply was lost is resolved, in the background if its
// caller has gone, until the outcome is known or the session is over; no call
// leaves a node in a queue that it has left. A server whose threads stand still
// can execute a create after a later write of its session has shown it absent,
// when the session has been elsewhere and come back. Such a node is looked for
// for an hour, and deleted at the latest when it was late for about that time
// again. [Client.Close] ends the session, so that its locks are free at once.
//
// # Other clients
//
// By default contenders carry the names of Apache Curator's recipes, and Java
// programs contend for the same locks. Python programs do too with kazoo, through
// two-line subclasses that write those names:
//
//	class CuratorLock(Lock):   _NODE_NAME = "-lock-";   _EXCLUDE_NAMES = ["lock-"]
//	class CuratorWrite(WriteLock): _NODE_NAME = "__WRIT__"; _EXCLUDE_NAMES = ["__WRIT__", "__READ__"]
//	class CuratorRead(ReadLock):   _NODE_NAME = "__READ__"; _EXCLUDE_NAMES = ["__WRIT__"]
//
// Before kazoo 2.9 (Debian has 2.8.0) CuratorRead must also override
// _get_predecessor (python-zk/kazoo#649): testdata/interop/README.md shows how.
// Stock kazoo serves where the lock is declared with wire = "kazoo"; such a lock is
// not for Curator. Children that are nobody's contender are ignored, and shown
// by package inspect.
//
// # Testing
//
// Package zktest is an in-memory ZooKeeper for tests of programs that take
// locks. Its documentation starts with such a test.
//
// # Where the proofs are
//
// The proofs stand where they are kept: of a grant at place.prove, of a lease at proof of package session,
// of a lost reply at txn.resolve, of permits at acquisition.settle and place.serve, of sets at [MultiLock],
// of places that are kept at retention,
// of watches at Session.attach, of the order where numbers wrap at kind.SortContenders. Who
// changes one of these runs TestSimulation, the tests that cut connections at every byte (cut_test.go,
// cuts_test.go) and TestZoo, whose exhibits are ways in which others were wrong.
package recipes
