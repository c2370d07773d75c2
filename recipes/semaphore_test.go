package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// drawing starts an Acquire and waits until it queues.
func (l *lab) drawing(c *recipes.Client, n int) <-chan result[*recipes.Lease] {
	return l.Waiting(permits(c.Semaphore("/s"), n))
}

func TestTwoClientsWantingAllPermitsDoNotBlockEachOther(t *testing.T) { // case 46: Curator V2 deadlocks 10 of 10
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(2)
		a, b := l.Client("a"), l.Client("b")
		for range 5 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			done := make(chan error, 2)
			for _, c := range []*recipes.Client{a, b} {
				go func() {
					done <- c.Semaphore("/s").Do(ctx, 2, func(context.Context, *recipes.Lease) error { time.Sleep(time.Second); return nil })
				}()
			}
			require.NoError(t, <-done)
			require.NoError(t, <-done)
			cancel()
		}
		l.vacant("/s/leases")
	})
}

func TestAWaiterForManyIsNotOvertakenByOneForFew(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(3)
		x := l.Lock(draws(2)(l.Client("0")))
		many := l.drawing(l.Client("many"), 3)
		few := l.drawing(l.Client("few"), 1)
		notYet(t, many, "three of three while two are taken")
		notYet(t, few, "one permit is free, but others came first")
		_, err := l.Client("try").Semaphore("/s").TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, recipes.ErrHeld)
		l.Unlock(x)
		l.Unlock(l.Got(many))
		require.NoError(t, (<-few).Err)
	})
}

func TestGoroutinesOfOneClientKeepOnePlaceInTheQueue(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(1)
		c := l.Client("a")
		x := l.Lock(draws(1)(c))
		var ws []<-chan result[*recipes.Lease]
		for range 20 {
			ws = append(ws, l.drawing(c, 1))
		}
		require.Len(t, l.Children("/s/locks"), 1)
		for _, w := range ws {
			l.Unlock(x)
			x = l.Got(w)
		}
		l.Unlock(x)
	})
}

func TestPermitsThatCannotBeAreRefusedAtOnce(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Semaphore(l.Semaphore(2))
		err := l.Refused(permits(m, 3), recipes.ErrTooManyPermits)
		require.ErrorContains(t, err, "3 permits asked for, 2 are declared")
		_, err = m.Acquire(t.Context(), 0)
		require.ErrorContains(t, err, "at least 1")
		more := recipes.WithParams(&kind.SemaphoreParams{Permits: 5}) // these do not overrule the declared number
		_, err = l.Client("b").Semaphore("/s", more).Acquire(t.Context(), 3)
		require.ErrorContains(t, err, "2 are declared")
		l.Empty("/s/leases")
	})
}

func TestARowOfCuratorsPermitsIsCounted(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(2)
		one := l.Foreign("/s/leases", "_c_2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lease-0000000000", "10.0.0.1")
		l.Foreign("/s/leases", "_c_3f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lease-0000000001", "10.0.0.2")
		l.Foreign("/s/leases", "readme", "junk is not counted")
		require.NoError(t, l.Srv.SetCreateCount("/s/leases", 3))
		w := l.drawing(l.Client("a"), 1)
		notYet(t, w, "a third of two")
		require.NoError(t, l.Srv.Delete(one))
		require.NoError(t, (<-w).Err)
	})
}

