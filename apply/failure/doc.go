// Package failure has the errors of reading a tree and applying a plan, and their sentences. Each sentence is written here once.
//
//	_, err := run.Apply(ctx, p)
//	var stale *failure.StaleError
//	if errors.As(err, &stale) {
//		// make a new plan
//	}
//
// Each error is an [explain.Explainer]: [explain.Of] says what happened, whether anything was written, and what to do next. Each wraps
// the error of ZooKeeper, if there is one.
//
// The types follow what a person can do:
//   - plan again: [StaleError], [ConflictError];
//   - wait: [LockedError], [InUseError], [MovedError];
//   - apply again: [ACLPhaseError], [PartialError], [ClosedError];
//   - look: [UnknownError], [VerifyError];
//   - change something: [ProblemsError], [TooLargeError], [NodeError], [WrongEnsembleError].
//
// apply/internal/refusal makes most of them from the answers of servers. [WhoWeAre] returns the identities of the connection, and
// [RefusedAt] the node whose access list refused a request.
//
// The package relies on plan for values and on recipes for the errors of a client. It reads and writes no node.
package failure
