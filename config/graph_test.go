package config

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/config/internal/syntax"
)

// The order against the definition: every declaration comes after what it waits for, unless the two are on a cycle; and
// what is on no cycle does not fail, while of each set of cycles that are connected at least one is reported.
func TestOrderAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "declarations")
		m := &reading{declarations: &declarations{}, reader: &reader{Report: &syntax.Report{}}}
		for i := range n {
			m.declare(&decl{addr: fmt.Sprint("local.", i), head: syntax.FileStart(fmt.Sprint(i))})
		}
		reach := map[*decl]map[*decl]bool{}
		for _, d := range m.all {
			reach[d] = map[*decl]bool{}
			for _, to := range rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 3).Draw(t, "edges") {
				d.inside = append(d.inside, m.all[to])
				reach[d][m.all[to]] = true
			}
		}
		for range n {
			for _, d := range m.all {
				for _, e := range slices.Collect(maps.Keys(reach[d])) {
					maps.Copy(reach[d], reach[e])
				}
			}
		}
		order := m.order()
		require.Len(t, order, n)
		for _, d := range m.all {
			require.True(t, reach[d][d] || !d.broken, "%s: on no cycle", d.addr)
			if reach[d][d] {
				require.True(t, slices.ContainsFunc(m.all, func(e *decl) bool { return e.broken && reach[d][e] && reach[e][d] }))
			}
			for _, to := range d.inside {
				if !reach[to][d] {
					require.Less(t, slices.Index(order, to), slices.Index(order, d), "%s waits for %s", d.addr, to.addr)
				}
			}
		}
		require.Equal(t, slices.ContainsFunc(m.all, func(d *decl) bool { return reach[d][d] }), len(m.Diags) > 0)
	})
}

// Nothing is left out of a configuration without a message, whatever was forgotten.
func TestWhatFailsInSilenceIsAnError(t *testing.T) {
	for _, fail := range []func(e *evaluation){
		func(e *evaluation) { e.of(e.named["local"]["a"]).failed = true },
		func(e *evaluation) { e.instances[0].failed = true },
	} {
		files := fstest.MapFS{"x.locktree.hcl": {Data: []byte("locktree { stack = \"s\" }\nensemble \"e\" {\nauth \"digest\" {\nusername = \"u\"\npassword = \"p\"\n}\n}\nlocals { a = 1 }\nmutex \"m\" {}\n")}}
		b := newLoading(".", Options{})
		b.run(files, &Config{Dir: ".", Sources: map[string]*hcl.File{}}, nil)
		require.False(t, b.Diags.HasErrors())
		fail(b.root)
		c := &Config{}
		b.root.finish(c)
		require.Contains(t, fmt.Sprint(b.Sorted().Errs()), "no reason was given")
		require.Empty(t, c.Ensembles)
	}
}
