package diff_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/recipes/kind"
)

// trees generates declarations of up to three levels from few names, so that two
// of them overlap in every way: same, changed, other kind, gone, moved below, in the place of
// a semaphore's structural children.
func trees() *rapid.Generator[*plan.Tree] {
	return rapid.Custom(func(t *rapid.T) *plan.Tree {
		tree := declared()
		grow(t, tree, testRoot, 0)
		slices.SortFunc(tree.Nodes, func(a, b *plan.Node) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
		return tree
	})
}

func grow(t *rapid.T, tree *plan.Tree, parent string, depth int) {
	for _, name := range []string{"a", "a-b", "leases", "ä"} {
		k := rapid.SampledFrom([]*kind.Kind{nil, kind.Namespace, kind.Mutex, kind.RWLock, kind.Semaphore, kind.Election, kind.Keyed}).Draw(t, "kind")
		if k == nil {
			continue
		}
		n := declare(kind.JoinPath(parent, name), k)
		n.Addr += rapid.SampledFrom([]plan.Addr{"", "", "", `["k"]`, "2"}).Draw(t, "addr")
		n.Payload.Owner.Addr = string(n.Addr)
		n.Payload.Protect = false
		n.ACL = rapid.SampledFrom([]kind.List{{admin, worker}, {worker, admin}, {admin}}).Draw(t, "acl")
		n.Payload.ChildACL = rapid.SampledFrom([]kind.List{nil, {admin}}).Draw(t, "child_acl")
		for _, f := range n.Payload.Params.Fields() {
			if err := f.Set(value(t, f)); err != nil {
				panic(err)
			}
		}
		if p, ok := n.Payload.Params.(*kind.KeyedParams); ok {
			fit(p)
		}
		tree.Nodes = append(tree.Nodes, n)
		if k.Container && depth < 2 {
			grow(t, tree, n.Path, depth+1)
		}
	}
}

// fit makes parameters go together that were drawn one by one. It leaves out the 256 directories, which only take time.
func fit(p *kind.KeyedParams) {
	if p.Of != kind.Semaphore.Name {
		p.Permits = 0
	} else {
		p.Permits, p.Wire = p.Permits+1, kind.WireCurator
	}
	if p.Fanout != "" {
		p.Fanout = "16"
	}
}

func value(t *rapid.T, f kind.Field) any {
	switch {
	case f.Number:
		return rapid.IntRange(f.Min, f.Min+2).Draw(t, f.Name)
	case len(f.OneOf) > 0:
		return rapid.SampledFrom(f.OneOf).Draw(t, f.Name)
	case f.Inherit: // a limit, with a form of its own
		some, known := map[string]string{"max_hold": "10m", "max_wait": "1.5s", "owner": "text", "runbook": "https://example.com/a"}[f.Name]
		if !known {
			panic("no value for the limit " + f.Name)
		}
		return rapid.SampledFrom([]string{"", some}).Draw(t, f.Name)
	default:
		return rapid.SampledFrom([]string{"", "text"}).Draw(t, f.Name)
	}
}

func TestPlanDoesNotDependOnTheOrderOfItsInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := trees().Draw(t, "a"), trees().Draw(t, "b")
		m := newModel(testRoot, testStack)
		m.apply(t, diff.Compare(m.read(t, testRoot, testStack), a, plan.Options{Identities: us, AllowMassDestroy: true}))
		current := m.read(t, testRoot, testStack)
		want := diff.Compare(current, b, plan.Options{Identities: us, AllowMassDestroy: true})
		current.Nodes = rapid.Permutation(current.Nodes).Draw(t, "current")
		b.Nodes = rapid.Permutation(b.Nodes).Draw(t, "desired")
		require.Equal(t, want, diff.Compare(current, b, plan.Options{Identities: us, AllowMassDestroy: true}))
	})
}