func TestALimitLoweredWhileAPermitIsTakenIsObeyed(t *testing.T) { // case 48: the listing is older than the new limit, the write is not
	for name, queued := range map[string]bool{"from the queue": true, "directly": false} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.Semaphore(3)
			x, y, c := l.Lock(draws(1)(l.Client("holder"))), l.Lock(draws(1)(l.Client("holder"))), l.Client("c")
			require.NoError(t, c.Semaphore("/s").Declared(t.Context()))
			leave, w := func() {}, (<-chan result[*recipes.Lease])(nil)
			if queued {
				third := l.Lock(draws(1)(l.Client("holder")))
				leave, w = func() { l.Unlock(third) }, l.drawing(c, 1)
			}
			taking := l.Srv.Inject(zktest.Once(l.By(c, "multi", "create")), zktest.Hold)
			leave()
			if !queued {
				w = l.drawing(c, 1)
			}
			<-taking.Hit()
			l.Semaphore(2)
			taking.Release()
			l.Settle()
			notYet(t, w, "a third permit under a limit of two")
			require.Len(t, l.Children("/s/leases"), 2)
			l.Unlock(x)
			l.Unlock(l.Got(w))
			l.Unlock(y)
			l.vacant("/s/leases", "/s/locks")
		})
	}
}

func TestAPermitTakenFromTheQueueCountsThoseCreatedDirectlyMeanwhile(t *testing.T) {
	// A direct call creates permits. Then the first at the gate sends its transaction, which gives up its place. Then the direct call
	// lists. Each alone sees nothing wrong: only the order of the permits shows it.
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(3)
		x := l.Lock(draws(3)(l.Client("0")))
		front, direct := l.Client("front"), l.Client("direct")
		require.NoError(t, direct.Semaphore("/s").Declared(t.Context()))
		w := l.drawing(front, 3)
		taking := l.Srv.Inject(zktest.Once(l.By(front, "multi")), zktest.Hold)
		l.Unlock(x)
		<-taking.Hit()
		looking := l.Srv.Inject(zktest.Once(l.By(direct, "getChildren2")), zktest.Hold)
		try := async(func() (*recipes.Lease, error) { return direct.Semaphore("/s").TryAcquire(context.Background(), 2) })
		<-looking.Hit()
		l.Settle()
		taking.Release()
		l.Settle()
		looking.Release()
		got := l.Granted(try) // its permits are the oldest, and its listing shows no waiter
		l.Settle()
		notYet(t, w, "five permits of three")
		l.Unlock(got.V)
		l.Unlock(l.Got(w))
		l.Empty("/s/leases")
	})
}

func TestAWaitForTakenPermitsThatEndsWithdrawsThem(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(2)
		x := l.Lock(draws(2)(l.Client("0")))
		front := l.Client("front")
		w := l.Waiting(bounded(time.Minute, permits(front.Semaphore("/s"), 2)))
		taking := l.Srv.Inject(zktest.Once(l.By(front, "multi")), zktest.Hold)
		l.Unlock(x)
		<-taking.Hit()
		other := l.Foreign("/s/leases", "_c_2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lease-0000000002", "")
		require.NoError(t, l.Srv.SetCreateCount("/s/leases", 9))
		taking.Release()
		l.Settle()
		require.Len(t, l.Children("/s/leases"), 3)
		next := l.drawing(front, 1) // must not inherit a permit as a place in the queue
		require.ErrorIs(t, (<-w).Err, context.DeadlineExceeded)
		r := l.Got(next)
		l.Settle()
		require.Len(t, l.Children("/s/leases"), 2)
		l.Unlock(r)
		require.NoError(t, l.Srv.Delete(other))
		l.Empty("/s/leases")
	})
}

func brought(c *recipes.Client, path string, permits int) *recipes.Semaphore {
	return c.Semaphore(path, recipes.WithParams(&kind.SemaphoreParams{Permits: permits}), recipes.WithCreate())
}

// Each grant of an undeclared semaphore read every older permit: 153 requests with 250 permits.
func TestAGrantOfAnUndeclaredSemaphoreReadEveryOlderPermit(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := brought(l.Client("a"), "/own", 250)
		for range 3 {
			l.Lock(permits(brought(l.Client("b"), "/own", 250), 50))
		}
		l.warm(permits(m, 1))
		var x *recipes.Lease
		require.Equal(t, spent(1, "create 2getChildren2 getData"), l.Cost(func() { x = l.Lock(permits(m, 1)) }), "as if it were declared")
		l.Unlock(x)
	})
}

