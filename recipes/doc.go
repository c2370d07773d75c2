// Package recipes gives Go programs the coordination recipes that run on
// ZooKeeper: mutex, read-write lock, semaphore, leader election and sets of
// locks taken at once. A lock's parameters are declared in its node, by
// locktree apply, and checked when a program uses the lock.
//
//	c, err := recipes.Dial(ctx, recipes.Config{Servers: []string{"zk1:2181", "zk2:2181"}})
//	m := c.Mutex("/locks/payments/ledger")
//	err = m.Do(ctx, func(ctx context.Context, l *recipes.Lease) error {
//		return store.Write(ctx, l.Token(), row) // ctx ends if the lock is lost
//	})
//
// # Sessions, doubt and loss
//
// A [Client] outlives sessions; a [Lease] does not. A lease is bound to the
// session it was granted in. When that session is over, or must be assumed to be
// over, the lease is lost for good, and its Context is cancelled with the cause.
//
// A session is Suspect while it is disconnected, or while nothing proves that it
// is alive. Its leases are still held then (unless Config.LoseOnSuspect is set),
// so a short interruption costs nothing. While a client holds anything, or is next in line
// for a mutex, it commits one write every sixth of the session timeout, however
// many locks it has. Only a committed write proves that a session is alive: a
// server that is cut off from the others answers pings, reads and even sync for
// seconds after the others have granted the lock to a rival. A lease ends half a
// session timeout after the last committed write was sent, by this process's own
// clock, so its end does not depend on an event that may never arrive.
//
// # What a grant means
//
//   - Order. At one moment (zxid) before the grant, the contender's node existed
//     and belonged to this session, and every conflicting earlier contender was
//     gone. A listing shows that, or the deletion of the last earlier contender if
//     the contender's own node is watched too. This needs no clock.
//   - Life. The session has committed a write that was sent less than half its
//     timeout before the grant: the create, a heartbeat, or a write made for this
//     purpose. The lease's time counts from the sending of that write.
//   - Fencing. [Lease.Token] grows from grant to grant, across sessions, restarts
//     and re-created nodes. A resource that refuses tokens smaller than the
//     largest it has seen never obeys a stale holder. This needs no clock.
//   - Guarded writes. ZooKeeper applies a write of [Lease.Multi] only while the
//     lease's contender exists, so never after a conflicting lease was granted to
//     anybody. This needs no clock. A lease can end before its contender is gone:
//     a write that was sent before the end may be applied in between.
//   - One believer. No two processes hold a valid Lease at once if the session
//     timeout is at least four ticks of the servers, and if this process's clock
//     runs at the right rate, within a sixteenth, while the process is scheduled.
//
// Locks are granted in the order of arrival at ZooKeeper. A goroutine first waits
// for its turn within its client, in the order of arrival there. The goroutines of
// one client share one place in the queue. After each of them the client queues at
// the end again, so that other processes get their turns. A release wakes one
// waiter; the release of a mutex also notifies the waiter behind it. Readers are
// the exception to both rules: the readers of one client hold one place together
// until the last of them has released it, and a writer's release wakes all readers
// that waited for it. A reader may share a place that was queued before it came,
// as long as that place waits; it shares a place that is held only while no writer
// is queued.
//
// A context derived from a lease's Context carries the lease. Locking the same
// lock with it fails with ErrWouldDeadlock; a handle made with [WithReentrancy]
// enters the lease again instead.
//
// # A lock that is kept
//
// A worker that takes the same lock again and again pays two round trips each time, mostly to learn that nobody else
// wants it. [WithRetention] keeps a mutex for some time after the last goroutine of the client has released it, as file
// systems and databases cache locks. The next Lock then costs no request and takes microseconds.
//
// A kept lock is a held lock. Everything said above about grants, heartbeats and loss applies to it: other clients find
// its node ahead of theirs, its session commits heartbeats, and it is lost with that session. But nobody works under it,
// so the client can give it up at any time. The client watches the queue from the grant on. As soon as a client of any
// library queues, or the lock is drained, moved or revoked, it deletes its node. A rival therefore waits for one event
// and one delete longer than for a free lock: about one round trip of each of the two clients, provided that this process
// runs. If this process is stopped, the rival waits as for any stopped holder.
//
// The price: tokens order clients and retentions, but not the goroutines that held the lock within one retention. If a
// store must refuse a late write of one goroutine after a write of the next one in the same process, each grant needs a
// token of its own, so do not use the option there.
//
// # What is not guaranteed
//
//   - That a process stops acting in time. A process may be paused for any time
//     between checking the Context and acting. Use the token, or Multi.
//   - One believer, if somebody else closes the client's session. Anybody who
//     knows a session's id and password can close it. The session's nodes are
//     then gone at once, and a rival may be granted the lock before the owner
//     learns of the loss. The owner's leases end at their deadline at the latest.
//     Tokens and Multi still protect.
//   - That a lost session's nodes are gone at once. After a crash they stay until
//     the servers expire the session: the next waiter is granted within the
//     session timeout and two ticks, if a majority of the servers can be reached.
//     A client that lives on, after an outage, ends its lost session with the first
//     request of the next one, so nobody waits longer for it. It does not end what
//     may still be in use: the place of a lost lease stays until Unlock was called
//     and the function of Do or Lead has returned, or until the servers expire it.
//   - Two processes, if one was restored from a snapshot of the other's memory and
//     both run. They have the same session, and the one that takes it for lost ends
//     it for both.
//   - Order between clients if one of them uses WithLocalHandoff, which lets up to
//     a given number of its goroutines overtake other processes; and separate
//     tokens for those goroutines, or for those that share a retention.
//   - Anything, if programs delete nodes that are not theirs. The client notices
//     such a deletion only after the fact, and then ends the lease. It watches a
//     holder's node once the lock has been held for 100 ms, and notices an earlier
//     deletion or revocation at that time.
//   - Exclusion across different wire formats: Curator's clients do not see
//     kazoo's contenders, and a lock declared for one must not be used by the other.
//
// # What an error means
//
// Before the grant. These come from Lock, Try, Acquire and Campaign methods, and from Do and Lead, whose function has not
// run then. Nothing is held, and nothing stays in the queue: what a request under way may still create is deleted in the
// background. The last column is what [Retryable] returns.
//
//	error                                   why                                                again
//	*HeldError of a Try (ErrHeld)           others hold the lock, or are ahead                 no
//	the error of ctx                        ctx ended, or WithMaxWait passed: in a *HeldError  no
//	                                        if it is known who is ahead; it is ErrUnreachable
//	                                        too if the session was not active then
//	ErrUnreachable                          a Try found no connection                          yes
//	ErrSessionLost                          the place in the queue went with its session       yes
//	ErrLost                                 somebody deleted the place in the queue            yes
//	ErrRevoked                              somebody asked this waiter to leave                yes
//	session.ErrThrottled                    the servers shed the request                       yes
//	ErrQueueFull, ErrSessionFull,           a limit is reached                                 no
//	session.ErrQuotaExceeded
//	ErrNotProvisioned, ErrKindMismatch,     the declaration, or an access list, does not       no
//	ErrDraining, ErrMoved, zk.ErrNoAuth,    admit the call
//	ErrTooManyPermits, ErrCannotHeartbeat,
//	ErrSequenceExhausted, ErrAuth
//	ErrWouldDeadlock, session.ErrReadOnly,  the program asks for what cannot be                no
//	ErrClosed
//	any other                               a server failed; the text says how                 no
//
// After the grant. These come from Unlock, and from Do and Lead, whose function has returned then; they join its error with
// the others. The lock is not held any more.
//
//	error                                   why                                                again
//	what the function returned              whatever that wraps                                no
//	ErrReleasePending                       ctx or WithMaxRelease ended the wait for it, or    no
//	                                        the session did: the node is being deleted, or
//	                                        goes with the session; until then others wait
//	ErrLost                                 the lease was lost before it was given back: the   no
//	                                        work may have overlapped with another holder's
//
// # What a crash leaves behind
//
// Nothing outlasts the session, because every contender is an ephemeral node. If
// the reply to a create or delete is lost, the client finds out what happened, in
// the background if the call has returned, until the outcome is known or the
// session is over. A call that has given up leaves no node in the queue. A server
// whose threads stall can execute a create so late that later writes of the
// session, sent to another server, have already shown the node to be absent. The
// client looks for such a node for an hour. A node that was late by some time is
// deleted after about the same time again, at the latest. [Client.Close] ends the
// session, which frees its locks at once.
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
// cannot use. Children that are not contenders are ignored; package inspect shows
// them.
//
// # Testing
//
// Package zktest is an in-memory ZooKeeper server for tests of programs that use
// locks. Its documentation begins with such a test.
//
// # Where the proofs are
//
// Each proof is a comment beside its code: of a grant at place.prove, of a lease
// at proof in package session, of a lost reply at txn.resolve, of permits at
// acquisition.atOnce and place.serve, of sets at [MultiLock], of kept places at
// retention, of watches at Session.attach, and of the order of numbers that wrap
// at kind.SortContenders. After changing one of these, run TestSimulation, the
// tests that cut connections at every byte (cut_test.go, cuts_test.go), and
// TestZoo, whose exhibits put bugs of this and other libraries into the code.
package recipes
