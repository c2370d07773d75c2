package recipes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// An idle lock is drained while a contender's create is under way: apply has seen nobody, so nobody may be
// granted. The create itself succeeds, because ZooKeeper does not compare the parent's version with anything.
func TestACreateUnderWayWhenTheLockIsDrainedIsNotGranted(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		client := l.Client("late")
		x := l.Lock(way.Take(client)) // the declaration is known from here on
		l.Unlock(x)
		l.NothingLeft()
		rule := l.Srv.Inject(zktest.Once(l.enqueues(way)), zktest.Hold)
		w := l.Waiting(way.Take(client))
		<-rule.Hit()
		l.redeclare(way, asIs, draining)
		rule.Release()
		r := <-w
		require.ErrorIs(t, r.Err, recipes.ErrDraining)
		l.NothingLeft()
		l.redeclare(way, asIs, active)
		l.Settle()
		l.Unlock(l.Lock(way.Take(client)))
	})
}

// The same for a waiter whose turn has come: what it writes to prove it is under way, as its heartbeats have been for long.
func TestAProofUnderWayWhenTheLockIsDrainedGrantsNothing(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		x := l.Lock(way.Block(l.Client("holder")))
		c := l.Client("waiter")
		w := l.Waiting(way.Take(c))
		notYet(t, w, "it is held")
		rule := l.Srv.Inject(func(r zktest.Request) bool {
			return (r.Op == "setData" || r.Op == "multi") && r.Session != l.SessionID(x.Client())
		}, zktest.Hold)
		time.Sleep(c.Newest().Timeout()/6 + time.Second)
		l.Unlock(x)
		<-rule.Hit()
		l.redeclare(way, asIs, draining)
		rule.Release()
		require.ErrorIs(t, (<-w).Err, recipes.ErrDraining)
		l.NothingLeft()
	})
}

// A limit that is lowered while a create is under way counts for it.
func TestACreateUnderWayWhenTheLimitIsLoweredCountsUnderTheNewLimit(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		x := l.Lock(draws(2)(l.Client("first")))
		client := l.Client("late")
		require.NoError(t, client.Semaphore("/s").Declared(t.Context()))
		rule := l.Srv.Inject(zktest.Once(l.enqueues(harness.Ways()["semaphore"])), zktest.Hold)
		w := async(func() (*recipes.Lease, error) { return client.Semaphore("/s").Acquire(t.Context(), 1) })
		<-rule.Hit()
		two := kind.Semaphore.New()
		two.(*kind.SemaphoreParams).Permits = 2
		l.Declare("/s", two)
		rule.Release()
		l.Settle()
		notYet(t, w, "two of two permits are held")
		l.Unlock(x)
		l.Unlock((<-w).V)
		l.NothingLeft()
	})
}

// enqueues matches the requests that create a contender of the recipe.
func (l *lab) enqueues(way harness.Way) func(zktest.Request) bool {
	return func(r zktest.Request) bool {
		return r.Op == "create" && strings.HasPrefix(r.Path, way.Path+"/") || r.Op == "multi"
	}
}
