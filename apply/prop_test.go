package apply_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// someTree draws a declaration of two levels from few names, so that two of them
// meet in every way, in the place of structural children included.
func someTree(t *rapid.T, s *site) *plan.Tree {
	var nodes []*plan.Node
	add := func(path string) *plan.Node {
		k := rapid.SampledFrom([]*kind.Kind{nil, nil, kind.Namespace, kind.Mutex, kind.RWLock, kind.Semaphore, kind.Keyed}).Draw(t, path)
		if k == nil {
			return nil
		}
		of := func(n *plan.Node) {
			if p, ok := n.Payload.Params.(*kind.KeyedParams); ok {
				p.Of = rapid.SampledFrom([]string{"mutex", "rwlock"}).Draw(t, "of")
				p.Fanout = rapid.SampledFrom([]string{"", "16", "256"}).Draw(t, "fanout")
			}
		}
		n := declare(path, k, of, set("description", rapid.SampledFrom([]string{"", "x"}).Draw(t, "description")))
		if rapid.Bool().Draw(t, "admin only") {
			adminOnly(n)
		}
		nodes = append(nodes, n)
		return n
	}
	for _, a := range []string{"a", "b", "locks"} {
		n := add("/" + a)
		if n == nil || !n.Kind().Container {
			continue
		}
		for _, b := range []string{"a", "leases", "locks"} {
			add(fmt.Sprintf("/%s/%s", a, b))
		}
	}
	return s.tree(nodes...)
}

// The server agrees with the model the plan's own tests use: what is planned from
// any tree to any other is accepted in one transaction, and nothing is left to do.
func TestAnyTreeBecomesAnyOtherInOneApply(t *testing.T) {
	s, c := provisioned(t)
	rapid.Check(t, func(r *rapid.T) {
		tree := someTree(r, s) // from whatever the last check left
		p := s.plan(c, tree)
		require.Empty(r, p.Problems)
		_, err := executor(c).Run(t.Context(), p)
		require.NoError(r, err)
		again := s.plan(c, tree)
		require.False(r, again.HasChanges(), "%s", again)
		live, err := read.Tree(t.Context(), s.session(c), tree)
		require.NoError(r, err)
		require.Len(r, live.Nodes, len(tree.Nodes))
		for i, n := range tree.Nodes {
			require.Equal(r, n.Path, live.Nodes[i].Path)
			require.Equal(r, n.Kind(), live.Nodes[i].Kind())
			require.True(r, n.ACL.Equal(live.Nodes[i].ACL))
		}
	})
}

func TestRootOfTheEnsembleCanBeTheRoot(t *testing.T) {
	s := inMemory(t)
	s.root = ""
	c := s.provisioner()
	tree := s.shop()
	tree.Root = "/"
	s.apply(c, tree)
	_, ok := s.server.Get("/.locktree/stacks/shop")
	require.True(t, ok)
	p := s.plan(c, tree)
	require.False(t, p.HasChanges(), "%s", p)
	require.NoError(t, s.destroy(c, tree))
	n, _ := s.server.Get("/")
	require.Equal(t, []string{".locktree", "zookeeper"}, n.Children)
}
