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
	m.inTransactions(t, diff.Compare(m.read(t, testRoot, testStack), declare(admin), plan.Options{Identities: us}), tx.MaxTransaction)
	after := declare(admin, worker)
	p := diff.Compare(m.read(t, testRoot, testStack), after, plan.Options{Identities: us})
	require.True(t, p.Applyable(), "%v", p.Problems)
	m.inTransactions(t, p, tx.MaxTransaction)
	for _, s := range p.ACLSteps()[:600] {
		require.NoError(t, m.setACL(s))
	}
	// It was interrupted.
	live := m.read(t, testRoot, testStack)
	require.Equal(t, []record.Pending{{From: kind.List{admin}, To: kind.List{admin, worker}}}, live.Index.Pending)
	p = diff.Compare(live, after, plan.Options{Identities: us})
	require.NotEmpty(t, p.Resumes)
	require.Empty(t, p.Drifted, "nobody changed anything by hand")
	require.Len(t, p.ACLSteps(), 1400)
}

// inTransactions applies a plan to servers that accept so many bytes, and returns how many transactions that took.
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
