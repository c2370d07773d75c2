package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestATryOfAFreeLockIsNotRefusedBecauseItsListingWasLost(t *testing.T) {
	for name, try := range map[string]func(*recipes.Client) (*recipes.Lease, error){
		"mutex": func(c *recipes.Client) (*recipes.Lease, error) { return c.Mutex("/m").TryLock(context.Background()) },
		"reader": func(c *recipes.Client) (*recipes.Lease, error) {
			return c.RWMutex("/rw").TryRLock(context.Background())
		},
		"permits": func(c *recipes.Client) (*recipes.Lease, error) {
			return c.Semaphore("/s").TryAcquire(context.Background(), 1)
		},
		"multi-lock": func(c *recipes.Client) (*recipes.Lease, error) { return mixed(c).TryLock(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.everyKind()
				c := l.client("a")
				warm, err := try(c)
				require.NoError(t, err)
				l.unlock(warm)
				l.settle()
				l.srv.Inject(zktest.Once(zktest.On("getChildren2")), zktest.CutBefore)
				x, err := try(c)
				require.NoError(t, err, "nobody holds it, nobody waits")
				l.unlock(x)
			})
		})
	}
}

func TestAnObservationOutlivesAnyNumberOfLostConnections(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.election()
		c := l.client("a")
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan recipes.Contender, 9)
		ended := async(func() (err error, _ error) {
			for leader, e := range c.Election("/e").Observe(ctx) {
				if e == nil {
					seen <- leader
				}
				err = e
			}
			return err, nil
		})
		require.Empty(t, (<-seen).Path, "nobody leads")
		lost, id := 0, l.session(c)
		l.srv.Inject(func(r zktest.Request) bool { // eight reads in a row
			if r.Session != id || r.Op != "getData" && r.Op != "getChildren2" && r.Op != "getChildren" || lost == 8 {
				return false
			}
			lost++
			return true
		}, zktest.CutBefore)
		lead, err := l.client("b").Election("/e").Campaign(t.Context())
		require.NoError(t, err)
		select {
		case leader := <-seen:
			require.Equal(t, lead.Node(), leader.Path)
		case r := <-ended:
			require.Fail(t, "the observation ended though the session lives", "%v", r.v)
		case <-time.After(time.Minute):
			require.Fail(t, "not observed")
		}
		l.unlock(lead)
		cancel()
		<-ended
	})
}

func TestARefusedTryIsNotInTheWayOfTheNextCallOfItsClient(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.rwlock()
		l.semaphore(3)
		x, err := l.client("holder").RWMutex("/rw").RLock(t.Context())
		require.NoError(t, err)
		two, err := l.client("holder").Semaphore("/s").Acquire(t.Context(), 2)
		require.NoError(t, err)
		c := l.client("b")
		for range 300 {
			_, err = c.RWMutex("/rw").TryLock(t.Context())
			require.ErrorIs(t, err, recipes.ErrHeld)
			r, err := c.RWMutex("/rw").TryRLock(t.Context())
			require.NoError(t, err, "others only read; our own refused writer is in the way")
			l.unlock(r)
			_, err = c.Semaphore("/s").TryAcquire(t.Context(), 2)
			require.ErrorIs(t, err, recipes.ErrHeld)
			p, err := c.Semaphore("/s").TryAcquire(t.Context(), 1)
			require.NoError(t, err, "one of three is free; our own refused permits are in the way")
			l.unlock(p)
		}
		l.unlock(x)
		l.unlock(two)
	})
}

func TestAProofThatIsLostIsMadeAgain(t *testing.T) { // simulation, seed 25699
	for delay := 4 * time.Second; delay < 8*time.Second; delay += 250 * time.Millisecond {
		inLab(t, func(t *testing.T, l *lab) {
			c := l.client("a")
			m := c.Mutex(l.mutex())
			l.warm(m)
			l.settle()
			l.srv.Inject(zktest.Once(zktest.On("create")), zktest.DelayReply(delay)) // beyond T/2 the grant needs another proof
			proof := l.srv.Inject(zktest.Once(zktest.On("multi")), zktest.DropReply)
			x, err := m.Lock(t.Context())
			require.NoError(t, err, "the session and the context live; the proof was lost %d times, after %v", proof.Hits(), delay)
			require.NoError(t, x.Context().Err())
			l.unlock(x)
		})
	}
}

