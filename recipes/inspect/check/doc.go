// Package check checks the conditions for the guarantees of package recipes, and for the health of clients and servers:
//
//	conditions, err := check.Client(ctx, client, "/locks/payments/ledger")
//
// Each [Condition] has a [Verdict], what was found, what depends on the condition, and the next step. [Client] judges the server that a
// client is connected to, and the client's access to locks. [Keys] judges the keys of a family, [Ensemble] a snapshot of package scan, and
// [Certificates] whether certificates expire soon.
//
// The package writes nothing into the tree; [Client] may open and close a session. No client can check that the clocks of all machines run
// at the right rate.
package check
