package apply_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// byReplacement is the shop for us alone, its locks made anew for that.
func byReplacement(s *site) *plan.Tree {
	tree := s.shop()
	for _, n := range tree.Nodes {
		if !n.Kind().Container {
			adminOnly(n)
			n.ReplaceForACL = true
		}
	}
	return tree
}

// A list that is set after the transaction is for a moment the old one beside the new
// declaration. Asked for, it is part of the transaction: nothing is left to do after it.
func TestAccessListsByReplacementAreOfOneTransaction(t *testing.T) {
	s := inMemory(t)
	c := s.provisioner()
	s.apply(c, s.shop())
	p := s.plan(c, byReplacement(s))
	require.Equal(t, plan.Counts{Add: 4, Destroy: 4}, p.Summary())
	require.Empty(t, p.ACLSteps())
	p = resaved(t, p)
	x := executor(c)
	var ev events
	x.Events = ev.add
	_, err := x.Run(t.Context(), p)
	require.NoError(t, err)
	require.Zero(t, find[apply.ACLPhase](ev))
	s.converges(c, byReplacement(s), plan.Options{})
	for _, path := range []string{"/pay/ledger", "/pay/pool/leases"} {
		acl, stat, err := s.session(c).GetACL(t.Context(), s.root+path)
		require.NoError(t, err)
		require.True(t, kind.EqualACL([]kind.ACL{admin}, apply.FromZK(acl)), path)
		require.Zero(t, stat.Aversion, "created with it")
	}
	s.apply(c, s.shop())
	p = s.plan(c, s.shop())
	require.False(t, p.HasChanges(), "without it lists are set in place: %s", p)
}

// In use it is refused, and both the plan and the refusal say how to do without.
func TestAccessListByReplacementWaitsForTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t)
		c := s.provisioner()
		s.apply(c, s.shop())
		lease, err := s.dial("provisioner:secret").Mutex(s.root + "/pay/ledger").Lock(t.Context())
		require.NoError(t, err)
		p := s.plan(c, byReplacement(s))
		require.Equal(t, plan.ProblemInUse, p.Problems[0].Code)
		require.Contains(t, p.Problems[0].Detail, `Take acl_change = "replace" out`)
		s.wroteNothing(c, func() {
			_, err = executor(c).Run(t.Context(), p)
			var used *apply.InUseError
			require.ErrorAs(t, err, &used)
			require.ErrorContains(t, err, `remove acl_change = "replace"`)
		})
		require.NoError(t, lease.Verify(t.Context()))
		go func() {
			time.Sleep(3 * time.Second) // fake
			if err := lease.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		_, err = executor(c).Run(t.Context(), s.plan(c, byReplacement(s), plan.Options{Drain: time.Minute}))
		require.NoError(t, err, "drained like any other replacement")
		s.converges(c, byReplacement(s), plan.Options{})
	})
}
