// Package diff compares a declared lock tree with the one that exists and returns what an apply would do. It is pure: it uses no
// network, clock or file, so the same two trees give the same plan, byte for byte.
//
//	current, err := read.Tree(ctx, session, desired) // what exists
//	p := diff.Compare(current, desired, plan.Options{Identities: us})
//	if !p.Applyable() {
//		// p.Problems says why
//	}
//
// [Compare] is one function after the other, and is the map of this package. Each phase gets the plan as the phases before have
// left it, and [access.Sides]: what exists and what is declared. Some also get the pairing: what continues under another address or
// at another path. A change that cannot or should not be made becomes a problem of the plan, in any phase; nothing fails.
// [CompareAll] does the same for the ensembles of one stack.
//
// It relies on package access for rights, and on package tx for the size of transactions. It never writes to either tree, and never
// plans the deletion of a protected node. It plans writes only to nodes with the stack's own marker, imported nodes, key nodes and
// the tool's own nodes.
//
// decide.go chooses the action for each path. match.go finds nodes that continue at another path or are taken over. drift.go finds
// nodes that are missing, were changed by hand, could not be read, or may be written by others. It also pins the nodes that the
// plan relied on. guard.go finds what must not be done. scope.go is for plans with targets, and outputs.go for configurations with
// outputs.
//
// If you add a property to nodes, compare it in [plan.Change.Compare]. If it is stored in the payload, add it to
// [plan.Change.Rewrites] and to onlyRenamed too. The property tests (prop_test.go) apply plans to a model of the server and plan
// again: give their trees the new property, and whatever you forgot shows as a plan that never settles.
package diff
