package static

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/config/internal/syntax"
)

// Every declaration comes after those that it waits for, unless the two are on a cycle. A declaration on no cycle does not fail. At
// least one of each set of connected cycles is reported.
func TestOrderAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "declarations")
		m := &reading{out: &Declarations{}, Report: &syntax.Report{}}
		for i := range n {
			m.declare(&Decl{Addr: fmt.Sprint("local.", i), Head: syntax.FileStart(fmt.Sprint(i))})
		}
		reach := map[*Decl]map[*Decl]bool{}
		for _, d := range m.out.All {
			reach[d] = map[*Decl]bool{}
			for _, to := range rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 3).Draw(t, "edges") {
				d.inside = append(d.inside, m.out.All[to])
				reach[d][m.out.All[to]] = true
			}
		}
		for range n {
			for _, d := range m.out.All {
				for _, e := range slices.Collect(maps.Keys(reach[d])) {
					maps.Copy(reach[d], reach[e])
				}
			}
		}
		order := order(m.out, m.Report)
		require.Len(t, order, n)
		for _, d := range m.out.All {
			require.True(t, reach[d][d] || !d.Broken, "%s: on no cycle", d.Addr)
			if reach[d][d] {
				require.True(t, slices.ContainsFunc(m.out.All, func(e *Decl) bool { return e.Broken && reach[d][e] && reach[e][d] }))
			}
			for _, to := range d.inside {
				if !reach[to][d] {
					require.Less(t, slices.Index(order, to), slices.Index(order, d), "%s waits for %s", d.Addr, to.Addr)
				}
			}
		}
		require.Equal(t, slices.ContainsFunc(m.out.All, func(d *Decl) bool { return reach[d][d] }), len(m.Diags) > 0)
	})
}
