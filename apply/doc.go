// Package apply reads the live tree of a stack and carries out a plan. It prints nothing: it
// reports what happens as values of [event.Event], and its errors are [explain.Explainer].
//
//	run, err := apply.Begin(ctx, client, e.Tree, apply.Options{Events: show}) // e is one of the Ensembles of config.Load
//	defer run.Close()
//	p := run.Plan(plan.Options{})
//	// show p; stop unless p.Applyable(); ask, under run.Context()
//	result, err := run.Apply(ctx, p)
//
// Begin takes the apply lock before it reads, so a plan is still right when it is approved. An [Applier] applies a plan that was
// made before, under a lock that it takes then. If another apply has finished since, it refuses the plan as stale. The package
// example is a complete program.
//
// The tree contains everything that is declared: the nodes and, in its Intent, moves, imports,
// removals, outputs and administrators. A plan made without the Intent would delete a lock
// whose address changed, and create it again.
//
// # Guarantees
//
// The structure, the parameters, the access lists of new nodes and the record change in one ZooKeeper transaction: all or
// nothing. A plan that does not fit is cut into several transactions. After each of them, every lock exists completely or not at
// all. If an apply ends between two, the next apply finishes it. Servers that accept less than ZooKeeper's default
// (jute.maxbuffer) get smaller transactions, down to one lock with the record. If a transaction ends the connection, the apply
// sends a harmless request of the same length. The transaction counts as too long only if this request also ends the connection,
// while servers answer short ones.
//
// A transaction is sent only if every node that the plan relied on is unchanged. It is fenced: its first operation checks the apply
// lock, so a program that was paused past its session commits nothing. If the reply is lost, the apply never guesses. It reads the
// apply id in the record. Every destroy raises the data version of the apply lock. A destroy that had no record to delete learns
// its outcome from this version.
//
// An apply writes only nodes with this stack's marker. Exceptions are the nodes that it imports, the tool's own nodes, and the
// key nodes of a family. A family is a lock with keys: it has a node for each key that clients use. The tool's own nodes are
// .locktree, its contents, the root and created nodes above it. If others made the root, the apply only adds entries to its
// access list, and later removes its own. If the access list that a family gives to the nodes of its keys changes, an apply
// replaces it on the existing ones. If the family is deleted, the apply first deletes the nodes of unused keys. It deletes no
// node that has children: a holder or waiter makes the whole transaction fail, whenever it arrived. Only a lock that is named to
// be broken by force is deleted with its contenders.
//
// # What is not guaranteed
//
// ZooKeeper cannot set access lists of existing nodes in a transaction. If the plan removes administrators, new nodes are created
// with lists that still admit them. The apply sets the lists of existing nodes, and the final lists of such new nodes, afterwards,
// one by one. Each write is guarded
// by its version, and noted in the record beforehand. An apply that is interrupted there leaves nodes with their old lists, and
// the next one finishes. There are two passes: every right is granted everywhere before any is withdrawn. The access list of
// .locktree names the root's administrators. It gains entries first and loses entries last. So if an apply that replaces a
// declared administrator is interrupted, either the old or the new credential can still do everything. This does not hold for a
// stack without declared administrators. It does not hold for an apply with targets either: that apply leaves the lists of the
// tool's own nodes as they are.
//
// In the milliseconds between verification and transaction, a node may be deleted and created again by hand with equal versions.
// The apply cannot tell it from the verified node.
//
// Apply checks the connection, whoever made the plan: if the plan declares administrators, the connection has to be one of them.
//
// # Errors and interrupts
//
// If Apply returns an error nothing of the plan was written, except with [*failure.PartialError], [*failure.ACLPhaseError],
// [*failure.VerifyError] and, perhaps, [*failure.UnknownError]. A [*failure.ClosedError] means that locks that the apply began to
// drain still grant nothing new.
//
// Cancelling the context ends an Apply before a transaction, between two, and between two access
// lists. The outcome of a transaction that was sent is determined under separate contexts
// (lock.Detached), which end after some session timeouts.
//
// # How it works
//
// applier.go is the order of an apply. The method job.run calls the phases one after another; each takes the result of the one
// before. [read.Verify] compares the tree with the pins of the plan. Package internal/prepare creates the nodes that the lock
// needs, and internal/lock takes the lock. Then prepare widens rights and drains locks. Package internal/commit sends each
// transaction and determines its outcome. Package internal/lists sets the access lists and reads them back. A program calls
// [Begin], which takes the lock before the plan is made, or uses an [Applier] for a plan that was made before.
//
// Package apply imports packages read (the tree), failure (the errors), event (what an apply reports) and history. Packages evict
// and checkup are independent of it.
package apply
