package recipes_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// BenchmarkCycle measures Lock and Unlock against the in-memory server in the same process, without a network: what it counts
// is the CPU of client and server together. Requests a cycle are reported beside it.
func BenchmarkCycle(b *testing.B) {
	for _, clients := range []int{1, 8} {
		name := fmt.Sprintf("one lock, %d clients", clients)
		if clients == 1 {
			name = "own lock"
		}
		b.Run(name, func(b *testing.B) {
			srv := zktest.Start(b)
			require.NoError(b, srv.Provision("/m", &kind.Payload{Params: kind.Mutex.New(), Owner: kind.Owner{Stack: "bench", Addr: "m"}}))
			locks := make([]*recipes.Mutex, clients)
			for i := range locks {
				c, err := recipes.Dial(b.Context(), recipes.Config{Servers: []string{"zk"}, Dialer: srv.DialContext})
				require.NoError(b, err)
				b.Cleanup(func() { _ = c.Close() })
				locks[i] = c.Mutex("/m")
				cycle(b, locks[i]) // reads the declaration
			}
			srv.ResetCounts()
			b.ReportAllocs()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ResetTimer()
			for _, m := range locks {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						cycle(b, m)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			reportRequests(b, srv)
		})
	}
}

func reportRequests(b *testing.B, srv *zktest.Server) {
	requests := 0
	for _, n := range srv.Counts().ByOp {
		requests += n
	}
	b.ReportMetric(float64(requests)/float64(b.N), "requests/op")
}

func cycle(tb testing.TB, m *recipes.Mutex) {
	l, err := m.Lock(context.Background())
	if err == nil {
		err = l.Unlock(context.Background())
	}
	if err != nil {
		tb.Error(err)
	}
}
