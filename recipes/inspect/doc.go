// Package inspect looks at one lock without taking it, and finds deadlocks across several:
//
//	report, err := inspect.Lock(ctx, client, "/locks/payments/ledger")
//	fmt.Println(report.Kind, report.Holders, report.Waiters)
//
// [Lock] takes a *recipes.Client and returns a [Report]: the declaration, the holders and the waiters. [WaitsFor] finds the deadlocks
// in several reports. A Report knows the contenders of every client that competes for the same lock, declared or not.
//
// The package writes nothing and remembers nothing. A report is not a snapshot: its parts are read one after another, and it may be
// out of date when you get it.
//
// The packages below it look at more than one lock:
//
//   - scan: every lock of a tree or of a whole ensemble, once or repeatedly, with the sessions and the servers
//   - words: what the servers tell of themselves and of their clients
//   - survey: the locks that other programs have created without a declaration
//   - check: whether the conditions hold that the guarantees of package recipes, and the health of clients and servers, depend on
package inspect
