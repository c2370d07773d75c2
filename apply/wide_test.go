package apply_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// A namespace could be filled until nobody was able to list it: the plan that filled it was applied, and after that no command
// worked, destroy included. Names of 250 bytes reach that length with 66,000 nodes; longer ones, as here, with fewer.
func TestNamespaceThatIsTooLongToListIsRefusedAndCanBeDestroyed(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	s, c := provisioned(t)
	tree := s.tree(declare("/wide", kind.Namespace))
	s.apply(c, tree)
	name := func(i int) string { return fmt.Sprintf("/wide/%s%06d", strings.Repeat("n", 9990), i) }
	const many = 16<<20/10_000 + 1
	for i := range many {
		require.NoError(t, s.server.Create(s.root+name(i), nil)) // by somebody else
	}
	_, err := read.Tree(t.Context(), s.session(c), tree)
	x := explain.Of(err)
	require.Equal(t, "Could not read a node", x.Summary)
	require.Contains(t, x.Detail, "bytes; this client reads up to 16777216 (Config.MaxReply)")
	require.Contains(t, x.Next, "The limit of a reply is this program's, not the servers'.")

	s.config.MaxReply = 32 << 20
	reader := s.provisioner()
	p := s.plan(reader, tree)
	require.False(t, p.HasChanges())

	more := s.tree(declare("/wide", kind.Namespace), declare("/wide/lock", kind.Mutex))
	p = s.plan(reader, more)
	require.False(t, p.Applyable())
	require.Equal(t, problem.Listing, p.Problems[0].Code)
	require.Equal(t, plan.Addr("wide.namespace"), p.Problems[0].Addr, "with its place")
	require.Contains(t, p.Problems[0].Detail, fmt.Sprintf("/locks/wide would have %d nodes", many+1))
	tree.Nodes = append(tree.Nodes, s.tree(declare("/solo", kind.Mutex)).Nodes...)
	s.apply(reader, tree)
	require.NoError(t, s.destroy(reader, tree))
	require.Nil(t, s.node(reader, "/solo"))
}
