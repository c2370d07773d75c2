// Package inspect looks at one lock without taking it, and finds deadlocks across several:
//
//	report, err := inspect.Lock(ctx, client, "/locks/payments/ledger")
//	fmt.Println(report.Kind, report.Holders, report.Waiters)
//
// [Lock] takes a *recipes.Client and returns a [Report]: the declaration, the holders and the waiters. [WaitsFor] finds the
// deadlocks in several reports. A Report has the contenders of all clients, also those of Curator and kazoo, whether the lock is
// declared or not.
//
// The package writes nothing and remembers nothing. A report is not a snapshot: its parts are read one after another, and the report may be
// out of date when you get it.
//
// The packages below this one look at more than one lock:
//
//   - scan: every lock of a tree or of a whole ensemble, once or repeatedly, with the sessions and the servers
//   - words: what the servers tell about themselves and about their clients
//   - survey: the locks that other programs have created without a declaration
//   - check: the conditions for the guarantees of package recipes, and for the health of clients and servers
package inspect
