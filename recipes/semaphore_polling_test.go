package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
)

// pollers call a recipe again and again.
var pollers = map[string]harness.Poller{
	"try": func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
		return c.Semaphore("/s").TryAcquire(ctx, 1)
	},
	"wait briefly": func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*oneWay)
		defer cancel()
		return c.Semaphore("/s").Acquire(ctx, 1)
	},
}

// The front of a semaphore's queue counted permits that pollers had created to see whether they were granted them, and
// waited for ever, though nobody held any (2 of 2 wanted; two clients trying without a pause).
func TestPollersKeptTheFrontOfASemaphoresQueueWaiting(t *testing.T) {
	const limit, calls = 3, 400
	for name, f := range pollers {
		for _, n := range []int{1, 2, 4, 8, 12} {
			for _, pause := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond} {
				runInLab(t, fmt.Sprint(name, " ", n, " ", pause), func(t *testing.T, l *lab) {
					l.Mutex()
					l.Semaphore(limit)
					holder := l.Client("holder").Semaphore("/s")
					_, err := holder.Acquire(t.Context(), 1) // for good
					require.NoError(t, err)
					x := l.Lock(permits(holder, 2))
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var waiting []<-chan result[*recipes.Lease]
					for i := range 2 {
						c := l.Client(fmt.Sprint("w", i))
						waiting = append(waiting, l.Waiting(func(context.Context) (*recipes.Lease, error) { return c.Semaphore("/s").Acquire(ctx, 2) }))
					}
					var clients []*recipes.Client
					for i := range n {
						clients = append(clients, l.Client(fmt.Sprint("p", i)))
					}
					p := harness.Poll(t, clients, f, pause)
					time.Sleep(time.Second)
					l.Unlock(x)
					before := p.Grants.Load()
					require.Zero(t, before, "all was held, and somebody waited")
					for i, w := range waiting {
						for most := p.Calls.Load() + int64(calls*n); len(w) == 0; time.Sleep(oneWay) {
							if p.Calls.Load() > most {
								cancel()
								p.End()
								require.Fail(t, "starved", "waiter %d, %d calls and %d grants later: %v", i, calls*n, p.Grants.Load(), (<-w).Err)
							}
						}
						// See waiter.serve: it may have had to wait for as many permits as there are, and for those twice.
						require.LessOrEqual(t, p.Grants.Load()-before, int64(2*limit*(i+1)), "went before waiter %d", i)
						l.Unlock(l.Got(w))
					}
					p.End()
					l.Settle()
					require.Len(t, l.Children("/s/leases"), 1)
					l.Empty("/s/locks")
				})
			}
		}
	}
}

// As before, with clients that no memory of their own keeps from creating permits: each is a new one, and tries once.
func TestPermitsThatWereBeingWithdrawnKeptTheFrontWaiting(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(2)
		x := l.Lock(draws(2)(l.Client("holder")))
		w := l.drawing(l.Client("w"), 2)
		others := l.session(l.Client("others"))
		create := func() string {
			path, err := others.Create(t.Context(), "/s/leases/lease-", nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			return path
		}
		last := create()
		l.Unlock(x)
		for range 50 { // there is always one, and never the same for long
			next := create()
			require.NoError(t, others.Delete(t.Context(), last, -1))
			last = next
		}
		require.Len(t, w, 1, "starved")
		l.Unlock((<-w).V)
	})
}

// Curator counts every permit there is. Its waiter stands at the front of the queue; while it does, who polls creates
// permits once and from then on only reads.
func TestPollersKeptCuratorsFrontWaiting(t *testing.T) {
	for name, f := range pollers {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.Mutex()
			l.Semaphore(2)
			front := l.Foreign("/s/locks", "_c_2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lock-0000000000", "10.0.0.1")
			var clients []*recipes.Client
			for i := range 4 {
				clients = append(clients, l.Client(fmt.Sprint("p", i)))
			}
			require.NoError(t, l.Srv.SetCreateCount("/s/locks", 1))
			p := harness.Poll(t, clients, f, 0)
			time.Sleep(time.Second)
			n, _ := l.Srv.Get("/s/leases")
			before, calls := n.Stat.Cversion, p.Calls.Load()
			time.Sleep(10 * time.Second)
			n, _ = l.Srv.Get("/s/leases")
			require.Equal(t, before, n.Stat.Cversion, "permits were created, or withdrawn")
			require.Greater(t, p.Calls.Load(), calls+100)
			require.Zero(t, p.Grants.Load())
			require.NoError(t, l.Srv.Delete(front))
			time.Sleep(time.Second)
			require.Positive(t, p.Grants.Load(), "who looks first must see when nobody is in the way any more")
			p.End()
			l.Settle()
			l.Empty("/s/leases")
		})
	}
}

func TestATryNamedItsOwnPermitAsTheHolder(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(2)
		front := l.Foreign("/s/locks", "_c_2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lock-0000000000", "10.0.0.1")
		require.NoError(t, l.Srv.SetCreateCount("/s/locks", 1))
		c := l.Client("a")
		for range 2 { // by its listing, then by its look
			_, err := c.Semaphore("/s").TryAcquire(t.Context(), 1)
			var held *recipes.HeldError
			require.True(t, errors.As(err, &held), err)
			require.Equal(t, front, held.Holder.Path, "all permits are free; who waits for them is in the way")
			require.Equal(t, 1, held.Position)
		}
	})
}
