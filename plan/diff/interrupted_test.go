package diff_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

// Two nodes have one address: a namespace that is not declared any more but has to
// stay, and the one that is declared so now. One of them was forgotten.
func TestTwoNodesOfOneAddressAreBothKept(t *testing.T) {
	old := declared(declare("/locks/a", kind.Namespace, addr("namespace.x")), declare("/locks/b", kind.Namespace, addr("namespace.y")))
	m := applied(t, old)
	m.nodes["/locks/a/foreign"] = &mnode{acl: kind.WorldAll()}
	now := declared(declare("/locks/b", kind.Namespace, addr("namespace.x")))
	p := replan(t, m, now)
	require.Equal(t, []string{"warning unmanaged_child"}, codes(p))
	m.apply(t, p)
	again := replan(t, m, now)
	require.False(t, again.HasChanges(), "%s", again)
	delete(m.nodes, "/locks/a/foreign")
	m.apply(t, replan(t, m, now))
	require.Equal(t, []string{"/locks/b"}, pathsOf(m.read(t, testRoot, testStack).Nodes))
}

// An apply that gave a namespace another path ended before the lock in it had one. The next plan
// deleted what was left of the namespace before the lock had gone, which ZooKeeper refuses, each time.
func TestRestOfANamespaceWaitsForWhatIsInIt(t *testing.T) {
	m := applied(t, declared(declare("/locks/a", kind.Namespace, addr("namespace.a")), declare("/locks/a/m", kind.Mutex, addr("namespace.a.mutex.m"))))
	moved := declared(declare("/locks/b", kind.Namespace, addr("namespace.a")), declare("/locks/b/m", kind.Mutex, addr("namespace.a.mutex.m")))
	m.nodes["/locks/b"] = applied(t, moved).nodes["/locks/b"] // the namespace alone is there
	settle(t, m, replan(t, m, moved), moved)
	require.Equal(t, pathsOf(moved.Nodes), pathsOf(m.read(t, testRoot, testStack).Nodes))
}
