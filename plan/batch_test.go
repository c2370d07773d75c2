package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// Where nodes of every part of a large index were deleted by hand, each part has to be written. That is more than one
// transaction takes, and was planned as one: such a stack could not be applied any more, not even to create them again.
func TestEntriesOfLostNodesAreDroppedInAsManyTransactionsAsItTakes(t *testing.T) {
	nodes := []*plan.Node{declare("/locks/many", kind.Namespace)}
	for i := range 1600 {
		nodes = append(nodes, declare(fmt.Sprintf("/locks/many/%04d-%s", i, strings.Repeat("x", 240)), kind.Mutex))
	}
	all := declared(nodes...)
	before := newModel(testRoot, testStack)
	before.inTransactions(t, plan.Diff(before.read(t, testRoot, testStack), all, plan.Options{Identities: us}), plan.MaxTransaction)
	every := func(n int) (gone, left []*plan.Node) {
		for i, node := range nodes {
			if i > 0 && i%n == 0 {
				gone = append(gone, node)
			} else {
				left = append(left, node)
			}
		}
		return gone, left
	}
	changed := func(left []*plan.Node) *plan.Tree {
		return declared(append(left, declare("/locks/new", kind.Mutex))...)
	}
	some, rest := every(20)
	most, namespace := every(1)
	for name, c := range map[string]struct {
		gone    []*plan.Node
		desired *plan.Tree
	}{
		"not declared any more":     {some, changed(rest)},
		"created again":             {some, all},
		"all of them":               {most, all},
		"all of them, and for good": {most, changed(namespace)},
	} {
		for _, limit := range []int{plan.MaxTransaction, 200_000} {
			m := before.clone()
			for _, n := range c.gone {
				delete(m.nodes, n.Path)
			}
			p := plan.Diff(m.read(t, testRoot, testStack), c.desired, plan.Options{Identities: us})
			require.True(t, p.HasChanges(), name)
			require.True(t, p.Applyable(), "%s: %v", name, p.Problems)
			n := m.inTransactions(t, p, limit)
			if limit == plan.MaxTransaction {
				require.Len(t, p.Batches, n*min(n-1, 1), "one is not listed")
			}
			live := m.read(t, testRoot, testStack)
			require.Len(t, live.Index.Resources, len(live.Nodes), "%s: the index knows what is there, and no more", name)
			again := plan.Diff(live, c.desired, plan.Options{Identities: us})
			require.Empty(t, again.Drifted, name)
			require.False(t, again.HasChanges(), name)
		}
	}
}

// A list that many nodes share may change. The note of what is still to be set was too long for a transaction from some
// 3,000 nodes on, and could not be cut: such a change could not be applied at all.
func TestAnAccessListOfManyNodesCanBeChanged(t *testing.T) {
	declare := func(list ...kind.ACL) *plan.Tree {
		nodes := []*plan.Node{declare("/locks/many", kind.Namespace, acl(admin))}
		for i := range 2000 {
			nodes = append(nodes, declare(fmt.Sprintf("/locks/many/%04d-%s", i, strings.Repeat("x", 240)), kind.Mutex, acl(list...)))
		}
		return declared(nodes...)
	}
	m := newModel(testRoot, testStack)
	m.inTransactions(t, plan.Diff(m.read(t, testRoot, testStack), declare(admin), plan.Options{Identities: us}), plan.MaxTransaction)
	after := declare(admin, worker)
	p := plan.Diff(m.read(t, testRoot, testStack), after, plan.Options{Identities: us})
	require.True(t, p.Applyable(), "%v", p.Problems)
	m.inTransactions(t, p, plan.MaxTransaction)
	for _, s := range p.ACLSteps()[:600] {
		require.NoError(t, m.setACL(s))
	}
	// It was interrupted.
	live := m.read(t, testRoot, testStack)
	require.Equal(t, []plan.PendingACL{{ACL: []kind.ACL{admin, worker}}}, live.Index.Pending)
	p = plan.Diff(live, after, plan.Options{Identities: us})
	require.NotEmpty(t, p.Resumes)
	require.Empty(t, p.Drifted, "nobody changed anything by hand")
	require.Len(t, p.ACLSteps(), 1400)
}

// inTransactions applies a plan to servers that accept so many bytes, and returns how many transactions that took.
func (m *model) inTransactions(t *testing.T, p *plan.Plan, limit int) (n int) {
	require.NoError(t, p.Transactions("0123456789abcdef", kind.WorldAll(), func(tx *plan.Transaction) error {
		if plan.Size(tx.Ops) > limit {
			require.True(t, tx.Divisible)
			return plan.ErrTooLong
		}
		for i, op := range tx.Ops {
			require.NoError(t, m.do(op), "op %d, %s %s", i, op.Kind, op.Path)
		}
		n++
		return nil
	}))
	return n
}
