package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// drawTree draws a correct configuration of namespaces and locks, spaced badly
// on purpose.
func drawTree(t *rapid.T) string {
	var b strings.Builder
	drawBlocks(t, &b, 0)
	return b.String()
}

func drawBlocks(t *rapid.T, b *strings.Builder, depth int) {
	labels := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9_-]{0,5}`), 0, 4, rapid.ID).Draw(t, "labels")
	for _, label := range labels {
		k := rapid.SampledFrom(kind.All()).Draw(t, "kind")
		fmt.Fprintf(b, "%s \"%s\" {\n", k.Name, label)
		if rapid.Bool().Draw(t, "repeated") {
			fmt.Fprintf(b, "for_each=toset([\"x\",  \"y\"])\n")
		}
		for _, f := range k.New().Fields() {
			if f.Required || rapid.Bool().Draw(t, "set "+f.Name) {
				fmt.Fprintf(b, "%s=%s\n", f.Name, drawField(t, f))
			}
		}
		if rapid.Bool().Draw(t, "protected") {
			b.WriteString("lifecycle {\nprevent_destroy=true\n}\n")
		}
		if k.Container && depth < 3 {
			drawBlocks(t, b, depth+1)
		}
		b.WriteString("}\n")
	}
}

func drawField(t *rapid.T, f kind.Field) string {
	switch {
	case f.Type == kind.TypeInt:
		return fmt.Sprint(rapid.IntRange(f.Min, f.Max).Draw(t, f.Name))
	case f.Type == kind.TypeBool:
		return fmt.Sprint(rapid.Bool().Draw(t, f.Name))
	case len(f.OneOf) > 0:
		return fmt.Sprintf("%q", rapid.SampledFrom(f.OneOf).Draw(t, f.Name))
	default:
		return fmt.Sprintf("\"${%q}\"", rapid.StringMatching(`[a-z ]{0,20}`).Draw(t, f.Name))
	}
}

// A tree is sorted, each path once, each child behind and below its parent, and
// every payload is one that the library can read back.
func TestTreesAreWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := drawTree(t)
		c, diags := loadText(preamble+src, Options{Environ: testEnviron})
		require.False(t, diags.HasErrors(), "%v\n%s", diags, src)
		tree := c.Ensembles[0].Tree
		paths, addrs := map[string]kind.Params{"/": nil}, map[string]bool{}
		last := ""
		for _, n := range tree.Nodes {
			require.Less(t, last, n.Path)
			last = n.Path
			parent, known := paths[kind.ParentPath(n.Path)]
			require.True(t, known, "%s has no parent", n.Path)
			require.True(t, parent == nil || parent.Kind().Container)
			paths[n.Path] = n.Payload.Params
			require.False(t, addrs[n.Addr], "address %s twice", n.Addr)
			addrs[n.Addr] = true
			require.NotEmpty(t, n.ACL)
			data, err := n.Payload.Encode()
			require.NoError(t, err)
			back, err := kind.Decode(data)
			require.NoError(t, err)
			require.Equal(t, n.Addr, back.Owner.Addr)
			require.Empty(t, kind.Diff(n.Payload.Params, back.Params))
		}
	})
}

// How blocks are spread over files, and in which order, means nothing.
func TestTheHashDoesNotDependOnTheFiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, diags := loadText(preamble+`mutex "z" {}`+"\nnamespace \"a\" {\n"+drawTree(t)+"}\n", Options{Environ: testEnviron})
		require.False(t, diags.HasErrors(), "%v", diags)
		src := string(c.Sources["main.locktree.hcl"].Bytes)
		cut := strings.Index(src, "namespace \"a\"")
		d, diags := loadFS(fstest.MapFS{
			"a.locktree.hcl": {Data: []byte(src[cut:])},
			"b.locktree.hcl": {Data: []byte(src[:cut])},
		}, ".", Options{Environ: testEnviron})
		require.False(t, diags.HasErrors(), "%v", diags)
		require.Equal(t, c.Hash, d.Hash)
	})
}

// Everything an apply would write changes the hash, the digest of a password included.
func TestTheHashCoversWhatIsWritten(t *testing.T) {
	base := "mutex \"a\" {\n}\noutput \"o\" {\n  value = 1\n}\n"
	want := mustLoad(t, base).Hash
	for _, change := range [][2]string{
		{`mutex "a"`, `mutex "b"`}, {`mutex "a"`, `rwlock "a"`}, {"{\n}", "{\n  max_waiters = 1\n}"},
		{"output", "namespace \"q\" {\n  quota { max_nodes = 2 }\n}\noutput"},
		{"{\n}", "{\n  name = \"c\"\n}"}, {"{\n}", "{\n  lifecycle {\n    prevent_destroy = true\n  }\n}"},
		{"value = 1", "value = 2"}, {"value = 1", "value = \"1\""}, {"value = 1", "value = 1\n  sensitive = true"},
	} {
		changed := strings.Replace(base, change[0], change[1], 1)
		require.NotEqual(t, base, changed)
		require.NotEqual(t, want, mustLoad(t, changed).Hash, changed)
	}
	for _, change := range [][2]string{{`stack = "test"`, `stack = "other"`}, {`"zk1:2181"]`, `"zk1:2181"]` + "\n  root = \"/r\""}, {`"us"`, `"them"`}} {
		c, diags := loadText(strings.Replace(preamble, change[0], change[1], 1)+base, Options{Environ: testEnviron})
		require.False(t, diags.HasErrors(), "%v", diags)
		require.NotEqual(t, want, c.Hash, change)
	}
	other, diags := loadText(preamble+base, Options{Environ: []string{"PASSWORD=another"}})
	require.False(t, diags.HasErrors(), "%v", diags)
	require.NotEqual(t, want, other.Hash, "the access list of a node without an acl")
	c, diags := loadText(strings.Replace(preamble, "zk1", "zk2", 1)+base, Options{Environ: testEnviron})
	require.False(t, diags.HasErrors())
	require.Equal(t, want, c.Hash, "the address of a server is nothing that is written")
}

// The order against the definition: every declaration comes after what it waits for, unless the two are on a cycle; and
// what is on no cycle does not fail, while of each set of cycles that are connected at least one is reported.
func TestOrderAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "declarations")
		m := newModule(&sources{report: &report{}}, Options{})
		for i := range n {
			m.declare(&decl{addr: fmt.Sprint("local.", i), head: fileStart(fmt.Sprint(i))})
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
			require.True(t, reach[d][d] || !d.failed, "%s: on no cycle", d.addr)
			if reach[d][d] {
				require.True(t, slices.ContainsFunc(m.all, func(e *decl) bool { return e.failed && reach[d][e] && reach[e][d] }))
			}
			for _, to := range d.inside {
				if !reach[to][d] {
					require.Less(t, slices.Index(order, to), slices.Index(order, d), "%s waits for %s", d.addr, to.addr)
				}
			}
		}
		require.Equal(t, slices.ContainsFunc(m.all, func(d *decl) bool { return reach[d][d] }), len(m.diags) > 0)
	})
}

func TestSuggestionsAreNearAndNotNoise(t *testing.T) {
	names := []string{"permits", "name", "wire", "max_waiters", "for_each"}
	for given, want := range map[string]string{
		"permit": "permits", "nmae": "name", "naem": "name", "max_waiter": "max_waiters", "foreach": "for_each",
		"life": "", "x": "", "": "", "acl": "", "permitsperm": "",
	} {
		got := plan.DidYouMean(given, names)
		if want == "" {
			require.Empty(t, got, given)
		} else {
			require.Contains(t, got, want, given)
		}
	}
}

// The acceptance test of the architecture: whatever package kind declares is a
// block of the language, with exactly its parameters.
func TestEveryKindIsABlockWithItsParameters(t *testing.T) {
	for _, k := range kind.All() {
		b := language.nested(k.Name)
		require.NotNil(t, b, k.Name)
		for _, f := range k.New().Fields() {
			i := slices.IndexFunc(b.args, func(a argument) bool { return a.name == f.Name })
			require.GreaterOrEqual(t, i, 0, "%s.%s", k.Name, f.Name)
			require.Equal(t, f.Required, b.args[i].required)
			require.Equal(t, f.Doc, b.args[i].doc)
		}
		require.Equal(t, k.Container, b.nested(kind.Mutex.Name) != nil)
		seen := map[string]bool{}
		for _, a := range b.args {
			require.False(t, seen[a.name], "%s declares %s, which every block has", k.Name, a.name)
			seen[a.name] = true
		}
	}
}
