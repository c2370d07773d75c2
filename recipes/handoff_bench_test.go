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

// BenchmarkHandoff measures a lock that goes from goroutine to goroutine of one client, its token asked for at each grant.
func BenchmarkHandoff(b *testing.B) {
	srv := zktest.Start(b)
	require.NoError(b, srv.Provision("/m", &kind.Payload{Params: kind.Mutex.New(), Owner: kind.Owner{Stack: "bench", Addr: "m"}}))
	c, err := recipes.Dial(b.Context(), recipes.Config{Servers: []string{"zk"}, Dialer: srv.DialContext})
	require.NoError(b, err)
	b.Cleanup(func() { _ = c.Close() })
	m := c.Mutex("/m", recipes.WithLocalHandoff(10_000))
	cycle(b, m)
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
				l, err := m.Lock(ctx)
				if err == nil && l.Token() != 0 {
					err = l.Unlock(ctx)
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	requests := 0
	for _, n := range srv.Counts().ByOp {
		requests += n
	}
	b.ReportMetric(float64(requests)/float64(b.N), "requests/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
}

// BenchmarkRetention measures a lock that one worker takes again and again, its token asked for at each grant.
func BenchmarkRetention(b *testing.B) {
	srv := zktest.Start(b)
	require.NoError(b, srv.Provision("/m", &kind.Payload{Params: kind.Mutex.New(), Owner: kind.Owner{Stack: "bench", Addr: "m"}}))
	c, err := recipes.Dial(b.Context(), recipes.Config{Servers: []string{"zk"}, Dialer: srv.DialContext})
	require.NoError(b, err)
	b.Cleanup(func() { _ = c.Close() })
	m := c.Mutex("/m", recipes.WithRetention(time.Minute))
	cycle(b, m)
	ctx, end := context.WithCancel(b.Context())
	defer end()
	b.ReportAllocs()
	for b.Loop() {
		l, err := m.Lock(ctx)
		if err == nil && l.Token() != 0 {
			err = l.Unlock(ctx)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
}
