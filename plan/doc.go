// Package plan has the types of the provisioner: lock trees, what a plan changes in one, and what a person has to know first. They
// are data, and answer questions about themselves. The packages in this folder make and use them.
//
//	current, err := read.Tree(ctx, session, desired)    // what exists
//	p := diff.Compare(current, desired, plan.Options{}) // desired is from config.Load, or built with NewTree
//	if !p.Applyable() {
//		// p.Problems says why
//	}
//	// p.Changes is what would be done, in order; package apply does it
//
// [Tree] and [Node] describe both sides, [Intent] what is declared besides the nodes (moves,
// imports, removals, outputs, administrators). A [Plan] has a [Change] for each node and a
// [Problem] for everything that a person has to know first.
//
// Package plan/diff compares two trees, with plan/diff/access for who may do what. Package plan/tx makes transactions of a plan,
// plan/record is what .locktree holds, plan/saved keeps plans in files, and plan/document is their JSON. plan/problem has
// the codes of problems, and plan/explain words errors. This package relies on plan/record, plan/problem and kind. It compares no
// trees and reads no server.
//
// # Guarantees
//
// A plan writes only to nodes with the stack's own marker in their payload, to nodes that an import names, to a family's key nodes,
// and to the tool's own nodes. Other nodes that are in the way are reported as problems. No plan deletes a protected node.
// Deletions come first, children before parents; all others follow, parents before children. There is one transaction unless the
// changes do not fit into a request that servers accept. After each transaction, every lock exists completely or not at all.
//
// # What is not guaranteed
//
// A plan describes the moment of the read. The apply checks that it still holds, by the [Pin] of every node that the plan relied
// on. The users of a lock change all the time and are not pinned: a plan that deletes a lock in use has a warning, and the apply
// checks again.
//
// # Secrets
//
// Access lists contain digests, which give weak passwords away to guessing. Texts, and the JSON of changes and nodes, leave them
// out. json.Marshal of a [Tree] or an [Access] writes them. A saved plan holds them, because an apply needs them.
package plan
