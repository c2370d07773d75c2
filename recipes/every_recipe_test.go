package recipes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// recipeWay is one way to take the lock at a recipe's path; block is who keeps it from being granted.
type recipeWay struct {
	path  string
	kind  *kind.Kind
	queue string // where the waiters stand
	block func(*recipes.Client) func(context.Context) (*recipes.Lease, error)
	take  func(*recipes.Client) func(context.Context) (*recipes.Lease, error)
}

func campaign(c *recipes.Client) func(context.Context) (*recipes.Lease, error) {
	return c.Election("/e").Campaign
}

func draws(n int) func(*recipes.Client) func(context.Context) (*recipes.Lease, error) {
	return drawsAt("/s", n)
}

func drawsAt(path string, n int) func(*recipes.Client) func(context.Context) (*recipes.Lease, error) {
	return func(c *recipes.Client) func(context.Context) (*recipes.Lease, error) {
		return func(ctx context.Context) (*recipes.Lease, error) { return c.Semaphore(path).Acquire(ctx, n) }
	}
}

func everyRecipe() map[string]recipeWay { return everyRecipeAt("") }

// everyRecipeAt is everyRecipe for locks whose paths end so.
func everyRecipeAt(suffix string) map[string]recipeWay {
	m, rw, s, e := "/m"+suffix, "/rw"+suffix, "/s"+suffix, "/e"+suffix
	mutex := func(c *recipes.Client) func(context.Context) (*recipes.Lease, error) { return c.Mutex(m).Lock }
	write := func(c *recipes.Client) func(context.Context) (*recipes.Lease, error) { return c.RWMutex(rw).Lock }
	read := func(c *recipes.Client) func(context.Context) (*recipes.Lease, error) { return c.RWMutex(rw).RLock }
	campaign := func(c *recipes.Client) func(context.Context) (*recipes.Lease, error) { return c.Election(e).Campaign }
	return map[string]recipeWay{
		"mutex":     {m, kind.Mutex, m, mutex, mutex},
		"writer":    {rw, kind.RWLock, rw, read, write},
		"reader":    {rw, kind.RWLock, rw, write, read},
		"semaphore": {s, kind.Semaphore, s + "/locks", drawsAt(s, 1), drawsAt(s, 3)},
		"election":  {e, kind.Election, e, campaign, campaign},
		"set": {m, kind.Mutex, m, mutex, func(c *recipes.Client) func(context.Context) (*recipes.Lease, error) {
			return c.MultiLock(c.Mutex(m), c.RWMutex("/rw").Reader(), c.Election("/e")).Lock
		}},
	}
}

// forEveryRecipe runs f for each, with locks of all kinds declared.
func forEveryRecipe(t *testing.T, f func(t *testing.T, l *lab, way recipeWay)) {
	for name, way := range everyRecipe() {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.everyKind()
				f(t, l, way)
			})
		})
	}
}

// redeclare changes the declaration; the semaphore keeps its three permits.
func (l *lab) redeclare(way recipeWay, common func(*kind.Common), payload func(*kind.Payload)) {
	l.t.Helper()
	p := way.kind.New()
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
	l.declare(way.path, p, payload)
}

func asIs(*kind.Common)                      {}
func active(*kind.Payload)                   {}
func draining(p *kind.Payload)               { p.State = kind.StateDraining }
func oneWaiter(p *kind.Common)               { p.MaxWaiters = 1 }
func unbounded(p *kind.Common)               { p.MaxWaiters = 0 }
func ended(l *recipes.Lease) <-chan struct{} { return l.Context().Done() }

func TestMaxWaitersBoundsTheQueueOfEveryRecipe(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way recipeWay) {
		l.redeclare(way, oneWaiter, active)
		x, err := way.block(l.client("holder"))(t.Context())
		require.NoError(t, err)
		w := l.locker(way.take(l.client("first")))
		notYet(t, w, "one may wait")
		before := len(l.children(way.queue))
		_, err = way.take(l.client("second"))(t.Context())
		require.ErrorIs(t, err, recipes.ErrQueueFull)
		require.ErrorContains(t, err, "max_waiters is 1")
		l.settle()
		require.Len(t, l.children(way.queue), before, "who was refused left something")
		l.redeclare(way, unbounded, active)
		late := l.locker(way.take(l.client("third")))
		l.unlock(x)
		l.unlock((<-w).v)
		l.unlock((<-late).v)
		l.nothingLeft()
	})
}

