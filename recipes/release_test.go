package recipes_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// The client sends no other request in this session, so no later reply shows that this reply will not come.
func TestAReleaseThatIsNeverAnsweredIsAskedAgain(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		x := l.Lock(c.Mutex(l.Mutex()).Lock)
		l.Settle() // until the client watches the node
		l.Srv.Inject(zktest.Once(zktest.On("delete")), zktest.DropRequest)
		done := async(func() (any, error) { return nil, x.Unlock(context.Background()) })
		time.Sleep(15 * time.Second) // a session timeout and a quarter
		require.Len(t, done, 1, "it is held by nobody, and nobody can have it")
		require.NoError(t, (<-done).Err)
		l.Empty("/m")
	})
}

// The place of the next goroutine had been created. But the caller of Unlock still waited, without a bound, for the listing that this
// goroutine needs.
func TestAReleaseWaitedForTheListingOfTheNextHolder(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		x := l.Lock(m.Lock)
		next := l.Locking(m)
		slow := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return strings.HasPrefix(r.Op, "getChildren") }), zktest.DelayReply(10*time.Second))
		ctx := l.Within(time.Second)
		began := time.Now()
		require.NoError(t, x.Unlock(ctx))
		require.LessOrEqual(t, time.Since(began), time.Second)
		require.Equal(t, 1, slow.Hits())
		l.Unlock(l.Got(next))
	})
}

func TestAReleaseIsTriedUntilItIsDone(t *testing.T) { // case 36: CURATOR-486, CURATOR-678, vault #4491
	const forEver = 1000
	for name, c := range map[string]struct {
		fault   zktest.Fault
		times   int
		timeout time.Duration // of the session; a lost session takes its node along
	}{
		"not applied":              {zktest.CutBefore, 4, 40 * time.Second},
		"applied":                  {zktest.DropReply, 1, 40 * time.Second},
		"for half a session":       {zktest.CutBefore, 6, 12 * time.Second},
		"till the session is over": {zktest.CutBefore, forEver, 12 * time.Second},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			a := l.Client("a", func(cfg *recipes.Config) { cfg.SessionTimeout = c.timeout })
			x := l.Lock(a.Mutex(l.Mutex()).Lock)
			cuts := l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "delete" && r.N <= c.times }, c.fault)
			err := x.Unlock(context.Background())
			if err != nil && c.times == forEver {
				require.ErrorIs(t, err, recipes.ErrReleasePending)
				return
			}
			require.NoError(t, err)
			require.Empty(t, l.Children("/m"), "Unlock said that it is gone")
			if c.times < forEver {
				require.Equal(t, c.times, cuts.Hits())
				require.Equal(t, x.SessionID(), l.SessionID(a))
			}
		})
	}
}

// stream returns handles of one client on n mutexes, and the client knows their declarations.
func (l *lab) stream(c *recipes.Client, n int) []*recipes.Mutex {
	l.T.Helper()
	all := make([]*recipes.Mutex, n)
	for i, path := range l.Mutexes(n) {
		all[i] = c.Mutex(path)
		l.warmDeclaration(all[i])
	}
	return all
}

func TestAStreamOfLocksCostsOneRoundTripEach(t *testing.T) {
	const locks = 50
	for name, c := range map[string]struct {
		give  func(*lab, *recipes.Lease)
		trips int
	}{
		"Release": {func(_ *lab, x *recipes.Lease) { x.Release() }, locks},
		"Unlock":  {func(l *lab, x *recipes.Lease) { l.Unlock(x) }, 2 * locks},
	} {
		runInLab(t, name+" of keys", func(t *testing.T, l *lab) { // no node of a key is left
			l.families()
			orders := l.Client("a").Keyed("/km")
			l.warm(locked(orders, "warm"))
			require.Equal(t, spent(c.trips, fmt.Sprintf("%dgetChildren2 %dmulti", locks, 2*locks)), l.Cost(func() {
				for i := range locks {
					c.give(l, l.Lock(locked(orders, strconv.Itoa(i))))
				}
			}))
			l.noKeys("/km")
		})
		runInLab(t, name, func(t *testing.T, l *lab) {
			all := l.stream(l.Client("a"), locks)
			got := l.Cost(func() {
				for _, m := range all {
					x := l.Lock(m.Lock)
					c.give(l, x)
					require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrReleased)
				}
			})
			require.Equal(t, spent(c.trips, fmt.Sprintf("%dcreate %ddelete %dgetChildren2", locks, locks, locks)), got)
			l.noneLeft(all...)
		})
	}
}

