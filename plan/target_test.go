package plan

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

// An address that is declared, and in whose way something stands, was said to match nothing,
// with itself as what was meant.
func TestAddressOfWhatCannotBePlannedIsNoMistake(t *testing.T) {
	const pay, pool, solo = "namespace.x.namespace.locks_pay", "namespace.x.semaphore.locks_pay_pool", "namespace.x.election.locks_solo"
	tree := base()
	require.Equal(t, pool, tree.Nodes[2].Addr)
	tree.Nodes[2].Path = "/elsewhere"
	live := &Tree{Root: testRoot, Stack: testStack, Nodes: []*Node{
		{Path: "/locks/pay", Live: &Live{Czxid: 4, Trouble: TroubleForeign}},
		{Path: "/locks/solo", Live: &Live{Czxid: 5, Trouble: TroubleForeign}},
	}}
	for i, o := range []Options{
		{Replace: []string{solo, pay, pool}}, {Targets: []string{solo, pool}}, {Excludes: []string{pay, pool}}, {ForceBreak: []string{solo, pool}},
		{Targets: []string{"**.locks_pay_ledger"}, Excludes: []string{solo, pool}}, {RefreshOnly: true, Targets: []string{solo, pool}},
	} {
		o.Identities = us
		require.NotContains(t, codes(Diff(live, tree, o)), "warning target", "%d", i)
	}
}

// Of a lock that was renamed and not applied yet, the former address is as good as the new one: for what
// was changed by hand, and for an import that is in its way.
func TestFormerAddressSelectsDriftAndProblems(t *testing.T) {
	const former, latter = "namespace.x.election.locks_solo", "namespace.x.election.renamed"
	m := applied(t, base())
	tree := base()
	tree.Nodes[3].Addr = latter
	tree.Nodes[3].Payload.Owner.Addr = latter
	tree.Intent.Moves = []Move{{From: former, To: latter}}
	live := m.read(t, testRoot, testStack)
	at := slices.IndexFunc(live.Nodes, func(n *Node) bool { return n.Path == "/locks/solo" })
	live.Nodes[at].ACL = kind.WorldAll()
	for _, target := range []string{former, latter} {
		p := Diff(live, tree, Options{Identities: us, RefreshOnly: true, Targets: []string{target}})
		require.Len(t, p.Drifted, 1, target)
		p = Diff(live, tree, Options{Identities: us, RefreshOnly: true, Excludes: []string{target}})
		require.Empty(t, p.Drifted, target)
	}

	tree.Nodes[3].Path = "/locks/solo2"
	tree.Intent.Imports = []Import{{To: latter, Path: "/locks/far"}}
	live.Nodes = append(live.Nodes, &Node{Path: "/locks/far", Live: &Live{Czxid: 99, Trouble: TroubleForeign}})
	for _, target := range []string{former, latter} {
		p := Diff(live, tree, Options{Identities: us, Targets: []string{target}})
		require.Contains(t, codes(p), "error import", target)
	}
}

// One list of two locks is told of once, at the first of them. Where a target or an exclusion left
// that one out, its problem went with it, and the other lock was made open to everybody, or
// so that nobody could manage it.
func TestProblemOfSeveralNodesStaysWithThoseThatArePlanned(t *testing.T) {
	const ledger, solo = "namespace.x.mutex.locks_pay_ledger", "namespace.x.election.locks_solo"
	for code, list := range map[ProblemCode][]kind.ACL{
		ProblemWorldWritable: kind.WorldAll(),
		ProblemLockOut:       {{Scheme: "digest", ID: "somebody:else", Perms: kind.PermAll}},
		ProblemNoACL:         nil,
	} {
		tree := base()
		tree.Nodes[1].ACL, tree.Nodes[3].ACL = list, list
		for i, o := range []Options{{}, {Targets: []string{solo}}, {Excludes: []string{ledger}}, {Targets: []string{ledger}}} {
			o.Identities = us
			p := Diff(nil, tree, o)
			at := slices.IndexFunc(p.Problems, func(q Problem) bool { return q.Code == code })
			require.NotEqual(t, -1, at, "%s %d", code, i)
			require.False(t, p.Applyable())
			require.Equal(t, []string{ledger, solo, solo, ledger}[i], p.Problems[at].Addr)
			require.Contains(t, p.Problems[at].Detail, p.Problems[at].Addr)
			require.Equal(t, []int{1, 0, 0, 0}[i], p.Problems[at].AlsoAffected, "%s %d", code, i)
		}
		require.True(t, Diff(nil, tree, Options{Identities: us, Targets: []string{"**.locks_pay_pool"}}).Applyable())
	}
}
