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
	srv := realzk.Start(b, realzk.Options{})
	dial := func() *recipes.Client {
		c, err := recipes.Dial(b.Context(), recipes.Config{Servers: []string{srv.Addr}, SessionTimeout: 30 * time.Second})
		require.NoError(b, err)
		b.Cleanup(func() { _ = c.Close() })
		return c
	}
	lock := func(c *recipes.Client, i int) *recipes.Mutex {
		return c.Mutex(fmt.Sprintf("/locks/%d", i), recipes.WithParams(&kind.MutexParams{}), recipes.WithCreate())
	}
	for b.Loop() {
		holder, waiter := dial(), dial()
		for _, c := range []*recipes.Client{holder, waiter} { // declarations are kept for later, and are no part of it
			for i := range locks {
				cycle(b, lock(c, i))
			}
		}
		before := inUse()
		leases := make([]*recipes.Lease, locks)
		for i := range leases {
			var err error
			leases[i], err = lock(holder, i).Lock(context.Background())
			require.NoError(b, err)
		}
		time.Sleep(time.Second) // their nodes are watched by then
		held := inUse()
		ctx, cancel := context.WithCancel(context.Background())
		var waiting sync.WaitGroup
		for i := range locks {
			waiting.Go(func() { _, _ = lock(waiter, i).Lock(ctx) })
		}
		time.Sleep(2 * time.Second)
		waited := inUse()
		cancel()
		waiting.Wait()
		for _, l := range leases {
			require.NoError(b, l.Unlock(context.Background()))
		}
		b.ReportMetric(float64(held.bytes-before.bytes)/locks, "B/held")
		b.ReportMetric(float64(held.goroutines-before.goroutines)/locks, "goroutines/held")
		b.ReportMetric(float64(waited.bytes-held.bytes)/locks, "B/waiter")
		b.ReportMetric(float64(waited.stacks-held.stacks)/locks, "stack-B/waiter")
		b.ReportMetric(float64(waited.goroutines-held.goroutines)/locks, "goroutines/waiter")
	}
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
