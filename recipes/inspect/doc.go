// Package inspect looks at locks and takes none: who holds one and who waits ([Lock]), who waits for whom over several locks
// ([WaitsFor]), and whether the conditions hold on which the promises of package recipes rest ([Check]). It writes nothing,
// and understands contenders of every client that contends for the same locks, declared or not.
//
//	report, err := inspect.Lock(ctx, client, "/locks/payments/ledger")
package inspect
