package diff_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/recipes/kind"
)

// A plan said that something had changed, and not what.
func TestDriftNamesWhatIsNotAsDeclared(t *testing.T) {
	open := kind.ACL{Scheme: "world", ID: "anyone", Perms: kind.PermRead}
	tree := unlent
	for name, c := range map[string]struct {
		hand   func(*kind.Payload, *mnode)
		config func(*plan.Tree)
		want   []plan.Attribute
	}{
		"a number": {func(p *kind.Payload, _ *mnode) { p.Params.(*kind.SemaphoreParams).Permits = 9 }, nil, []plan.Attribute{{Name: "permits", Declared: "3", Found: "9"}}},
		"several": {func(p *kind.Payload, n *mnode) {
			p.Params.(*kind.SemaphoreParams).Permits, p.Protect, p.ChildACL = 9, true, kind.List{open}
			n.acl = kind.List{open}
		}, nil, []plan.Attribute{{Name: "permits", Declared: "3", Found: "9"}, {Name: "acl", Declared: "[" + kind.List{admin, worker}.String() + "]", Found: "[world:anyone:r]"}, {Name: "contender_acl", Declared: "[]", Found: "[world:anyone:r]"}, {Name: "prevent_destroy", Declared: "false", Found: "true"}}},
		"beside a change of the configuration": {func(_ *kind.Payload, n *mnode) { n.acl = kind.List{open} }, func(t *plan.Tree) { set("permits", 5)(t.Nodes[2]) },
			[]plan.Attribute{{Name: "permits", Declared: "5", Found: "3"}, {Name: "acl", Declared: "[" + kind.List{admin, worker}.String() + "]", Found: "[world:anyone:r]"}}},
		"what is declared so by now": {func(p *kind.Payload, _ *mnode) { p.Params.(*kind.SemaphoreParams).Permits = 9 }, func(t *plan.Tree) { set("permits", 9)(t.Nodes[2]) }, nil},
		"what is declared no more":   {func(p *kind.Payload, _ *mnode) { p.Params.(*kind.SemaphoreParams).Permits = 9 }, func(t *plan.Tree) { t.Nodes = append(t.Nodes[:2:2], t.Nodes[3:]...) }, nil},
	} {
		m := applied(t, tree())
		payload := payloadAt(t, m, "/locks/pay/pool")
		c.hand(payload, m.nodes["/locks/pay/pool"])
		m.nodes["/locks/pay/pool"].data, _ = payload.Encode()
		desired := tree()
		if c.config != nil {
			c.config(desired)
		}
		p := replan(t, m, desired)
		require.Len(t, p.Drifted, 1, name)
		require.Equal(t, c.want, p.Drifted[0].Attributes, name)
	}
}

// A lock that was deleted by hand was planned like a new one. The tree has every node that may or may not be in the record.
func TestALockThatWasDeletedByHandIsDrift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := declared()
		n := rapid.SampledFrom([]int{1, 20, 300}).Draw(t, "nodes")
		for i := range n {
			first.Nodes = append(first.Nodes, declare(fmt.Sprintf("/locks/n%d", i), kind.Mutex))
		}
		m := newModel(testRoot, testStack)
		m.apply(t, diff.Compare(m.read(t, testRoot, testStack), first, plan.Options{Identities: us}))
		second := declared(slices.Clone(first.Nodes)...)
		for i := range rapid.IntRange(0, 20).Draw(t, "new") {
			second.Nodes = append(second.Nodes, declare(fmt.Sprintf("/locks/new%d", i), kind.Mutex))
		}
		hand := func(what string, f func(path string)) {
			if rapid.Bool().Draw(t, what) {
				f(first.Nodes[rapid.IntRange(0, n-1).Draw(t, what+" of")].Path)
			}
		}
		hand("wiped", func(path string) { m.nodes[path].data = nil })
		hand("edited", func(path string) { m.nodes[path].acl = kind.List{admin} })
		hand("copied", func(path string) { m.nodes["/locks/copy"] = &mnode{data: m.nodes[path].data, acl: m.nodes[path].acl} })
		var want []string
		for i, node := range first.Nodes {
			if n <= 20 && rapid.IntRange(0, 2).Draw(t, "deleted") == 0 || n > 20 && i%7 > 0 {
				delete(m.nodes, node.Path)
				want = append(want, node.Path)
			}
		}
		slices.Sort(want)
		for range 2 {
			var got []string
			p := diff.Compare(m.read(t, testRoot, testStack), second, plan.Options{Identities: us, Targets: []string{string(second.Nodes[0].Addr)}})
			for _, d := range p.Drifted {
				if d.Deleted {
					got = append(got, d.Path)
				}
			}
			require.Equal(t, want, got)
			for c := range p.Each() {
				require.Equal(t, slices.Contains(want, c.Path), c.Action == plan.Create && c.Drift, c.Path)
			}
			if !p.Applyable() || !p.HasChanges() {
				return
			}
			m.apply(t, p) // of one of them
			want = slices.DeleteFunc(want, func(path string) bool { return m.nodes[path] != nil })
			if len(want) == 0 {
				want = nil
			}
		}
	})
}
