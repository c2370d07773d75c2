// Package plan compares a declared lock tree with the one that exists and returns what an apply
// would do. It is pure: it uses no network, clock or file, so the same two trees give the same
// plan, byte for byte.
//
//	current, err := read.Tree(ctx, session, desired) // what exists
//	p := plan.Diff(current, desired, plan.Options{})  // desired is from config.Load, or built with NewTree
//	if !p.Applyable() {
//		// p.Problems says why
//	}
//	// p.Changes is what would be done, in order; package apply does it
//
// [Tree] and [Node] describe both sides, [Intent] what is declared besides the nodes (moves,
// imports, removals, outputs, administrators). A [Plan] has a [Change] for each node and a
// [Problem] for everything that a person has to know first. Package plan/saved keeps plans in files.
//
// # Guarantees
//
// Diff plans no write to a node that does not carry the stack's own marker in its payload, unless
// an import names it; it reports such nodes as problems. It never plans the deletion of a protected
// node. Deletions come first, children before parents; everything else follows, parents before
// children. [Plan.Transactions] returns exactly what an apply sends, so the number and size of the
// transactions are known beforehand. There is one transaction unless the changes do not fit into a
// request that servers accept. Then each transaction leaves whole locks.
//
// # What is not guaranteed
//
// A plan describes the moment at which the current tree was read. The apply checks that it still
// holds, by the [Pin] of every node that the plan relied on. Who uses a lock changes all the time
// and is not pinned: a plan that deletes a lock in use has a warning, and the apply checks again.
//
// # Secrets
//
// Access lists contain digests, from which weak passwords can be guessed. Text and JSON of the types leave them
// out; a saved plan holds them, because an apply needs them.
//
// # How it works
//
// diff.go goes through the phases, each of which is a type: sides, pairing, decisions, selection,
// frame. decide.go chooses the action for each path, move.go and import.go find nodes that
// continue at another path or are taken over, tenant.go leaves alone what others create in a namespace that is open to them, scope.go
// removes what was not asked for. guard.go, access.go, admins.go and audit.go find what must not be done. set.go says whose the root is, and own.go plans the lists of the
// tool's own nodes. ops.go and batch.go turn
// changes into transactions; listing.go bounds a namespace. keys.go is about the nodes of a family's keys. sum.go notes in each node how it was left, and index.go
// writes what no node says. document.go is the JSON of a plan.
//
// If you add a property to nodes, compare it in Change.compare.
// If it is stored in the payload, add it to Change.rewrites and Change.onlyRenamed too. The property
// tests (prop_test.go, batch_prop_test.go) apply plans to a model of the server and plan again: give
// their trees the new property, and whatever you forgot shows as a plan that never settles.
package plan
