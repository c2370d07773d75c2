// Package inspect looks at locks and takes none: who holds one and who waits ([Lock], and [Look] for a whole subtree), who
// waits for whom over several locks ([WaitsFor]), all of that for a whole ensemble, again and again ([Scanner]), which locks
// other programs made for themselves ([Surveyor]), and whether the conditions hold on which the promises of package recipes
// rest ([Check]). It writes nothing, and understands contenders of every client that contends for the same locks, declared or
// not.
//
//	report, err := inspect.Lock(ctx, client, "/locks/payments/ledger")
package inspect
