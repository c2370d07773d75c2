// Package recipes gives Go programs the coordination recipes that run on ZooKeeper. A lock is a node, whose kind and parameters
// are declared in it and checked when a program uses the lock.
//
//	c, err := recipes.Dial(ctx, recipes.Config{Servers: []string{"zk1:2181", "zk2:2181"}})
//	m := c.Mutex("/locks/payments/ledger")
//	err = m.Do(ctx, func(ctx context.Context, l *recipes.Lease) error {
//		return store.Write(ctx, l.Token(), row) // ctx ends if the lock is lost
//	})
//
// Declare a lock in a *.locktree.hcl file and run "locktree apply"; a test declares it with zktest's Server.Provision. A program may
// bring the parameters itself, with [WithParams], and create the node with [WithCreate]. A lock that is not there is
// [ErrNotProvisioned], one of another kind [ErrKindMismatch].
//
// # The recipes
//
//   - [Mutex]: one holder.
//   - [RWMutex]: many readers or one writer.
//   - [Semaphore]: a declared number of permits.
//   - [Election]: one leader, and followers that observe who leads.
//   - [MultiLock]: several of these, but no semaphore, all or none.
//   - [Keyed]: a lock for each key, of which only the family is declared (docs/keyed.md).
//   - Package once: a job that runs once for each slot of its schedule, whichever machine starts it (docs/once.md).
//
// Locks are granted in the order of arrival at ZooKeeper. Goroutines of one client wait in the process, share one place in the
// queue, and queue at the end again after each of them. Contenders have the names of Apache Curator's recipes, so Java programs
// contend for the same locks; wire = "kazoo" is for Python's. Package inspect shows who holds and who waits.
//
// # Context and token
//
// Each grant is a [Lease]. Its Context, which Do passes to its function, ends when the lease is released, lost or asked back.
// [Lease.Token] grows from grant to grant, across sessions, restarts and re-created nodes: a store that refuses tokens smaller than
// the largest it has seen never obeys a stale holder. ZooKeeper applies a write of [Lease.Multi] only while the lease's node
// exists, so never after a conflicting lease was granted. Neither needs a clock. A context derived from the lease's carries the
// lease: locking the same lock with it is [ErrWouldDeadlock], unless the handle was made with [WithReentrancy].
//
// # Loss
//
// A [Client] outlives sessions; a Lease does not. A session is Suspect while it is disconnected, or while nothing proves that it is
// alive; its leases are still held then, unless Config.LoseOnSuspect is set. Only a committed write proves life, so a client that
// holds anything commits one every sixth of the session timeout. A lease ends half a session timeout after the last of them was
// sent, by this process's clock, and that is final. No two processes hold a valid lease at once if the session timeout is at least
// four ticks of the servers, and if this process's clock runs at the right rate, within a sixteenth, while it is scheduled.
//
// # More than one lock
//
// [MultiLock] takes locks together and cannot deadlock. Programs that take them one by one, in different orders, can wait for each
// other in a circle. A declared order refuses such a call with [ErrLockOrder], and [WithMaxWait] ends it. A program that holds one
// lock at a time gives each back with [Lease.Release], which waits for no answer. docs/mutex.md says more.
//
// # Options
//
// [WithMaxWait] and [WithMaxRelease] bound calls. [WithID] names the holder. Config.Observer receives what happens: [LogEvents] logs
// it, and packages prom and otel make metrics and traces of it. [Detach] lets work outlive the lease that it
// was started under. [Client.Session] is for operations of your own.
//
// # What is not guaranteed
//
//   - That a process stops acting in time. It may be paused for any time between checking the Context and acting. Use the token,
//     or Multi.
//   - One believer, if somebody else closes the client's session, which takes its id and password. A rival may be granted the lock
//     before the owner learns of that. The owner's leases end at their deadline at the latest; tokens and Multi still protect.
//   - That a lost session's nodes are gone at once. After a crash they stay until the servers expire the session: the next waiter
//     is granted within the session timeout and two ticks, if a majority of the servers can be reached.
//   - Two processes, if one was restored from a snapshot of the other's memory and both run: they have the same session.
//   - Anything, if programs delete nodes that are not theirs. The client notices that after the fact, in the first 100 ms of a lease
//     only when these are over, and then ends the lease.
//   - Exclusion across different wire formats: Curator's clients do not see kazoo's contenders.
//
// Nothing outlasts the session, because every contender is an ephemeral node; a call that has given up leaves none behind. docs/safety.md
// says what a grant rests on, which errors there are, and which of them are worth another try. Package zktest is a ZooKeeper server
// in memory, for tests.
package recipes
