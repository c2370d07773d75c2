package diff_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// A sum names its key by two letters, which anybody can copy. Whoever could create nodes had every read of the stack compute some
// milliseconds for a list of each of them.
func TestListsOfForgedNodesCostNothing(t *testing.T) {
	tree := declared(declare("/locks/a", kind.Mutex), declare("/locks/lent", kind.Namespace, acl(admin, entry("tenant", kind.PermAll))))
	m := applied(t, tree)
	real := payloadAt(t, m, "/locks/a")
	for i := range 50 {
		path := fmt.Sprintf("/locks/lent/n%d", i)
		forged := declare(path, kind.Mutex).Payload
		forged.Sum = real.Sum[:2] + strings.Repeat("x", len(real.Sum)-2)
		if i%2 == 0 {
			forged.Sum = real.Sum // of another path
		}
		data, err := forged.Encode()
		require.NoError(t, err)
		m.nodes[path] = &mnode{data: data, acl: kind.List{entry(fmt.Sprintf("u%d", i), kind.PermAll)}}
	}
	computed := record.SlowSums()
	live := m.read(t, testRoot, testStack)
	for _, n := range live.Nodes {
		require.Equal(t, tree.Find(n.Path) != nil, live.Index.Left(n.Path, n.Payload, n.ACL), n.Path)
	}
	p := diff.Compare(live, tree, plan.Options{Identities: us})
	require.False(t, p.HasChanges())
	require.Empty(t, p.Drifted)
	require.Equal(t, computed, record.SlowSums(), "of lists that are not the stack's")

	m.nodes["/locks/a"].acl = kind.List{admin}
	require.Len(t, replan(t, m, tree).Drifted, 1, "of a node that an apply has written, another list is a change by hand")
}
