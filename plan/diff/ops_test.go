package diff_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
)

func TestTransactionOfARichPlan(t *testing.T) {
	p := richPlan(t)
	ops, err := operations(p, "0123456789abcdef", kind.WorldAll())
	require.NoError(t, err)
	var got []string
	for _, op := range ops {
		got = append(got, fmt.Sprintf("%s %s v%d", op.Kind, op.Path, op.Version))
	}
	require.Equal(t, []string{
		"delete /locks/solo v0",
		"create /locks/new v0",
		"set /locks/pay v0", // its access list changes
		"delete /locks/pay/ledger v0",
		"create /locks/pay/ledger v0",
		"set /locks/pay/pool v0",
		"set /locks/.locktree/stacks/shop v0",
	}, got)
	require.NotContains(t, string(ops[6].Data), "hunter2")
	require.Equal(t, plan.Stats{Ops: 7, Bytes: tx.Size(ops), ACLPhase: 4}, p.Transaction)
}

func TestNamespaceSomethingIsCreatedInIsChecked(t *testing.T) {
	m := applied(t, base())
	tree := base()
	tree.Nodes = append(tree.Nodes, declare("/locks/pay/more", kind.Mutex))
	ops, err := operations(replan(t, m, tree), "0123456789abcdef", nil)
	require.NoError(t, err)
	require.Equal(t, tx.Op{Kind: tx.OpCheck, Addr: tree.Nodes[0].Addr, Path: "/locks/pay"}, ops[0])
	require.Len(t, ops, 3)
}

// Formerly, in one out of 65,536 applies, the second transaction had the id of the first. The outcome of the second was then read from what
// the first one wrote.
func TestNoTwoTransactionsOfAPlanHaveOneId(t *testing.T) {
	for _, id := range []string{"0123456789ab0001", "0123456789ab0002", "0123456789abffff", "0123456789ab0000"} {
		seen := map[string]bool{}
		err := tx.Each(diff.Compare(nil, base(), plan.Options{Identities: us}), id, kind.WorldAll(), func(batch *tx.Transaction) error {
			if batch.Divisible {
				return tx.ErrTooLong
			}
			require.Len(t, batch.ID, tx.ApplyIDLen)
			require.Equal(t, len(seen) == 0, batch.ID == id, "the first has the id itself")
			require.False(t, seen[batch.ID], "%s", batch.ID)
			seen[batch.ID] = true
			return nil
		})
		require.NoError(t, err)
		require.Len(t, seen, 4)
	}
}

// These locks were deleted in 12 transactions of some 110 kB.
func TestADestroyIsCutByWhatItTakes(t *testing.T) {
	var nodes []*plan.Node
	at := "/locks"
	for range 3 {
		at += "/" + strings.Repeat("n", 200)
		nodes = append(nodes, declare(at, kind.Namespace))
	}
	for i := range 1_800 {
		nodes = append(nodes, declare(fmt.Sprintf("%s/%04d", at, i), kind.Mutex))
	}
	m := applied(t, declared(nodes...))
	p := diff.Compare(m.read(t, testRoot, testStack), declared(nodes...), plan.Options{Identities: us, Destroy: true})
	require.Len(t, p.Batches, 2)
	for _, b := range p.Batches {
		require.Less(t, b.Bytes, tx.MaxTransaction)
	}
	m.apply(t, p)
	require.Empty(t, m.read(t, testRoot, testStack).Nodes)
}

// Many nodes share a list that changes. From some 3,000 nodes on, the note of the lists to set was too long for a transaction, and could
// not be cut. Such a change could not be applied at all.
func TestAnAccessListOfManyNodesCanBeChanged(t *testing.T) {
	declare := func(list ...kind.ACL) *plan.Tree {
		nodes := []*plan.Node{declare("/locks/many", kind.Namespace, acl(admin))}
		for i := range 2000 {
			nodes = append(nodes, declare(fmt.Sprintf("/locks/many/%04d-%s", i, strings.Repeat("x", 240)), kind.Mutex, acl(list...)))
		}
		return declared(nodes...)
	}
	m := newModel(testRoot, testStack)
	m.inTransactions(t, diff.Compare(m.read(t, testRoot, testStack), declare(admin), plan.Options{Identities: us}), tx.MaxTransaction)
	after := declare(admin, worker)
	p := diff.Compare(m.read(t, testRoot, testStack), after, plan.Options{Identities: us})
	require.True(t, p.Applyable(), "%v", p.Problems)
	m.inTransactions(t, p, tx.MaxTransaction)
	for _, s := range p.ACLSteps()[:600] {
		require.NoError(t, m.setACL(s))
	}
	// The apply is interrupted here.
	live := m.read(t, testRoot, testStack)
	require.Equal(t, []record.Pending{{From: kind.List{admin}, To: kind.List{admin, worker}}}, live.Index.Pending)
	p = diff.Compare(live, after, plan.Options{Identities: us})
	require.NotEmpty(t, p.Resumes)
	require.Empty(t, p.Drifted, "nobody changed anything by hand")
	require.Len(t, p.ACLSteps(), 1400)
}

// inTransactions applies a plan to servers that accept at most limit bytes. It returns the number of transactions.
func (m *model) inTransactions(t *testing.T, p *plan.Plan, limit int) (n int) {
	require.NoError(t, tx.Each(p, "0123456789abcdef", kind.WorldAll(), func(batch *tx.Transaction) error {
		if tx.Size(batch.Ops) > limit {
			require.True(t, batch.Divisible)
			return tx.ErrTooLong
		}
		for i, op := range batch.Ops {
			require.NoError(t, m.do(op), "op %d, %s %s", i, op.Kind, op.Path)
		}
		n++
		return nil
	}))
	return n
}

// Two namespaces have one address. One is no longer declared but has to stay; the other is the one declared now. One of them was forgotten.
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

// An apply gave a namespace another path, and ended before it gave the lock in it one. Each next plan deleted the old namespace before its
// lock, which ZooKeeper refuses.
func TestRestOfANamespaceWaitsForWhatIsInIt(t *testing.T) {
	m := applied(t, declared(declare("/locks/a", kind.Namespace, addr("namespace.a")), declare("/locks/a/m", kind.Mutex, addr("namespace.a.mutex.m"))))
	moved := declared(declare("/locks/b", kind.Namespace, addr("namespace.a")), declare("/locks/b/m", kind.Mutex, addr("namespace.a.mutex.m")))
	m.nodes["/locks/b"] = applied(t, moved).nodes["/locks/b"] // the namespace alone is there
	settle(t, m, replan(t, m, moved), moved)
	require.Equal(t, pathsOf(moved.Nodes), pathsOf(m.read(t, testRoot, testStack).Nodes))
}