// WithParams makes a promise to programs that bring different numbers: each obeys its own, so the largest number bounds what is held.
func TestProgramsThatBringDifferentNumbersOfPermitsObeyEachItsOwn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		two, five := brought(l.Client("two"), "/s", 2), brought(l.Client("five"), "/s", 5)
		x := l.Lock(permits(two, 2))
		y := l.Lock(permits(five, 3))
		_, err := five.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, recipes.ErrHeld)
		l.Unlock(x)
		l.Settle()
		w := l.Waiting(permits(two, 1))
		time.Sleep(time.Minute)
		notYet(t, w, "three are held, and it knows of two")
		l.Unlock(y)
		l.Unlock(l.Got(w))
	})
}

// A session ended when one of two permits had been registered. It reported the loss to a lease that was never made. The goroutine that
// waited for that lease to begin waited for ever, and so did Close.
func TestSessionLostBetweenThePermitsOfOneGrantHungClose(t *testing.T) {
	ended := 0
	for n := range int64(40) {
		inLab(t, func(t *testing.T, l *lab) {
			p := l.Semaphore(2)
			var looks atomic.Int64
			looks.Store(-1 << 40)
			c := l.Asleep("c", l.Srv.DialContext, func() time.Duration {
				if looks.Add(1) > n {
					return time.Hour
				}
				return 0
			})
			warm := must(c.Semaphore(p).Acquire(t.Context(), 2))(t) // the declaration is known from here on
			l.Unlock(warm)
			l.Settle()
			looks.Store(0)
			x, err := c.Semaphore(p).Acquire(t.Context(), 2)
			if err != nil {
				ended++
			} else {
				_ = x.Unlock(t.Context())
			}
			_ = c.Close() // the servers' answer to it does not matter here
		})
	}
	require.Positive(t, ended, "some session ended")
}

// The limit was lowered below what a waiter wants, and never raised again. If the waiter's permits stood in the order beyond the new limit,
// the waiter was neither granted nor told. Its permits kept all others out.
func TestAWaiterThatWantsMoreThanALoweredLimitIsRefused(t *testing.T) {
	way := draws(3)
	// Each function brings a waiter for 3 of 3 permits to some place. The function end ends what keeps the waiter there.
	places := map[string]func(*lab, taking) (waiting <-chan result[*recipes.Lease], end func()){
		"at the front": func(l *lab, take taking) (<-chan result[*recipes.Lease], func()) {
			x := l.Lock(permits(l.Client("holder").Semaphore("/s"), 1))
			return l.Waiting(take), func() { l.Unlock(x) }
		},
		"behind another waiter": func(l *lab, take taking) (<-chan result[*recipes.Lease], func()) {
			x := l.Lock(permits(l.Client("holder").Semaphore("/s"), 3))
			next := l.drawing(l.Client("next"), 1)
			return l.Waiting(take), func() {
				l.Unlock(x)
				l.Unlock((<-next).V)
			}
		},
		"within the order": func(l *lab, take taking) (<-chan result[*recipes.Lease], func()) {
			x := l.Lock(permits(l.Client("holder").Semaphore("/s"), 1))
			w := l.Waiting(take)
			// Another client creates a permit directly, an instant before the first at the gate takes its own.
			other := "/s/leases/_c_11111111-1111-4111-8111-111111111111-lease-0000000004"
			overtaken := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool {
				return r.Op == "multi" && len(l.Children("/s/locks")) == 1
			}), zktest.Hold)
			l.Unlock(x)
			<-overtaken.Hit()
			require.NoError(l.T, l.Srv.Create(other, nil))
			overtaken.Release()
			l.vacant("/s/locks")
			return w, func() { require.NoError(l.T, l.Srv.Delete(other)) }
		},
	}
	for where, bring := range places {
		runInLab(t, where, func(t *testing.T, l *lab) {
			l.Mutex()
			l.Semaphore(3)
			a := l.Client("a")
			l.warm(way(a))
			w, end := bring(l, way(a))
			l.Settle()
			notYet(t, w, "not all three are free")
			l.Semaphore(2)
			err := within(t, time.Second, func() error { return (<-w).Err })
			require.ErrorIs(t, err, recipes.ErrTooManyPermits)
			require.ErrorContains(t, err, "3 permits asked for, 2 are declared")
			end()
			b := l.drawing(l.Client("b"), 2)
			l.Settle()
			require.Len(t, b, 1, "something is left of the waiter")
			l.Unlock((<-b).V)
		})
	}
}

