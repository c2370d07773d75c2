package apply_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/commit"
	"github.com/locktree/locktree/apply/internal/lock"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// The network breaks again and again, and it is always the transaction that it hits.
// Servers that answer a request of the same length read the transaction, too: it is sent
// again as it is, and never taken for too long and cut.
func TestFlappingNetworkIsNotTakenForServersThatReadLess(t *testing.T) {
	for name, c := range map[string]struct {
		flaps int // how often the transaction ends its connection
		probe int // and how often what is sent to find out why
		fails bool
	}{
		"twice":                         {2, 0, false},
		"twice, and once what asks why": {2, 1, false},
		"each time":                     {9, 0, true},
		"each time, and once what asks": {9, 1, true},
		"once, and each time what asks": {1, 9, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { flapping(t, inMemory(t), c.flaps, c.probe, c.fails) })
		})
	}
}

func flapping(t *testing.T, s *site, flaps, probe int, fails bool) {
	c := s.provisioner()
	tree := s.tree(bulk(20, 280, "x")...)
	s.apply(c, s.tree(declare("/first", kind.Mutex)))
	p := s.plan(c, tree)
	require.Empty(t, p.Batches)
	require.Greater(t, p.Transaction.Bytes, commit.Suspect)
	sent := transaction(s)
	strike := func(n int, match func(zktest.Request) bool) *zktest.Injection {
		return s.server.Inject(func(r zktest.Request) bool {
			if n == 0 || !match(r) {
				return false
			}
			n--
			return true
		}, zktest.CutBefore)
	}
	faults := []*zktest.Injection{strike(flaps, sent), strike(probe, asksWhy(s))}
	x := executor(c)
	var ev events
	x.Events = ev.add
	before := s.dump(c)
	res, err := x.Run(t.Context(), p)
	for _, f := range faults {
		f.Remove()
	}
	require.Equal(t, min(flaps, lock.Tries), faults[0].Hits())
	require.Equal(t, min(probe, 1), faults[1].Hits())
	if fails {
		var e *failure.NodeError
		require.ErrorAs(t, err, &e)
		require.ErrorIs(t, err, commit.ErrLostAgain)
		require.NotErrorIs(t, err, tx.ErrTooLong)
		require.ErrorContains(t, err, "Nothing was written")
		require.Equal(t, before, s.dump(c))
		return
	}
	require.NoError(t, err)
	require.Equal(t, 1, res.Transactions, "it was cut")
	require.Equal(t, p.Transaction.Bytes, res.Bytes)
	s.converges(c, tree, plan.Options{})
}

// What asks is answered by servers that read that much, ends its connection where they
// do not, and writes nothing.
func TestLongRequestThatAsksChangesNothing(t *testing.T) { asking(t, inMemory(t)) }

func asking(t *testing.T, s *site) {
	c := s.provisioner()
	s.apply(c, s.tree(declare("/first", kind.Mutex)))
	r, err := apply.BeginSending(t.Context(), executor(c).applier(), s.plan(c, s.tree(declare("/second", kind.Mutex))))
	require.NoError(t, err)
	const bytes = 600_000
	s.unchanged(c, func() {
		require.True(t, r.Readable(t.Context(), bytes))
		require.Equal(t, bytes, r.Longest)
	})
	r.Held.Unlock(t.Context())
}

// asksWhy matches what an apply sends to find out whether its transaction is read.
func asksWhy(s *site) func(zktest.Request) bool {
	lock := record.LockPath(s.root, stack)
	return func(r zktest.Request) bool { return r.Op == "multi" && len(r.Paths) == 2 && r.Paths[1] == lock }
}
