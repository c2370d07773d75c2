package recipes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
)

// redeclare changes the declaration; the semaphore keeps its three permits.
func (l *lab) redeclare(way harness.Way, common func(*kind.Common), payload func(*kind.Payload)) {
	l.T.Helper()
	p := way.Kind.New()
	var c *kind.Common
	switch p := p.(type) {
	case *kind.MutexParams:
		c = &p.Common
	case *kind.RWLockParams:
		c = &p.Common
	case *kind.SemaphoreParams:
		p.Permits, c = 3, &p.Common
	case *kind.ElectionParams:
		c = &p.Common
	}
	common(c)
	l.Declare(way.Path, p, payload)
}

func asIs(*kind.Common)                      {}
func active(*kind.Payload)                   {}
func draining(p *kind.Payload)               { p.State = kind.StateDraining }
func oneWaiter(p *kind.Common)               { p.MaxWaiters = 1 }
func unbounded(p *kind.Common)               { p.MaxWaiters = 0 }
func ended(l *recipes.Lease) <-chan struct{} { return l.Context().Done() }

func TestMaxWaitersBoundsTheQueueOfEveryRecipe(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		l.redeclare(way, oneWaiter, active)
		x := l.Lock(way.Block(l.Client("holder")))
		w := l.Waiting(way.Take(l.Client("first")))
		notYet(t, w, "one may wait")
		before := len(l.Children(way.Queue))
		err := l.Refused(way.Take(l.Client("second")), recipes.ErrQueueFull)
		require.ErrorContains(t, err, "max_waiters is 1")
		l.Settle()
		require.Len(t, l.Children(way.Queue), before, "who was refused left something")
		l.redeclare(way, unbounded, active)
		late := l.Waiting(way.Take(l.Client("third")))
		l.Unlock(x)
		l.Unlock((<-w).V)
		l.Unlock((<-late).V)
		l.NothingLeft()
	})
}

func TestADrainedLockGrantsNothingNewWhateverItsRecipe(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		x := l.Lock(way.Block(l.Client("holder")))
		w := l.Waiting(way.Take(l.Client("waiter")))
		l.redeclare(way, asIs, draining)
		require.ErrorIs(t, (<-w).Err, recipes.ErrDraining, "a waiter is sent away")
		l.Refused(way.Take(l.Client("new")), recipes.ErrDraining)
		require.NoError(t, x.Context().Err(), "a holder keeps what it has")
		require.NoError(t, x.Verify(t.Context()))
		l.Unlock(x)
		l.NothingLeft()
		l.redeclare(way, asIs, active)
		l.Unlock(l.Lock(way.Take(l.Client("again"))))
	})
}

func TestARevocationRequestReachesHoldersAndWaitersOfEveryRecipe(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		admin := l.Client("admin")
		x := l.Lock(way.Take(l.Client("holder")))
		for _, node := range x.Nodes() { // any of the nodes that hold will do
			l.Unlock(x)
			x = l.Lock(way.Take(l.Client("holder")))
			in := l.look(admin, strings.TrimSuffix(kind.ParentPath(node), "/leases"))
			require.NotEmpty(t, in.Holders)
			require.NoError(t, admin.Revoke(t.Context(), in.Holders[len(in.Holders)-1].Path))
			<-ended(x)
			require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrRevoked)
			require.NoError(t, x.Verify(t.Context()), "it is held until it is given back")
		}
		l.Unlock(x)
		l.NothingLeft()

		x = l.Lock(way.Block(l.Client("holder")))
		w := l.Waiting(way.Take(l.Client("waiter")))
		in := l.look(admin, way.Path)
		require.Len(t, in.Waiters, 1)
		require.NoError(t, admin.Revoke(t.Context(), in.Waiters[0].Path))
		r := <-w
		require.ErrorIs(t, r.Err, recipes.ErrRevoked, "a waiter leaves")
		require.ErrorContains(t, admin.Revoke(t.Context(), way.Path), "not a contender")
		require.NoError(t, x.Context().Err())
		l.Unlock(x)
		l.NothingLeft()
	})
}

func TestTheHolderIsNamedToWhoeverGivesUpWaitingWhateverTheRecipe(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		x := l.Lock(way.Block(l.Client("the holder")))
		ctx := l.Within(3 * time.Second)
		start := time.Now()
		_, err := way.Take(l.Client("waiter"))(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		held := heldBy(t, err)
		require.Equal(t, way.Path, held.Path)
		require.Equal(t, x.Node(), held.Holder.Path)
		require.Equal(t, "the holder", held.Holder.ID)
		require.Less(t, time.Since(start), 3*time.Second+50*time.Millisecond)
		l.Unlock(x)
		l.NothingLeft()
	})
}

func TestASemaphoreOfKazoosWireIsRefusedWithTheReasonAndNothingIsWritten(t *testing.T) { // recipes.md 2.5 b
	// Its permits stand elsewhere and are not counted again after their creation: sharing one would admit too many.
	inLab(t, func(t *testing.T, l *lab) {
		const why = `"kazoo" is not allowed: kazoo's semaphore keeps its permits and its queue elsewhere`
		l.Semaphore(2)
		c := l.Client("a")
		require.NoError(t, l.Srv.Create("/undeclared", nil))
		p := kind.Semaphore.New().(*kind.SemaphoreParams)
		p.Wire = kind.WireKazoo
		brought := c.Semaphore("/undeclared", recipes.WithParams(p))
		_, err := brought.Acquire(t.Context(), 1)
		require.ErrorContains(t, err, "/undeclared")
		require.ErrorContains(t, err, why)

		n, _ := l.Srv.Get("/s")
		declared := strings.Replace(string(n.Data), `"wire":"curator"`, `"wire":"kazoo"`, 1)
		require.NotEqual(t, string(n.Data), declared)
		require.NoError(t, l.Srv.Set("/s", []byte(declared)))
		_, err = c.Semaphore("/s").Acquire(t.Context(), 1)
		require.ErrorIs(t, err, recipes.ErrNotProvisioned)
		require.ErrorContains(t, err, why)
		l.Empty("/undeclared", "/s/leases", "/s/locks")
	})
}
