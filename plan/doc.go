// Package plan compares what is declared with what is there and says, as
// values, what an apply would do: a pure function from two trees to a [Plan].
// It reads no network, no clock and no file, so that the same two trees give
// the same plan, byte for byte.
//
// # What a plan promises
//
// [Diff] never plans a write to a node that does not carry the stack's own
// marker in its payload: such nodes become a [Problem]. It never plans the
// deletion of a protected node. It orders deletions children first and
// everything else parents first, and its [Plan.Transactions] are exactly what an
// apply sends, so that their number and size are known beforehand. There is one
// unless the changes do not fit into what a server reads; then each of them leaves
// whole locks, and an index that says how far it got.
//
// # What it does not promise
//
// A plan is about the moment its current tree was read. Whether it still holds
// is for the apply to find out, from the [Pin] of every node the plan relied
// on. Who uses a lock changes all the time and is not pinned: a plan that
// deletes a lock in use carries a warning, and the apply looks again.
//
// # Secrets
//
// Access lists name digests, which are enough to guess a weak password from.
// The saved plan ([File]) holds them, because an apply needs them; what a plan
// prints ([Node], [ACLDiff] as text or JSON) shows the user's name alone.
//
// # Where what is
//
// What goes in and comes out: tree.go, usage.go (what is declared and what was found, with
// who is in it), intent.go (moves, imports, removals, quotas, outputs, administrators), options.go; plan.go,
// change.go, action.go, problem.go.
//
// From two trees to a Plan: diff.go has the phases, each of them a type (sides, pairing, decisions,
// selection, frame), and decide.go chooses the actions. move.go and import.go find what continues at another path or is taken over;
// guard.go, access.go, admins.go, audit.go and mass.go say what must not be done, or should not; quota.go
// compares the quotas; own.go plans the access lists of the tool's own nodes; scope.go takes out what was not asked for, drift.go reports what was
// changed by hand; rebuild.go and drain.go look after an index that was lost and locks that
// were left closed; pin.go notes what an apply has to find unchanged.
//
// From a Plan to what is sent: ops.go (the operations of each change, and plans that fit into
// one transaction), batch.go (those that do not), index.go and shard.go (the index, in one
// node or in parts).
//
// From a Plan to a file and back: file.go, fileform.go, filelist.go. To a screen: view.go,
// suggest.go.
//
// A new property of a node is compared in Change.compare, which also runs when a file is
// read; one that stands in the payload counts in Change.rewrites and Change.onlyRenamed, too.
// TestApplyOfDiffGivesTheDesiredTree and its neighbours in prop_test.go and batch_prop_test.go
// apply plans to a model of the server and plan again: give the property to their trees, and
// what was forgotten shows as a plan that never comes to rest.
package plan
