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
package plan