func TestEveryRecipeIsReleasedWithoutWaiting(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c, b := l.tallied()
		for range 3 {
			x := l.Lock(way.Take(c))
			w := l.Waiting(way.Block(l.Client("b")))
			start := time.Now()
			x.Release()
			require.Zero(t, time.Since(start))
			synctest.Wait()
			held, _ := b.gauges(way.Path)
			require.Zero(t, held, "the event is of the local end")
			x.Release() // again
			l.Unlock(x)
			l.Unlock(l.Got(w))
			l.Settle()
			require.Empty(t, c.Leftovers())
		}
		x := l.Lock(way.Take(c))
		l.Srv.Expire(x.SessionID())
		<-ended(x)
		x.Release() // of a lost lease
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
		l.NothingLeft()
		held, _ := b.gauges(way.Path)
		require.Zero(t, held)
		require.Equal(t, 1, b.count(recipes.EventLost))
	})
}

// A server that answers no delete must not keep a stream of locks waiting for ever. Nor may a client send it any number of deletes.
func TestAReleaseWaitsWhileAsManyAreUnderWay(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		const most = 256
		c := l.Client("a")
		all := l.stream(c, most+3)
		var leases []*recipes.Lease
		for _, m := range all {
			leases = append(leases, l.Lock(m.Lock))
		}
		s := l.live(c)
		booked := c.PathBytes(s).Load()
		slow := l.Srv.Inject(at("delete"), zktest.HoldReply)
		start := time.Now()
		for _, x := range leases[:most] {
			x.Release()
		}
		require.Zero(t, time.Since(start))
		require.Equal(t, booked, c.PathBytes(s).Load(), "they may still be there")
		leases[most].Release()
		require.Equal(t, s.Timeout()/6, time.Since(start), "no longer than that")
		next := async(func() (any, error) { leases[most+1].Release(); return nil, nil })
		time.Sleep(s.Timeout() / 12)
		notYet(t, next, "as many are under way")
		slow.Release()
		slow.Remove()
		require.Less(t, (<-next).At.Sub(start), s.Timeout()/3)
		leases[most+2].Release()
		l.noneLeft(all...)
		require.Zero(t, c.PathBytes(s).Load())
	})
}

// Without a connection Release does not wait. The client still deletes the nodes later.
func TestAReleaseWithoutAConnectionGoesOnInTheBackground(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c := l.Client("a", func(cfg *recipes.Config) { cfg.SessionTimeout = 40 * time.Second })
		x := l.Lock(way.Take(c))
		l.Settle()
		l.CutOff(x.SessionID())
		time.Sleep(time.Second)
		start := time.Now()
		x.Release()
		require.Zero(t, time.Since(start))
		time.Sleep(time.Second)
		l.Srv.RefuseDials(false)
		time.Sleep(10 * time.Second)
		l.NothingLeft()
		require.Empty(t, c.Leftovers())
		require.Equal(t, x.SessionID(), l.SessionID(c))
	})
}

// A release was sent and not answered. Its nodes go with the session, or the next session deletes them. No goroutine of the client waits
// for ever.
func TestASessionThatEndsWhileAReleaseIsUnderWay(t *testing.T) {
	for name, end := range map[string]func(*lab, *recipes.Client, int64){
		"expired":          func(l *lab, _ *recipes.Client, id int64) { l.Srv.Expire(id) },
		"another one":      func(l *lab, _ *recipes.Client, id int64) { l.Srv.SwapSessionID(id); l.Srv.Disconnect(id) },
		"its client close": func(_ *lab, c *recipes.Client, _ int64) { _ = c.Close() },
		"an outage":        func(l *lab, _ *recipes.Client, _ int64) { l.outage(30*time.Second, true) },
	} {
		for phase, wait := range map[string]time.Duration{"sent": 0, "received": oneWay, "answered": oneWay + oneWay/2} {
			runInLab(t, name+", "+phase, func(t *testing.T, l *lab) {
				c := l.Client("a")
				all := l.stream(c, 2)
				x := l.Lock(all[0].Lock)
				w := l.Locking(all[0])
				y := l.Lock(all[1].Lock)
				x.Release() // to a goroutine that waits
				y.Release()
				time.Sleep(wait)
				end(l, c, x.SessionID())
				if r := <-w; r.Err == nil {
					_ = r.V.Unlock(t.Context())
				}
				time.Sleep(time.Minute)
				for _, m := range all {
					l.nextIsServed(m.Path())
				}
			})
		}
	}
}

// A client that holds no lock any more may be closed at once: Close ends what is left.
func TestAClientIsClosedBehindItsReleases(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		all := l.stream(c, 20)
		for _, m := range all {
			l.Lock(m.Lock).Release()
		}
		require.NoError(t, c.Close())
		for _, m := range all {
			require.Empty(t, l.Children(m.Path()))
		}
	})
}

