//go:build linux

package ensemble_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
)

// On three real servers twelve clients that tried without a pause kept a waiter for 2 of 2 permits out for as long as one
// looked, 40 s, though nobody held any. What is bounded is how many go before it, not how long that takes.
func TestRealPollersKeptTheFrontOfASemaphoresQueueWaiting(t *testing.T) {
	t.Parallel()
	const limit, most = 3, 200_000 // realServer declares /s with three permits
	srv, c := realServer(t)
	held, err := c.Semaphore("/s").Acquire(t.Context(), limit)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waiting []<-chan result
	for i := range 3 {
		w := realClient(t, srv, fmt.Sprint("waiter", i))
		waiting = append(waiting, async(func() (*recipes.Lease, error) { return w.Semaphore("/s").Acquire(ctx, limit) }))
		queued(t, c, "/s/locks", i+1)
	}
	var clients []*recipes.Client
	for i := range 12 {
		c := realClient(t, srv, fmt.Sprint("poller", i))
		clients = append(clients, c, c, c) // goroutines: one server answers sooner than three
	}
	tries := harness.Poll(t, clients, func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
		return c.Semaphore("/s").TryAcquire(ctx, 1)
	}, 0)
	calls, grants := tries.Calls.Load, tries.Grants.Load
	for calls() < 100 {
		require.NoError(t, harness.Pause(t.Context(), time.Millisecond))
	}
	require.NoError(t, held.Unlock(t.Context()))
	for i, w := range waiting {
		for began := calls(); len(w) == 0 && calls()-began < most; {
			require.NoError(t, harness.Pause(t.Context(), time.Millisecond))
		}
		if len(w) == 0 {
			cancel()
		}
		r := <-w
		require.NoError(t, r.Err, "waiter %d, after %d calls and %d grants", i, calls(), grants())
		require.LessOrEqual(t, grants(), int64(2*limit*(i+1)), "went before waiter %d", i)
		require.NoError(t, r.V.Unlock(t.Context()))
	}
	tries.End()
	t.Logf("%d calls; %d were granted", calls(), grants())
}
