package recipes_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// benched is a lock on a server of its own, which has been used once.
func benched(b *testing.B, opts ...recipes.Option) (*zktest.Server, *recipes.Mutex) {
	srv := zktest.Start(b)
	require.NoError(b, srv.Provision("/m", &kind.Payload{Params: kind.Mutex.New(), Owner: kind.Owner{Stack: "bench", Addr: "m"}}))
	c, err := recipes.Dial(b.Context(), recipes.Config{Servers: []string{"zk"}, Dialer: srv.DialContext})
	require.NoError(b, err)
	b.Cleanup(func() { _ = c.Close() })
	m := c.Mutex("/m", opts...)
	cycle(b, m)
	return srv, m
}

// fenced is a cycle that asks for the token.
func fenced(ctx context.Context, b *testing.B, m *recipes.Mutex) {
	l, err := m.Lock(ctx)
	if err == nil && l.Token() != 0 {
		err = l.Unlock(ctx)
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkHandoff measures a lock that goes from goroutine to goroutine of one client, its token asked for at each grant.
func BenchmarkHandoff(b *testing.B) {
	srv, m := benched(b, recipes.WithLocalHandoff(10_000))
	srv.ResetCounts()
	b.ReportAllocs()
	ctx, end := context.WithCancel(b.Context())
	defer end()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 1000 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				fenced(ctx, b, m)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	reportRequests(b, srv)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
}

// BenchmarkRetention measures a lock that one worker takes again and again, its token asked for at each grant.
func BenchmarkRetention(b *testing.B) {
	_, m := benched(b, recipes.WithRetention(time.Minute))
	ctx, end := context.WithCancel(b.Context())
	defer end()
	b.ReportAllocs()
	for b.Loop() {
		fenced(ctx, b, m)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
}