func TestADrainedLockGrantsNothingNewWhateverItsRecipe(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way recipeWay) {
		x, err := way.block(l.client("holder"))(t.Context())
		require.NoError(t, err)
		w := l.locker(way.take(l.client("waiter")))
		l.redeclare(way, asIs, draining)
		require.ErrorIs(t, (<-w).err, recipes.ErrDraining, "a waiter is sent away")
		_, err = way.take(l.client("new"))(t.Context())
		require.ErrorIs(t, err, recipes.ErrDraining)
		require.NoError(t, x.Context().Err(), "a holder keeps what it has")
		require.NoError(t, x.Verify(t.Context()))
		l.unlock(x)
		l.nothingLeft()
		l.redeclare(way, asIs, active)
		again, err := way.take(l.client("again"))(t.Context())
		require.NoError(t, err)
		l.unlock(again)
	})
}

func TestARevocationRequestReachesHoldersAndWaitersOfEveryRecipe(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way recipeWay) {
		admin := l.client("admin")
		x, err := way.take(l.client("holder"))(t.Context())
		require.NoError(t, err)
		for _, node := range x.Nodes() { // any of the nodes that hold will do
			l.unlock(x)
			x, err = way.take(l.client("holder"))(t.Context())
			require.NoError(t, err)
			in, err := inspect.Lock(t.Context(), admin, parentOf(kind.ParentPath(node), way))
			require.NoError(t, err)
			require.NotEmpty(t, in.Holders)
			require.NoError(t, admin.Revoke(t.Context(), in.Holders[len(in.Holders)-1].Path))
			<-ended(x)
			require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrRevoked)
			require.NoError(t, x.Verify(t.Context()), "it is held until it is given back")
		}
		l.unlock(x)
		l.nothingLeft()

		x, err = way.block(l.client("holder"))(t.Context())
		require.NoError(t, err)
		w := l.locker(way.take(l.client("waiter")))
		in, err := inspect.Lock(t.Context(), admin, way.path)
		require.NoError(t, err)
		require.Len(t, in.Waiters, 1)
		require.NoError(t, admin.Revoke(t.Context(), in.Waiters[0].Path))
		r := <-w
		require.ErrorIs(t, r.err, recipes.ErrRevoked, "a waiter leaves")
		require.ErrorContains(t, admin.Revoke(t.Context(), way.path), "not a contender")
		require.NoError(t, x.Context().Err())
		l.unlock(x)
		l.nothingLeft()
	})
}

// parentOf is the lock whose queue dir is.
func parentOf(dir string, _ recipeWay) string {
	if dir == "/s/leases" || dir == "/s/locks" {
		return "/s"
	}
	return dir
}

func TestTheHolderIsNamedToWhoeverGivesUpWaitingWhateverTheRecipe(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way recipeWay) {
		x, err := way.block(l.client("the holder"))(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err = way.take(l.client("waiter"))(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var held *recipes.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, way.path, held.Path)
		require.Equal(t, x.Node(), held.Holder.Path)
		require.Equal(t, "the holder", held.Holder.ID)
		require.Less(t, time.Since(start), 3*time.Second+50*time.Millisecond)
		l.unlock(x)
		l.nothingLeft()
	})
}

func TestASemaphoreOfKazoosWireIsRefusedWithTheReasonAndNothingIsWritten(t *testing.T) { // recipes.md 2.5 b
	// Its permits stand elsewhere and are not counted again after their creation: sharing one would admit too many.
	inLab(t, func(t *testing.T, l *lab) {
		const why = `"kazoo" is not allowed: kazoo's semaphore keeps its permits and its queue elsewhere`
		l.semaphore(2)
		c := l.client("a")
		require.NoError(t, l.srv.Create("/undeclared", nil))
		p := kind.Semaphore.New().(*kind.SemaphoreParams)
		p.Wire = kind.WireKazoo
		brought := c.Semaphore("/undeclared", recipes.WithParams(p))
		_, err := brought.Acquire(t.Context(), 1)
		require.ErrorContains(t, err, "/undeclared")
		require.ErrorContains(t, err, why)

		n, _ := l.srv.Get("/s")
		declared := strings.Replace(string(n.Data), `"wire":"curator"`, `"wire":"kazoo"`, 1)
		require.NotEqual(t, string(n.Data), declared)
		require.NoError(t, l.srv.Set("/s", []byte(declared)))
		_, err = c.Semaphore("/s").Acquire(t.Context(), 1)
		require.ErrorIs(t, err, recipes.ErrNotProvisioned)
		require.ErrorContains(t, err, why)
		require.Empty(t, l.children("/undeclared"))
		require.Empty(t, l.children("/s/leases"))
		require.Empty(t, l.children("/s/locks"))
	})
}
