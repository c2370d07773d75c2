// Package read reads the live tree of a stack, and compares it with the pins of a plan. It sends no write.
//
//	current, err := read.Tree(ctx, session, desired) // desired is from config.Load, or built with plan.NewTree
//	p := diff.Compare(current, desired, plan.Options{})
//
// [Tree] returns what exists as a [plan.Tree] that belongs to one version of the stack's record. [Record] reads the record alone.
// [Recognize] checks first that this is the ensemble, and the root, that the configuration means. [Verify] compares the tree with the
// pins of a plan, before and under the apply lock.
//
// read.go walks the tree level by level, many requests at a time; readshare.go lets the tree that was read share memory with the
// declared one. usage.go and family.go read who uses a lock; frame.go reads the tool's own nodes: the record, the id of the
// ensemble, and whose the root is. verify.go has the questions of an apply about a plan.
//
// The package relies on plan for the values, on failure for the errors and on a session of recipes, which it does not close. It
// waits for no user, takes no lock and decides nothing: package plan/diff decides.
package read