func TestATryIsNotRefusedBecauseOfAWaiterThatHasGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		holder, waiter, try func(context.Context, *recipes.Client) (*recipes.Lease, error)
	}{
		"mutex": {
			func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) { return c.Mutex("/m").Lock(ctx) },
			func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) { return c.Mutex("/m").Lock(ctx) },
			func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
				return c.Mutex("/m").TryLock(ctx)
			},
		},
		"reader": {
			func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
				return c.RWMutex("/rw").Lock(ctx)
			},
			func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
				return c.RWMutex("/rw").RLock(ctx)
			},
			func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
				return c.RWMutex("/rw").TryRLock(ctx)
			},
		},
		"writer": {
			func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
				return c.RWMutex("/rw").RLock(ctx)
			},
			func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
				return c.RWMutex("/rw").Lock(ctx)
			},
			func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
				return c.RWMutex("/rw").TryLock(ctx)
			},
		},
		"permits": {
			func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
				return c.Semaphore("/s").Acquire(ctx, 2)
			},
			func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
				return c.Semaphore("/s").Acquire(ctx, 2)
			},
			func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
				return c.Semaphore("/s").TryAcquire(ctx, 1)
			},
		},
		"multi-lock": {
			func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) { return mixed(c).Lock(ctx) },
			func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) { return mixed(c).Lock(ctx) },
			func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) { return mixed(c).TryLock(ctx) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.everyKind()
				a, b := l.client("a"), l.client("b")
				x, err := c.holder(t.Context(), b)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				waiting := async(func() (*recipes.Lease, error) { return c.waiter(ctx, a) })
				l.settle()
				notYet(t, waiting, "it is held")
				id := l.session(a)
				leaving := l.srv.Inject(zktest.Once(func(r zktest.Request) bool {
					return r.Session == id && (r.Op == "delete" || r.Op == "multi")
				}), zktest.Hold)
				cancel()
				require.ErrorIs(t, (<-waiting).err, recipes.ErrHeld)
				l.unlock(x)
				l.settle()
				tried := async(func() (*recipes.Lease, error) { return c.try(t.Context(), a) })
				l.settle()
				leaving.Release()
				r := <-tried
				require.NoError(t, r.err, "nobody holds it, and nobody waits but for the end of its own cleaning")
				l.unlock(r.v)
				l.settle()
			})
		})
	}
}

// What it waited for was the cleaning of one; behind that came another, who waits for permits.
func TestATryForPermitsEndsWhenTheTurnGoesToAWaiter(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.semaphore(1)
		a, b := l.client("a"), l.client("b")
		x, err := b.Semaphore("/s").Acquire(t.Context(), 1)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		first := async(func() (*recipes.Lease, error) { return a.Semaphore("/s").Acquire(ctx, 1) })
		l.settle()
		id := l.session(a)
		leaving := l.srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Session == id && r.Op == "delete" }), zktest.Hold)
		cancel()
		require.ErrorIs(t, (<-first).err, recipes.ErrHeld)
		tried := async(func() (*recipes.Lease, error) { return a.Semaphore("/s").TryAcquire(t.Context(), 1) })
		l.settle()
		notYet(t, tried, "one is cleaning up")
		second := l.drawing(a, 1)
		leaving.Release()
		select {
		case r := <-tried:
			require.ErrorIs(t, r.err, recipes.ErrHeld)
		case <-time.After(time.Hour):
			require.Fail(t, "never")
		}
		l.unlock(x)
		l.unlock((<-second).v)
	})
}

// The turn of one who cleans up went to one who waits for another client: a try is refused again, and does not wait too.
func TestATryIsRefusedOnceTheTurnHasGoneToAWaiter(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		a, b := l.client("a"), l.client("b")
		m := l.mutex()
		x, err := b.Mutex(m).Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		first := async(func() (*recipes.Lease, error) { return a.Mutex(m).Lock(ctx) })
		l.settle()
		id := l.session(a)
		leaving := l.srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Session == id && r.Op == "delete" }), zktest.Hold)
		cancel()
		require.ErrorIs(t, (<-first).err, recipes.ErrHeld)
		second := l.locking(a.Mutex(m))
		leaving.Release()
		l.settle()
		notYet(t, second, "it is held")
		tried := async(func() (*recipes.Lease, error) { return a.Mutex(m).TryLock(t.Context()) })
		l.settle()
		require.Len(t, tried, 1)
		require.ErrorIs(t, (<-tried).err, recipes.ErrHeld)
		l.unlock(x)
		l.unlock((<-second).v)
	})
}
