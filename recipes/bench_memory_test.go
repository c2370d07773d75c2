//go:build linux

package recipes_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// BenchmarkMemory tells what a lock that is held takes of this process, and what a waiter does, each on a lock of its own: heap
// and stacks, and goroutines. A waiter's is the goroutine that waits. The server, Apache ZooKeeper, is a process of its own.
//
//	go test -run '^$' -bench Memory -benchtime 1x ./recipes
func BenchmarkMemory(b *testing.B) {
	const locks = 1000
	for b.Loop() {
		before, held, waited := memory(b, locks)
		b.ReportMetric(float64(held.bytes-before.bytes)/locks, "B/held")
		b.ReportMetric(float64(held.goroutines-before.goroutines)/locks, "goroutines/held")
		b.ReportMetric(float64(waited.bytes-held.bytes)/locks, "B/waiter")
		b.ReportMetric(float64(waited.stacks-held.stacks)/locks, "stack-B/waiter")
		b.ReportMetric(float64(waited.goroutines-held.goroutines)/locks, "goroutines/waiter")
	}
}

// memory measures before some locks are taken, while they are held, and while each is waited for too.
func memory(tb testing.TB, locks int) (before, held, waited usage) {
	srv := realzk.Start(tb, realzk.Options{})
	dial := func() (*recipes.Client, func(watches int)) {
		c, err := recipes.Dial(tb.Context(), recipes.Config{Servers: []string{srv.Addr}, SessionTimeout: 30 * time.Second})
		require.NoError(tb, err)
		tb.Cleanup(func() { _ = c.Close() })
		s, err := c.Live(tb.Context())
		require.NoError(tb, err)
		return c, func(watches int) {
			require.Eventually(tb, func() bool { return len(s.Stats().Watches) >= watches*locks }, time.Minute, 100*time.Millisecond)
		}
	}
	lock := func(c *recipes.Client, i int) *recipes.Mutex {
		return c.Mutex(fmt.Sprintf("/locks/%d", i), recipes.WithParams(&kind.MutexParams{}), recipes.WithCreate())
	}
	holder, holderWatches := dial()
	waiter, waiterWatches := dial()
	for _, c := range []*recipes.Client{holder, waiter} { // declarations are kept for later, and are no part of it
		for i := range locks {
			cycle(tb, lock(c, i))
		}
	}
	before = inUse()
	leases := make([]*recipes.Lease, locks)
	for i := range leases {
		var err error
		leases[i], err = lock(holder, i).Lock(context.Background())
		require.NoError(tb, err)
	}
	holderWatches(2) // the declarations and the nodes
	held = inUse()
	ctx, cancel := context.WithCancel(context.Background())
	var waiting sync.WaitGroup
	for i := range locks {
		waiting.Go(func() { _, _ = lock(waiter, i).Lock(ctx) })
	}
	waiterWatches(3) // and the holders' nodes
	waited = inUse()
	cancel()
	waiting.Wait()
	for _, l := range leases {
		require.NoError(tb, l.Unlock(context.Background()))
	}
	return before, held, waited
}

type usage struct{ bytes, stacks, goroutines int64 }

// inUse collects what is garbage, twice: stacks are shrunk by the first.
func inUse() usage {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{int64(m.HeapAlloc + m.StackInuse), int64(m.StackInuse), int64(runtime.NumGoroutine())}
}
