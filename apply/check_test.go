package apply_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// Whatever Run would refuse as things stand, Check refuses with the same error.
func TestCheckRefusesWhatApplyWouldAndWritesNothing(t *testing.T) { checkRefuses(t, inMemory(t)) }

func checkRefuses(t *testing.T, s *site) {
	c, other := s.provisioner(), s.provisioner()
	check := func(x *applying, p *plan.Plan) (err error) {
		s.unchanged(c, func() { err = x.applier().Check(t.Context(), p) })
		return err
	}
	p := s.plan(c, s.shop())
	require.NoError(t, check(executor(c), p))
	s.apply(c, s.shop())
	stale := errorAs[*failure.StaleError](t, check(executor(c), p))
	require.NoError(t, check(executor(c), s.plan(c, s.shop())), "nothing to do")

	p = s.plan(c, s.shop(set("description", "b")))
	require.NoError(t, check(executor(c), p))
	_, err := s.session(c).Set(t.Context(), s.root+"/pay/ledger", []byte("x"), -1)
	require.NoError(t, err)
	require.ErrorAs(t, check(executor(c), p), &stale)
	errorAs[*failure.ProblemsError](t, check(executor(c), s.plan(c, s.shop())))
	require.NoError(t, s.session(c).Delete(t.Context(), s.root+"/pay/ledger", -1))
	s.apply(c, s.shop())

	lease, err := other.Mutex(s.root + "/pay/ledger").Lock(t.Context())
	require.NoError(t, err)
	p = s.plan(c, s.tree(declare("/solo", kind.Election)), plan.Options{AllowMassDestroy: true})
	errorAs[*failure.InUseError](t, check(executor(c), p))
	require.NoError(t, lease.Unlock(t.Context()))

	// While another apply is at it.
	p = s.plan(c, s.shop(set("description", "b")))
	x, looked := executor(other), false
	x.Events = on(func(event.Verified) {
		looked = true
		locked := errorAs[*failure.LockedError](t, check(executor(c), p))
		require.Equal(t, "me@here", locked.Info.Who)
		require.Equal(t, record.LockPath(s.root, stack), locked.Path)
		patient := executor(c)
		patient.LockTimeout = time.Hour
		require.NoError(t, check(patient, p), "Apply would wait for it")
	})
	_, err = x.Run(t.Context(), s.plan(other, s.shop(set("description", "c"))))
	require.NoError(t, err)
	require.True(t, looked)
}