func TestALimitLoweredWhilePermitsAreCreatedDirectlyWasCalledHeld(t *testing.T) { // no permit is held
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(3)
		a := l.Client("a")
		require.NoError(t, a.Semaphore("/s").Declared(t.Context()))
		late := l.Srv.Inject(zktest.Once(zktest.On("multi")), zktest.Hold)
		try := async(func() (*recipes.Lease, error) { return a.Semaphore("/s").TryAcquire(t.Context(), 3) })
		<-late.Hit()
		l.Semaphore(2)
		late.Release()
		require.ErrorContains(t, (<-try).Err, "3 permits asked for, 2 are declared")
		l.vacant("/s/leases")
	})
}

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

// Pollers create permits only to see whether they are granted. The first at the gate counted such permits, and waited for ever although no
// permit was held. It wanted 2 of 2, and two clients tried without a pause.
func TestPollersKeptTheFrontOfASemaphoresQueueWaiting(t *testing.T) {
	const limit, calls = 3, 400
	for name, f := range pollers {
		for _, n := range []int{1, 2, 4, 8, 12} {
			for _, pause := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond} {
				runInLab(t, fmt.Sprint(name, " ", n, " ", pause), func(t *testing.T, l *lab) {
					l.Mutex()
					l.Semaphore(limit)
					holder := l.Client("holder").Semaphore("/s")
					_, err := holder.Acquire(t.Context(), 1) // it is never given back
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
						// See waiter.serve: each waiter may have to wait for twice as many releases as there are permits.
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

// As in the test before, but each client is a new one and tries once. So no client remembers a refusal that would keep it from creating
// permits.
func TestPermitsThatWereBeingWithdrawnKeptTheFrontWaiting(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(2)
		x := l.Lock(draws(2)(l.Client("holder")))
		w := l.drawing(l.Client("w"), 2)
		others := l.session(l.Client("others"))
		create := func() string {
			path := must(others.Create(t.Context(), "/s/leases/lease-", nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll)))(t)
			return path
		}
		last := create()
		l.Unlock(x)
		for range 50 { // there is always a permit, and never the same one for long
			next := create()
			require.NoError(t, others.Delete(t.Context(), last, -1))
			last = next
		}
		require.Len(t, w, 1, "starved")
		l.Unlock((<-w).V)
	})
}

// Curator counts every permit that exists. While its waiter is the first at the gate, a client that polls creates permits once, and from
// then on only reads.
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
			l.vacant("/s/leases")
		})
	}
}

func TestATryNamedItsOwnPermitAsTheHolder(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(2)
		front := l.Foreign("/s/locks", "_c_2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lock-0000000000", "10.0.0.1")
		require.NoError(t, l.Srv.SetCreateCount("/s/locks", 1))
		c := l.Client("a")
		for range 2 { // refused by the listing after the create, then by Call.look
			_, err := c.Semaphore("/s").TryAcquire(t.Context(), 1)
			var held *recipes.HeldError
			require.True(t, errors.As(err, &held), err)
			require.Equal(t, front, held.Holder.Path, "all permits are free; who waits for them is in the way")
			require.Equal(t, 1, held.Position)
		}
	})
}
