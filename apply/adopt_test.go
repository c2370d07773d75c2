package apply_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// importedNaively goes through all nodes for one import.
func importedNaively(tree *plan.Tree, to plan.Addr) (as *kind.Payload) {
	for _, n := range tree.Nodes {
		if as == nil && n.Addr == to {
			as = n.Payload
		}
	}
	return as
}

// The nodes are gone through once for all imports: the answers are those of a search
// through all of them for each.
func TestImportsAreFoundAsByASearchThroughAllNodes(t *testing.T) {
	check := func(t require.TestingT, nodes, imports int, pick func(string, int) int) {
		tree := &plan.Tree{}
		for i := range nodes { // an address may be declared twice, or without parameters
			n := &plan.Node{Path: fmt.Sprintf("/n%d", i), Addr: plan.Addr(fmt.Sprintf("mutex.m%d", pick("addr", nodes)))}
			if pick("empty", 7) > 0 {
				n.Payload = &kind.Payload{Params: kind.Mutex.New(), Gen: int64(i)}
			}
			tree.Nodes = append(tree.Nodes, n)
		}
		for range imports {
			tree.Intent.Imports = append(tree.Intent.Imports, plan.Import{To: plan.Addr(fmt.Sprintf("mutex.m%d", pick("to", nodes+2)))})
		}
		got := apply.ImportedAs(tree)
		for _, imp := range tree.Intent.Imports {
			require.Same(t, importedNaively(tree, imp.To), got[imp.To], imp.To)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		pick := func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(t, what) }
		check(t, pick("nodes", 12)+1, pick("imports", 12), pick)
	})
	i := 0
	check(t, 10_000, 10_000, func(_ string, n int) int { i += 7919; return i % n })
}
