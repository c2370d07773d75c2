// Package apply reads the live tree of a stack and carries out a plan.
//
// # What an apply promises
//
// The structure, the parameters, the access lists of new nodes, the quotas and the
// index change in one ZooKeeper transaction: all or nothing. Plans that do not fit
// into one are cut into several, each of which leaves whole locks and its part of
// the index; an apply that ends between two is finished by the next. Servers that
// read less than ZooKeeper's default (jute.maxbuffer) get smaller ones, down to one
// lock with its part of the index: 80,000 bytes are enough for some thousand locks. A
// transaction is taken for too long only when a harmless request of its length ends the
// connection, too, and short ones do not. It is sent only when every node the plan
// relied on is still as the plan saw it, and it is fenced: its first operation checks
// the apply lock, so that a program that was paused past its session commits nothing. A
// lost reply is resolved by reading back the apply id the transaction writes, or, where
// a destroy leaves no index, the count of destroys; never guessed.
//
// It writes no node without this stack's marker but what an import block names, and
// deletes no node that has children: a lock with a holder or a waiter makes the
// transaction fail as a whole, whenever the contender arrived. Locks that are
// broken by force, each by its address, are the exception.
//
// # What it does not promise
//
// ZooKeeper cannot set access lists in a transaction. Those of nodes that exist
// already are set one by one afterwards, each guarded by its version and noted
// in the index beforehand; an apply that is interrupted there leaves nodes with
// their old lists, and the next one finishes. They are set in two passes: everybody who gains
// something has it everywhere before anybody loses anything, so that an apply that replaces an
// administrator's credential leaves the old one or the new one able to do everything, wherever
// it ends.
//
// Who may apply is judged here (may.go), and not by who planned: the connection has to be one
// of the administrators the plan declares, if it declares any.
//
// A node that is deleted and created again by hand, with equal versions, in the
// milliseconds between the verification and the transaction is not told apart
// from the one that was verified.
//
// # How to use it
//
//	x := &apply.Executor{Client: client, Events: show, LockTimeout: time.Minute}
//	locked, err := x.Lock(ctx, e.Tree) // e is one of the Ensembles of config.Load
//	defer x.Unlock(ctx)
//	live, err := apply.Read(locked, session, e.Tree)
//	p := plan.Diff(live, e.Tree, plan.Options{Identities: who})
//	// show p; stop unless p.Applyable(); ask
//	result, err := x.Run(ctx, p)
//
// That is what the command does. The lock comes first: a plan that is made under it is still
// right when it is approved. Without Lock, Run takes the lock itself. That is for a plan that
// was saved: it is refused as stale when another apply has finished since.
//
// The tree says everything that is declared: the nodes, and in its Intent what was moved,
// imported and removed, quotas, outputs and administrators. A tree that is copied without its Intent plans the
// deletion of what was moved. The example of the package is a whole program.
//
// The error says whether anything of the plan was written: nothing, but for [*PartialError],
// [*ACLPhaseError], [*VerifyError] and, perhaps, [*UnknownError]. With a [*ClosedError] locks
// stay closed that it had closed for the plan.
//
// # Where what is
//
// Reading: read.go walks the tree; index.go, usage.go, quota.go, adopt.go and frame.go read
// what belongs to a node besides it; readshare.go keeps one copy of what is alike.
//
// A Run, in its order (run.go): all transactions are built and measured, before anything is
// asked; verify.go compares the pins; scaffold.go makes the nodes the lock needs; lock.go
// takes it, unless Lock has, and everything is verified again under it; widen.go and drain.go prepare nodes
// that need it; commit.go sends each transaction and finds out what became of it, with
// break.go in front of it; aclphase.go sets the access lists and reads back. check.go is the
// part of that which writes nothing.
//
// What the person is told: event.go while it runs, errors.go and explain.go at its end.
//
// # Interrupts
//
// The caller's context ends a Run before a transaction, between two, and between two access
// lists. What became of a transaction that was sent has to be found out: that runs under
// contexts of its own (sending.sendOps, job.detached), which end after some session timeouts.
//
// The package prints nothing. What happens is reported as values of [Event].
package apply
