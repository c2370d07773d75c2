package scan_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// BenchmarkRefresh: 100,000 declared locks, 5,000 of them in use, and in each refresh 50 that have changed hands.
func BenchmarkRefresh(b *testing.B) {
	for name, opts := range map[string][]zktest.Option{"words": nil, "forbidden": {onlySrvr()}} {
		b.Run(name, func(b *testing.B) {
			const locks, inUse, changed = 100_000, 5_000, 50
			srv := zktest.Start(b, opts...)
			paths := make([]string, locks)
			for i := range paths {
				paths[i] = fmt.Sprintf("/locks/team-%02d/lock-of-something-%05d", i%50, i)
				harness.Declare(b, srv, paths[i], kind.Mutex.New())
			}
			contender := func(i int) string { return paths[i] + "/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-" }
			var queue []string
			for i := range inUse {
				queue = append(queue, contender(i))
			}
			for i := 0; i < inUse; i += 100 {
				harness.Foreign(b, srv, queue[i:i+100]...)
			}
			changer := harness.Foreign(b, srv)
			heap := func() float64 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return float64(m.HeapAlloc) / (1 << 20)
			}
			before := heap()
			s, moved := looker(b, srv, scan.Options{Declared: paths, Reads: 2000})
			snap := lookOnce(b, s)
			first, used := snap.Took.Seconds(), heap()-before
			moved.Store(0)
			reads, words := 0, 0
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				for i := range changed {
					_, err := changer.Create(b.Context(), contender((n*changed+i)%inUse), nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
					require.NoError(b, err)
				}
				b.StartTimer()
				snap = lookOnce(b, s)
				reads, words = reads+snap.Cost.Reads, words+snap.Cost.Words
			}
			b.ReportMetric(first, "first-s")
			b.ReportMetric(used, "heap-MiB")
			b.ReportMetric(float64(reads)/float64(b.N), "reads/op")
			b.ReportMetric(float64(words)/float64(b.N), "words/op")
			b.ReportMetric(float64(moved.Load())/float64(b.N), "wireB/op")
			runtime.KeepAlive(snap)
		})
	}
}
