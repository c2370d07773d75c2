package config_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
)

// writtenOut is n locks as a generator writes them, a thousand in each namespace.
func writtenOut(n int) string {
	var b strings.Builder
	b.WriteString(preamble)
	for i := range n {
		if i%1000 == 0 {
			fmt.Fprintf(&b, "namespace \"n%d\" {\n", i/1000)
		}
		fmt.Fprintf(&b, "  mutex \"lock-%d\" {\n    description = \"Lock %d.\"\n  }\n", i, i)
		if i%1000 == 999 || i == n-1 {
			b.WriteString("}\n")
		}
	}
	return b.String()
}

// repeated is n locks by for_each.
func repeated(n int) string {
	return preamble + fmt.Sprintf("mutex \"m\" {\n  for_each    = { for p in setproduct(range(%d), range(1000)) : \"k${p[0]}-${p[1]}\" => p[1] }\n  description = \"Lock ${each.value}.\"\n}\n", n/1000)
}

// BenchmarkLoad prints, beside time and allocations, what stays in memory for the
// plan that follows.
func BenchmarkLoad(b *testing.B) {
	for _, shape := range []struct {
		name  string
		write func(int) string
	}{{"written", writtenOut}, {"for_each", repeated}} {
		for _, n := range []int{1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", shape.name, n), func(b *testing.B) {
				src := shape.write(n)
				b.ReportAllocs()
				for b.Loop() {
					var before, after runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&before)
					c, diags := loadText(src, config.Options{Environ: testEnviron})
					require.False(b, diags.HasErrors(), "%v", diags)
					runtime.GC()
					runtime.ReadMemStats(&after)
					b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "live-MiB")
					runtime.KeepAlive(c)
				}
			})
		}
	}
}

// What was parsed must be gone when Load returns: the plan needs the memory.
// Measured are some 0.5 KiB a lock; with the parsed files kept they are 1.8.
func TestLoadKeepsNoParsedFiles(t *testing.T) {
	const n = 20_000
	var before, after runtime.MemStats
	src := writtenOut(n)
	runtime.GC()
	runtime.ReadMemStats(&before)
	c, diags := loadText(src, config.Options{Environ: testEnviron})
	require.False(t, diags.HasErrors(), "%v", diags)
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Len(t, c.Ensembles[0].Tree.Nodes, n+n/1000)
	require.Less(t, (int64(after.HeapAlloc)-int64(before.HeapAlloc))/n, int64(1024), "bytes a lock")
	runtime.KeepAlive(c)
}
