package apply

import (
	"context"
	"sync"
)

// parallel is how many requests are under way at a time. A ZooKeeper connection
// is served in order, so parallel requests only hide the network's latency: 15,000
// reads took 6.8 s one by one and 2.6 s with 64 at a time.
const parallel = 64

// each calls f for every index below n, a bounded number at a time, and returns
// the first error. The first error ends the context of all calls; some calls may still
// begin after that, with an ended context. f must be safe for concurrent use.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(parallel, n) {
		wg.Go(func() {
			for i := range next {
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	// nil unless a call failed or the caller's context ended: cancel(nil) comes later.
	return context.Cause(ctx)
}
