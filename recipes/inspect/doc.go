// Package inspect looks at locks without taking any:
//
//	report, err := inspect.Lock(ctx, client, "/locks/payments/ledger")
//
// What it can show:
//
//   - [Lock]: who holds a lock and who waits for it; [Look] for a whole subtree
//   - [WaitsFor]: who waits for whom across several locks, and deadlocks
//   - [Scanner]: all of that for a whole ensemble, repeatedly
//   - [Surveyor]: which locks other programs have created without a declaration
//   - [Check]: whether the conditions hold that the guarantees of package recipes depend on
//
// It writes nothing. It understands the contenders of every client that competes for the same locks, declared or not.
// A report is not a snapshot: its parts are read one after another, and it may be out of date when you get it.
package inspect
