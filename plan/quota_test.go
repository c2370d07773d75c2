package plan_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// wantQuotasNaively goes through all nodes for each quota.
func wantQuotasNaively(tree *plan.Tree) map[string]int {
	out := map[string]int{}
	for _, q := range tree.Intent.Quotas {
		for _, n := range tree.Nodes {
			if n.Path == q.Path && n.Kind().Container {
				out[n.Path] = q.MaxNodes
			}
		}
	}
	return out
}

func noteQuotas(t require.TestingT, tree *plan.Tree) {
	desired, byPath := plan.DesiredOf(tree)
	want := wantQuotasNaively(tree)
	require.Len(t, desired, len(tree.Nodes))
	for i, n := range desired {
		require.Same(t, n, byPath[n.Path])
		require.Equal(t, want[n.Path], n.Quota, n.Path)
		require.Equal(t, tree.Nodes[i].Path, n.Path, "the order stays")
		require.Zero(t, tree.Nodes[i].Quota, "what is declared is not changed")
	}
}

// Each quota is looked up once among the nodes: the answers are those of the search
// through all of them.
func TestQuotasAreNotedAsByASearchThroughAllNodes(t *testing.T) {
	quotas := func(n, quotas int, pick func(string, int) int) *plan.Tree {
		tree := declared()
		for i := range n {
			k := kind.Namespace
			if pick("lock", 5) == 0 {
				k = kind.Mutex
			}
			tree.Nodes = append(tree.Nodes, declare(fmt.Sprintf("%s/n%05d", testRoot, i), k))
		}
		for range quotas { // of some twice, and of some that are not there
			tree.Intent.Quotas = append(tree.Intent.Quotas, plan.Quota{Path: fmt.Sprintf("%s/n%05d", testRoot, pick("at", n+2)), MaxNodes: 1 + pick("limit", 9)})
		}
		return tree
	}
	rapid.Check(t, func(t *rapid.T) {
		pick := func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(t, what) }
		noteQuotas(t, quotas(pick("nodes", 12), pick("quotas", 12), pick))
	})
	i := 0
	noteQuotas(t, quotas(10_000, 10_000, func(_ string, n int) int { i += 7919; return i % n }))
}
