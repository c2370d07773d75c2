package apply

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestQuotaIsAFuseOfItsNamespaceAndGoesWithIt(t *testing.T) {
	s := inMemory(t, zktest.WithQuotaEnforcement())
	quota(t, s)
}

func quota(t *testing.T, s *site) {
	c := s.provisioner()
	limited := func(n int) *plan.Tree {
		tree := s.shop()
		if n > 0 {
			tree.Intent.Quotas = []plan.Quota{{Addr: "pay.namespace", Path: s.root + "/pay", MaxNodes: n}}
		}
		return tree
	}
	p := s.plan(c, limited(8))
	require.Equal(t, 8, p.Changes[0].Quota.After)
	s.apply(c, limited(8))
	again := s.plan(c, limited(8))
	require.False(t, again.HasChanges(), "%s", again)

	// 7 nodes: the namespace, three locks and a namespace in it, two parts of the semaphore.
	program := s.dial("provisioner:secret")
	first, err := program.Mutex(s.root + "/pay/ledger").Lock(t.Context())
	require.NoError(t, err)
	_, err = program.RWMutex(s.root + "/pay/batch/nightly").Lock(t.Context())
	require.ErrorIs(t, err, recipes.ErrQuotaExceeded)

	p = s.plan(c, limited(20))
	require.Equal(t, plan.Counts{Change: 1}, p.Summary())
	s.apply(c, limited(20))
	second, err := program.RWMutex(s.root + "/pay/batch/nightly").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, first.Unlock(t.Context()))
	require.NoError(t, second.Unlock(t.Context()))

	// Taken out of the configuration, and, another time, with everything.
	s.apply(c, limited(0))
	require.False(t, s.plan(c, limited(0)).HasChanges())
	gone := func() {
		stat, err := s.session(c).Exists(t.Context(), plan.QuotaPath(s.root+"/pay")+"/zookeeper_limits")
		require.NoError(t, err)
		require.Nil(t, stat)
	}
	gone()
	s.apply(c, limited(9))
	require.NoError(t, s.destroy(c, limited(9)))
	gone()
}
