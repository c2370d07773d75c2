package apply

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
)

// BenchmarkScale prints what plans and applies of large trees cost: a first apply,
// and the plan that finds nothing to do. The server runs in the same process, so
// the memory is that of both; peak is the resident size as Linux counts it.
func BenchmarkScale(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				scale(b, n)
			}
		})
	}
}

func scale(b *testing.B, n int) { scaleOn(b, inMemory(b), n) }

func scaleOn(b *testing.B, s *site, n int) {
	c := s.provisioner()
	tree := s.tree(bulk(n, 0, "x")...)
	phase := func(name string, f func()) {
		runtime.GC()
		debug.FreeOSMemory()
		resetPeak()
		start := time.Now()
		f()
		b.ReportMetric(time.Since(start).Seconds(), name+"-s")
		b.ReportMetric(peak(b), name+"-peak-MiB")
	}
	var p *plan.Plan
	phase("plan", func() { p = s.plan(c, tree) })
	b.ReportMetric(float64(max(1, len(p.Batches))), "transactions")
	b.ReportMetric(float64(p.Transaction.Bytes)/(1<<20), "MiB-sent")
	phase("apply", func() {
		_, err := executor(c).Run(b.Context(), p)
		require.NoError(b, err)
	})
	p = nil
	phase("replan", func() {
		p = s.plan(c, tree)
		require.False(b, p.HasChanges())
	})
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// resetPeak makes Linux forget the largest resident size so far.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// peak is the largest resident size of this process since, in MiB.
func peak(b *testing.B) float64 {
	data, err := os.ReadFile("/proc/self/status")
	require.NoError(b, err)
	m := highWater.FindSubmatch(data)
	require.NotNil(b, m, fmt.Sprintf("no VmHWM in %d bytes", len(data)))
	kib, err := strconv.Atoi(string(m[1]))
	require.NoError(b, err)
	return float64(kib) / 1024
}