func TestAWriterThatFollowsItsClientsReaderIsServedBehindItsDelete(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Declare("/rw", kind.RWLock.New())
		m := l.Client("a").RWMutex("/rw")
		for range 3 {
			x := l.Lock(m.RLock)
			l.Settle()
			start := time.Now()
			x.Release()
			y := l.Lock(m.TryLock)
			require.Equal(t, 2*oneWay, time.Since(start))
			y.Release()
			z := l.Lock(m.TryRLock)
			require.Equal(t, 4*oneWay, time.Since(start))
			z.Release()
			l.Settle()
		}
		l.Empty("/rw")
	})
}

// The delete arrives one way after Release. The client's next create follows it on the connection, so the waiter is served first.
func TestWhoWaitsIsGrantedBeforeTheNextLockOfTheOneWhoReleases(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		a := l.Client("a").Mutex(l.Mutex())
		x := l.Lock(a.Lock)
		w := l.Locking(l.Client("b").Mutex("/m"))
		start := time.Now()
		x.Release()
		require.Zero(t, time.Since(start))
		again := async(func() (*recipes.Lease, error) { return a.Lock(context.Background()) })
		r := l.Granted(w)
		require.Equal(t, 2*oneWay, r.At.Sub(start), "the delete, and its event")
		notYet(t, again, "b holds")
		l.Unlock(r.V)
		l.Unlock((<-again).V)
		l.noneLeft(a)
	})
}

// Without the wait for its own delete, the create may go out on the next connection. Then the call waits, or a Try is refused, because of
// its own client's node.
func TestTheNextLockOfTheSameLockWaitsForItsOwnDelete(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{"not cut": {}, "lost with its connection": zktest.CutBefore, "reply lost": zktest.DropReply, "shed": zktest.Fail(zktest.CodeThrottled)} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			m := l.Client("a").Mutex(l.Mutex())
			for range 3 {
				x := l.Lock(m.Lock)
				if name != "not cut" {
					defer l.Srv.Inject(zktest.Once(at("delete")), fault).Remove()
				}
				x.Release()
				y := l.Lock(m.TryLock) // its own old node is in the way
				require.Greater(t, y.Token(), x.Token())
				l.Unlock(y)
			}
			l.noneLeft(m)
		})
	}
}

// As with Unlock, the transaction that deletes the node of the lease also creates a place for a waiting goroutine of the client.
func TestAReleaseMakesThePlaceOfTheNextGoroutine(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{"not sent": zktest.CutBefore, "reply lost": zktest.DropReply, "refused": zktest.Fail(zktest.CodeThrottled)} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			m := l.Client("a").Mutex(l.Mutex())
			x := l.Lock(m.Lock)
			w := l.Locking(m)
			rule := l.Srv.Inject(func(r zktest.Request) bool { return at("multi")(r) && r.N == 1 }, fault)
			start := time.Now()
			x.Release()
			require.Zero(t, time.Since(start))
			r := l.Got(w)
			require.Equal(t, 1, rule.Hits())
			require.Greater(t, r.Token(), x.Token())
			r.Release()
			l.noneLeft(m)
		})
	}
}

func TestAReleaseThatIsRefusedIsTriedUntilItIsAllowed(t *testing.T) { // case 40, the other way round
	for name, code := range map[string]zktest.Code{"Release": zktest.CodeNoAuth, "Unlock": zktest.CodeThrottled} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			c := l.Client("a")
			m := c.Mutex(l.Mutex())
			x := l.Lock(m.Lock)
			refused := l.Srv.Inject(at("delete"), zktest.Fail(code))
			if name == "Release" {
				x.Release()
			} else {
				require.ErrorIs(t, x.Unlock(l.Within(time.Minute)), recipes.ErrReleasePending)
			}
			w := l.Locking(m) // waits for the delete of its own client
			time.Sleep(10 * time.Second)
			notYet(t, w, "the node is there")
			refused.Remove()
			l.Unlock(l.Got(w))
			l.noneLeft(m)
			require.Equal(t, x.SessionID(), l.SessionID(c))
		})
	}
}

func TestAReleaseLeavesAsAnUnlockDoes(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("a")
		var none *recipes.Lease
		none.Release()

		entered := c.Mutex("/m", recipes.WithReentrancy())
		x := l.Lock(entered.Lock)
		inner := must(entered.Lock(x.Context()))(t)
		x.Release()
		require.Error(t, x.Context().Err())
		require.NoError(t, inner.Verify(t.Context()), "the inner one is still held")
		inner.Release()
		l.noneLeft(entered)

		rw := c.RWMutex("/rw")
		writer := l.Lock(rw.Lock)
		_, err := rw.Downgrade(t.Context(), writer)
		require.NoError(t, err)
		writer.Release() // gives the read lease back
		l.vacant("/rw")

		require.NoError(t, c.Mutex("/m").Do(t.Context(), func(ctx context.Context, x *recipes.Lease) error {
			x.Release()
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), recipes.ErrReleased)
			return nil
		}))
		l.NothingLeft()
	})
}
