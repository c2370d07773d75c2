package recipes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// An idle lock is drained while a contender's create is under way: apply has seen nobody, so nobody may be
// granted. The create itself succeeds, because ZooKeeper does not compare the parent's version with anything.
func TestACreateUnderWayWhenTheLockIsDrainedIsNotGranted(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way recipeWay) {
		client := l.client("late")
		x, err := way.take(client)(t.Context())
		require.NoError(t, err, "the declaration is known from here on")
		l.unlock(x)
		l.nothingLeft()
		rule := l.srv.Inject(zktest.Once(l.enqueues(way)), zktest.Hold)
		w := l.locker(way.take(client))
		<-rule.Hit()
		l.redeclare(way, asIs, draining)
		rule.Release()
		r := <-w
		require.ErrorIs(t, r.err, recipes.ErrDraining)
		l.nothingLeft()
		l.redeclare(way, asIs, active)
		l.settle()
		again, err := way.take(client)(t.Context())
		require.NoError(t, err)
		l.unlock(again)
	})
}

// The same for a waiter whose turn has come: what it writes to prove it is under way, as its heartbeats have been for long.
func TestAProofUnderWayWhenTheLockIsDrainedGrantsNothing(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way recipeWay) {
		x, err := way.block(l.client("holder"))(t.Context())
		require.NoError(t, err)
		c := l.client("waiter")
		w := l.locker(way.take(c))
		notYet(t, w, "it is held")
		rule := l.srv.Inject(func(r zktest.Request) bool {
			return (r.Op == "setData" || r.Op == "multi") && r.Session != l.session(x.Client())
		}, zktest.Hold)
		time.Sleep(c.Newest().Timeout()/6 + time.Second)
		l.unlock(x)
		<-rule.Hit()
		l.redeclare(way, asIs, draining)
		rule.Release()
		require.ErrorIs(t, (<-w).err, recipes.ErrDraining)
		l.nothingLeft()
	})
}

// A limit that is lowered while a create is under way counts for it.
func TestACreateUnderWayWhenTheLimitIsLoweredCountsUnderTheNewLimit(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		x, err := l.client("first").Semaphore("/s").Acquire(t.Context(), 2)
		require.NoError(t, err)
		client := l.client("late")
		err = client.Semaphore("/s").Declared(t.Context())
		require.NoError(t, err)
		rule := l.srv.Inject(zktest.Once(l.enqueues(everyRecipe()["semaphore"])), zktest.Hold)
		w := async(func() (*recipes.Lease, error) { return client.Semaphore("/s").Acquire(t.Context(), 1) })
		<-rule.Hit()
		two := kind.Semaphore.New()
		two.(*kind.SemaphoreParams).Permits = 2
		l.declare("/s", two)
		rule.Release()
		l.settle()
		notYet(t, w, "two of two permits are held")
		l.unlock(x)
		l.unlock((<-w).v)
		l.nothingLeft()
	})
}

// enqueues matches the requests that create a contender of the recipe.
func (l *lab) enqueues(way recipeWay) func(zktest.Request) bool {
	return func(r zktest.Request) bool {
		return r.Op == "create" && strings.HasPrefix(r.Path, way.path+"/") || r.Op == "multi"
	}
}
