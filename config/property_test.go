package config_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan/explain"
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
		of := rapid.SampledFrom([]string{"mutex", "rwlock", "semaphore"}).Draw(t, "of")
		for _, f := range k.New().Fields() {
			due := map[string]string{"schedule": "*/15 3-5 * * MON", "timezone": "Europe/Berlin", "catch_up": "90m"}[f.Name]
			switch {
			case due != "": // together, or not at all
				fmt.Fprintf(b, "%s=%q\n", f.Name, due)
				continue
			case f.Derived:
				continue
			case k != kind.Keyed:
			case f.Name == "kind":
				fmt.Fprintf(b, "kind=\"%s\"\n", of)
				continue
			case f.Name == "permits" && of == "semaphore":
				b.WriteString("permits=3\n")
				continue
			case f.Name == "permits", f.Name == "wire" && of == "semaphore":
				continue
			}
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
	case f.Number:
		return fmt.Sprint(rapid.IntRange(f.Min, f.Max).Draw(t, f.Name))
	case len(f.OneOf) > 0:
		return fmt.Sprintf("%q", rapid.SampledFrom(f.OneOf).Draw(t, f.Name))
	case f.Inherit:
		kept := map[string][]string{"max_hold": {"", "10m"}, "max_wait": {"1.5s"}, "owner": {"a@example.com", "Team B"}, "runbook": {"https://example.com/a?b=c"}}
		return rapid.SampledFrom([]string{"null", fmt.Sprintf("%q", rapid.SampledFrom(kept[f.Name]).Draw(t, f.Name))}).Draw(t, "value")
	default:
		return fmt.Sprintf("\"${%q}\"", rapid.StringMatching(`[a-z ]{0,20}`).Draw(t, f.Name))
	}
}

// A tree is sorted, each path once, each child behind and below its parent, and
// every payload is one that the library can read back.
func TestTreesAreWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := drawTree(t)
		c, diags := loadText(preamble+src, config.Options{Environ: testEnviron})
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
			require.False(t, addrs[string(n.Addr)], "address %s twice", n.Addr)
			addrs[string(n.Addr)] = true
			require.NotEmpty(t, n.ACL)
			data, err := n.Payload.Encode()
			require.NoError(t, err)
			back, err := kind.Decode(data)
			require.NoError(t, err)
			require.EqualValues(t, n.Addr, back.Owner.Addr)
			require.Empty(t, kind.Diff(n.Payload.Params, back.Params))
		}
	})
}

// How blocks are spread over files, and in which order, means nothing.
func TestATreeDoesNotDependOnTheFiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, diags := loadText(preamble+`mutex "z" {}`+"\nnamespace \"a\" {\n"+drawTree(t)+"}\n", config.Options{Environ: testEnviron})
		require.False(t, diags.HasErrors(), "%v", diags)
		src := string(c.Sources["main.locktree.hcl"].Bytes)
		cut := strings.Index(src, "namespace \"a\"")
		d, diags := config.LoadFS(fstest.MapFS{
			"a.locktree.hcl": {Data: []byte(src[cut:])},
			"b.locktree.hcl": {Data: []byte(src[:cut])},
		}, ".", config.Options{Environ: testEnviron})
		require.False(t, diags.HasErrors(), "%v", diags)
		require.Equal(t, dump(c, false), dump(d, false))
	})
}

func TestSuggestionsAreNearAndNotNoise(t *testing.T) {
	names := []string{"permits", "name", "wire", "max_waiters", "for_each"}
	for given, want := range map[string]string{
		"permit": "permits", "nmae": "name", "naem": "name", "max_waiter": "max_waiters", "foreach": "for_each",
		"life": "", "x": "", "": "", "acl": "", "permitsperm": "",
	} {
		got := explain.DidYouMean(given, names)
		if want == "" {
			require.Empty(t, got, given)
		} else {
			require.Contains(t, got, want, given)
		}
	}
}

// A program with no right on a lock deleted it because the namespace granted d.
func TestLockRoleNeverDeletesLocks(t *testing.T) {
	namespace, lock := config.RolePerms("lock")
	require.Zero(t, namespace&(kind.PermCreate|kind.PermDelete|kind.PermAdmin|kind.PermWrite))
	require.Equal(t, "cdr", lock.String())
}
