// Package recipes gives Go programs the coordination recipes that run on ZooKeeper. A lock is a node. Its data declare its kind
// and parameters, and the library checks them when a program uses the lock.
//
//	c, err := recipes.Dial(ctx, recipes.Config{Servers: []string{"zk1:2181", "zk2:2181"}})
//	m := c.Mutex("/locks/payments/ledger")
//	err = m.Do(ctx, func(ctx context.Context, l *recipes.Lease) error {
//		return store.Write(ctx, l.Token(), row) // ctx ends if the lock is lost
//	})
//
// Declare a lock in a *.locktree.hcl file and run "locktree apply"; a test declares it with zktest's Server.Provision. A program
// may bring the parameters itself, with [WithParams], and create the node with [WithCreate]. The error [ErrNotProvisioned] says
// that the node is missing, or has no declaration that the program can read, and [ErrKindMismatch] that it declares another kind.
//
// # The recipes
//
//   - [Mutex]: one holder.
//   - [RWMutex]: many readers or one writer.
//   - [Semaphore]: a declared number of permits.
//   - [Election]: one leader, and followers that observe who leads.
//   - [MultiLock]: several of these locks at once, all or none; semaphores are excluded.
//   - [Keyed]: a family of locks, one for each key. Only the family is declared (docs/keyed.md).
//   - Package once: a job that runs once for each slot of its schedule, whichever machine starts it (docs/once.md).
//
// Locks are granted in the order of arrival at ZooKeeper. Goroutines of one client wait in the process and share one place in the
// queue. If more of them wait after a grant, the client queues again, at the end of the queue. But each reader has its own node.
// A call for permits joins the queue only if the permits are not granted at once. The nodes have the names that Apache Curator's
// recipes use, so Java programs contend for the same locks. A lock that declares wire = "kazoo" has the names of Python's kazoo.
// Package inspect shows who holds and who waits.
//
// # Context and token
//
// Each grant is a [Lease]. Its Context, which Do passes to its function, ends when the lease is released, lost or revoked.
// [Lease.Token] grows with each exclusive grant, across sessions, restarts and re-created nodes. So a store that refuses tokens
// smaller than the largest it has seen never obeys a stale holder. Show the store no token of a read lease: see
// [RWMutex.Downgrade]. ZooKeeper applies a write of [Lease.Multi] only while the lease's node exists, so never after a
// conflicting lease was granted. Neither the token nor Multi needs a clock. A context derived from the lease's Context carries
// the lease. Locking the same lock with such a context fails with [ErrWouldDeadlock], unless the handle was made with
// [WithReentrancy].
//
// # Loss
//
// A [Client] outlives sessions; a Lease does not. A session is Suspect while it is disconnected, or while nothing proves that it
// is alive. Its leases are still held then, unless Config.LoseOnSuspect is set. Only a committed write proves life, so a client
// that holds anything commits a write every sixth of the session timeout. A lease ends at most half a session timeout after its
// session's last committed write was sent, by this process's clock. An ended lease stays ended. Under two conditions two
// processes never hold a valid lease at once. First, the session timeout is at least four ticks of the servers. Second, while a
// process runs, its clock is at most a sixteenth too fast or too slow.
//
// # More than one lock
//
// [MultiLock] takes locks together and cannot deadlock. Programs that take locks one by one, in different orders, can wait for
// each other in a circle. If the locks have a declared order, a call against that order fails with [ErrLockOrder]. [WithMaxWait]
// ends a wait that takes too long. A program that holds one lock at a time, and many in a row, can give each back with
// [Lease.Release], which waits for no answer. docs/mutex.md says more.
//
// # Options
//
// [WithMaxWait] and [WithMaxRelease] bound calls. [WithID] names the holder. Config.Observer receives what happens: [LogEvents]
// logs it, and packages prom and otel make metrics and traces of it. [Detach] lets work outlive the lease under which it was
// started. [Client.Session] gives access to other nodes.
//
// # What is not guaranteed
//
//   - A process may act too late: it can be paused for any time between its check of the Context and its act. Use the token, or
//     Multi.
//   - Two processes may believe that they hold a lock if a program with the client's session id and password closes the session.
//     A rival can then be granted the lock before the owner learns that its session is closed. The owner's leases end at their
//     deadline at the latest. Tokens and Multi still protect.
//   - The nodes of a process that crashed stay until the servers expire its session. The next waiter is granted within the
//     session timeout and two ticks, if a majority of the servers can be reached.
//   - A process and its copy, restored from a snapshot of its memory, use the same session. While both run, both can hold a lock.
//   - If a program deletes nodes of others, two processes can hold a lock. The client that owned the node ends its lease when it
//     learns of the deletion. In the lease's first 100 ms that client may not watch the node yet. It then learns of a deletion
//     only after the 100 ms.
//   - Different wire formats do not exclude each other: Curator's clients do not see kazoo's contenders.
//
// Holders and waiters are ephemeral nodes, so none outlasts its session. A call that gives up deletes its own nodes.
// docs/safety.md says why a grant is safe, which errors there are, and after which errors another try is worth it. Package zktest
// is a ZooKeeper server in memory, for tests.
package recipes
