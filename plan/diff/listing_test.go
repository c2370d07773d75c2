package diff_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

func wide(nodes int, name string) *plan.Tree {
	tree := declared(declare("/locks/a", kind.Namespace))
	for i := range nodes {
		tree.Nodes = append(tree.Nodes, declare(fmt.Sprintf("/locks/a/%s%06d", name, i), kind.Mutex))
	}
	return tree
}

func TestNamespaceThatJavaCannotListIsToldAndOneThatNobodyCanIsRefused(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	long := strings.Repeat("n", 49) // with six digits and the length: as long as a contender's name
	require.Empty(t, coded(diff.Compare(nil, wide(17_000, long), plan.Options{Identities: us}), problem.Listing))
	warned := coded(diff.Compare(nil, wide(18_000, long), plan.Options{Identities: us}), problem.Listing)
	require.Len(t, warned, 1)
	require.Equal(t, problem.Warning, warned[0].Severity)
	require.Contains(t, warned[0].Detail, "/locks/a has 18000 nodes, whose names are 1062000 bytes together")
	refused := coded(diff.Compare(nil, wide(70_000, strings.Repeat("n", 240)), plan.Options{Identities: us}), problem.Listing)
	require.Len(t, refused, 1)
	require.Equal(t, problem.Error, refused[0].Severity)
}

func TestFamilyWithMoreKeysThanJavaCanListIsTold(t *testing.T) {
	tree := declared(declare("/locks/orders", kind.Keyed, set("kind", "mutex"), set("fanout", "16")))
	m := applied(t, tree)
	current := m.read(t, testRoot, testStack)
	require.Empty(t, coded(diff.Compare(current, tree, plan.Options{Identities: us}), problem.Listing))
	current.Nodes[0].Live.Parts[3].Children = 17_800
	told := coded(diff.Compare(current, tree, plan.Options{Identities: us}), problem.Listing)
	require.Len(t, told, 1)
	require.Equal(t, problem.Warning, told[0].Severity)
	require.Equal(t, "locks.locktree.hcl:1", told[0].Origin)
	require.Contains(t, told[0].Detail, "/locks/orders has a node with 17800 children. More than about 17700")
	require.Contains(t, told[0].Detail, "284000")
	require.Contains(t, told[0].Detail, "fanout")
}

func coded(p *plan.Plan, code problem.Code) (out []plan.Problem) {
	for _, q := range p.Problems {
		if q.Code == code {
			out = append(out, q)
		}
	}
	return out
}
