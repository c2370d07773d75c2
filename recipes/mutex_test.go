package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// In a short queue each waiter has looked ahead before it is next. So the event alone tells it that its turn has come, and it sends no
// request. It is enough if the holder stays as long as a listing takes. In a long queue the holder's mark replaces the look ahead.
func TestAHandOffTakesNoRoundTripAndConstantBytes(t *testing.T) {
	for name, c := range map[string]struct {
		crowd int
		held  time.Duration
	}{"short queue": {0, 2 * oneWay}, "long queue": {1, 20 * oneWay}, "after a long wait": {0, time.Minute + time.Second}} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			m := l.Mutex()
			holder := l.Lock(l.Client("holder").Mutex(m).Lock)
			var waiting []<-chan result[*recipes.Lease]
			for range 10 {
				a := l.Client("w")
				a.Crowd(c.crowd)
				waiting = append(waiting, l.Locking(a.Mutex(m)))
			}
			for i, w := range waiting {
				time.Sleep(c.held)
				l.Srv.ResetCounts()
				l.Unlock(holder)
				released := time.Now() // the server committed the delete oneWay ago
				r := l.Granted(w)
				require.Zero(t, r.At.Sub(released), "waiter %d: the event arrives as the holder's reply does", i)
				require.Greater(t, r.V.Token(), holder.Token())
				if c.held > time.Minute {
					require.Zero(t, l.Srv.SessionCounts(r.V.SessionID()).Total, "waiter %d: its heartbeats have gone on", i)
				}
				if holder = r.V; c.crowd > 0 {
					l.Settle()
					n := l.Srv.Counts()
					require.Zero(t, n.ByOp["getChildren2"], "waiter %d listed", i)
					require.Equal(t, 1, n.ByOp["setData"], "the mark, behind the grant")
					require.LessOrEqual(t, n.BytesOut, int64(1500), "bytes of one hand-off")
				}
			}
			l.Unlock(holder)
		})
	}
}

func TestGoroutinesOfAClientHandALockOverInOneTransactionWithOneContender(t *testing.T) { // case 21: g goroutines, one znode
	for name, give := range map[string]func(*lab, *recipes.Lease){
		"Unlock": func(l *lab, x *recipes.Lease) { l.Unlock(x) },
		"Unlock, by a caller that has had enough": func(l *lab, x *recipes.Lease) { // for example, its request was cancelled
			ended, cancel := context.WithCancel(l.T.Context())
			cancel()
			require.ErrorIs(l.T, x.Unlock(ended), recipes.ErrReleasePending)
		},
		"Release": func(_ *lab, x *recipes.Lease) { x.Release() },
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			m := l.Client("a").Mutex(l.Mutex())
			x := l.Lock(m.Lock)
			var waiting []<-chan result[*recipes.Lease]
			for range 50 {
				waiting = append(waiting, l.Locking(m))
			}
			require.Len(t, l.Children("/m"), 1)
			for _, w := range waiting {
				l.Settle()
				l.Srv.ResetCounts()
				start, last := time.Now(), x.Token()
				give(l, x)
				require.True(t, name == "Unlock" || time.Since(start) == 0, "it does not wait")
				r := l.Granted(w)
				require.Equal(t, 2*oneWay, r.At.Sub(start))
				require.Greater(t, r.V.Token(), last, "a grant without a fresh token")
				require.Equal(t, "getChildren2 multi", harness.Operations(l.Srv.Counts().ByOp))
				require.Len(t, l.Children("/m"), 1)
				x = r.V
			}
			l.Unlock(x)
			l.Empty("/m")
		})
	}
}

func TestOtherProcessesComeBetweenGoroutinesOfAClient(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		a := l.Client("a").Mutex(m)
		x := l.Lock(a.Lock)
		second := l.Locking(a)
		other := l.Locking(l.Client("b").Mutex(m))
		l.Unlock(x)
		r := l.Granted(other)
		notYet(t, second, "the goroutine of the same client went first")
		l.Unlock(r.V)
		r = l.Granted(second)
		l.Unlock(r.V)
	})
}

func TestDoGivesBackAfterItsFunctionAndJoinsTheLoss(t *testing.T) { // case 57: never release before fn returned
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		ctx, cancel := context.WithCancel(t.Context())
		err := m.Do(ctx, func(ctx context.Context, x *recipes.Lease) error {
			cancel()
			<-ctx.Done()
			time.Sleep(time.Second)
			require.Len(t, l.Children("/m"), 1, "given back while fn runs")
			require.NoError(t, x.Context().Err())
			return errors.New("from fn")
		})
		require.ErrorContains(t, err, "from fn")
		require.Empty(t, l.Children("/m"), "a cancelled context kept the lock")

		err = m.Do(t.Context(), func(ctx context.Context, x *recipes.Lease) error {
			require.NoError(t, l.Srv.Delete(x.Node()))
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), recipes.ErrLost)
			return nil
		})
		require.ErrorIs(t, err, recipes.ErrLost)

		var r *recipes.Lease
		rw := m.Client().RWMutex(l.RWLock())
		require.NoError(t, rw.Do(t.Context(), func(ctx context.Context, x *recipes.Lease) (err error) {
			r, err = rw.Downgrade(ctx, x)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), recipes.ErrReleased)
			return err
		}))
		require.ErrorIs(t, context.Cause(r.Context()), recipes.ErrReleased, "it stayed held")
		l.Settle()
		l.Empty("/rw")

		require.PanicsWithValue(t, "boom", func() { _ = m.Do(t.Context(), func(context.Context, *recipes.Lease) error { panic("boom") }) })
		synctest.Wait()
		l.Empty("/m")
	})
}

// A caller may give up at the moment when a place is created for it. It still gets the error of its context, and does not keep the place.
func TestAPlaceIsNotKeptByACallerThatHasLeft(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		for range 50 {
			x := l.Lock(m.Lock)
			ctx, leave := context.WithCancel(t.Context())
			left := async(func() (*recipes.Lease, error) { return m.Lock(ctx) })
			synctest.Wait()
			next := async(func() (*recipes.Lease, error) { return m.Lock(t.Context()) })
			synctest.Wait()
			leave()
			l.Unlock(x)
			require.ErrorIs(t, (<-left).Err, context.Canceled)
			l.Unlock((<-next).V)
		}
		l.noneLeft(m)
	})
}

// The next tests are about a lock that one client takes again and again, with few rivals or none.

// A client that may no longer read the queue gets no events of it. So it does not learn that the queue was deleted and created again, with
// a rival in it. A grant rests on a listing, and the servers refuse the listing.
func TestAQueueThatWasMadeAgainUnheardGrantsNothing(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		l.warm(m.Lock)
		admin := l.session(l.Client("admin"))
		blind := []zk.ACL{{Scheme: "world", ID: "anyone", Perms: zk.PermCreate | zk.PermDelete | zk.PermAdmin}}
		_, err := admin.SetACL(t.Context(), "/m", blind, -1)
		require.NoError(t, err)
		require.NoError(t, l.Srv.Delete("/m"))
		l.Mutex()
		rival := l.Foreign("/m", "_c_6e1f1f43-5d9a-4b46-9c3e-0a4f1d2b3c4d-lock-0000000000", "rival")
		_, err = admin.SetACL(t.Context(), "/m", blind, -1)
		require.NoError(t, err)
		l.Refused(m.Lock, zk.ErrNoAuth)
		l.Settle()
		require.Equal(t, []string{rival}, l.Queue("/m"), "and nothing of it stays")
	})
}

// A request, or its reply, is lost with the connection. While there is no connection, a rival may come, or the queue may be deleted and
// created again. Two callers never believe at the same time that they hold the lock.
func TestTwoNeverHoldALockWhenARequestOrReplyIsLost(t *testing.T) {
	type upheaval func(l *lab, b *recipes.Mutex) <-chan result[*recipes.Lease]
	queued := func(l *lab, b *recipes.Mutex) <-chan result[*recipes.Lease] { return l.Locking(b) }
	upheavals := map[string]upheaval{
		"nothing":       func(*lab, *recipes.Mutex) <-chan result[*recipes.Lease] { return nil },
		"a rival comes": queued,
		"the queue is made again": func(l *lab, b *recipes.Mutex) <-chan result[*recipes.Lease] {
			require.NoError(l.T, l.Srv.Delete("/m"))
			l.Mutex()
			return queued(l, b)
		},
	}
	for _, op := range []string{"create", "delete", "multi"} {
		for name, f := range map[string]zktest.Fault{
			"reply lost": zktest.DropReply, "cut before": zktest.CutBefore, "cut after": zktest.CutAfter, "reply cut": zktest.CutAt(3),
		} {
			for what, happens := range upheavals {
				runInLab(t, op+"/"+name+"/"+what, func(t *testing.T, l *lab) {
					c := l.Client("a")
					a, b := c.Mutex(l.Mutex()), l.Client("b").Mutex("/m")
					l.warm(a.Lock)
					id := l.SessionID(c)
					var ours []<-chan result[*recipes.Lease]
					x := l.Lock(a.Lock)
					if op == "multi" {
						ours = append(ours, l.Locking(a))
					}
					rule := l.Srv.Inject(zktest.Once(l.By(c, op)), f)
					released := make(chan struct{})
					go func() {
						_ = x.Unlock(context.Background()) // the node may have gone with its queue
						close(released)
					}()
					if op == "create" {
						<-released
						ours = append(ours, async(func() (*recipes.Lease, error) { return a.Lock(context.Background()) }))
					}
					<-rule.Hit()
					l.CutOff(id)
					l.Srv.RefuseDials(false)
					rival := happens(l, b)
					<-released
					ours = append(ours, async(func() (*recipes.Lease, error) { return a.Lock(context.Background()) }))
					l.alternate(append(ours, rival))
					l.Empty("/m")
					require.Empty(t, c.Leftovers())
				})
			}
		}
	}
}

// alternate requires that each call is granted, or learns by a Retryable error that it lost its place. Two grants may not overlap.
func (l *lab) alternate(all []<-chan result[*recipes.Lease]) {
	l.T.Helper()
	over := make(chan struct{})
	var left int
	var held *recipes.Lease
	for _, ch := range all {
		if ch == nil {
			continue
		}
		left++
		go func() {
			defer func() { over <- struct{}{} }()
			r := <-ch
			if r.Err != nil {
				if !recipes.Retryable(r.Err) {
					l.T.Error(r.Err)
				}
				return
			}
			if held != nil && held.Context().Err() == nil {
				l.T.Error("two believe to hold")
			}
			held = r.V
			time.Sleep(3 * time.Second)
			if held == r.V {
				held = nil
			}
			_ = r.V.Unlock(context.Background())
		}()
	}
	for range left {
		within(l.T, 2*time.Minute, func() struct{} { return <-over })
	}
	l.Settle()
}

// A cycle is a lock and its unlock. Eight clients, a millisecond away from the servers, want the same lock all the time. The budgets are
// what a cycle costs the servers. A wait of more than a moment costs two more reads and an event: see waiter.Next.
func TestRequestBudgetsOfAContendedCycle(t *testing.T) {
	for name, b := range map[string]struct{ requests, events float64 }{
		"mutex":     {5, 3}, // the third event goes to the waiter that looks ahead
		"writer":    {6, 2},
		"reader":    {6, 2}, // half of the clients read, the others write
		"election":  {6, 2},
		"semaphore": {11, 2.5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lab{harness.NewLab(t, zktest.WithLatency(time.Millisecond))}
				l.EveryKind()
				const clients, cycles = 8, 50
				var wg sync.WaitGroup
				for i := range clients {
					take := harness.Ways()[name].Take(l.Client(fmt.Sprint(i)))
					if name == "reader" && i%2 == 0 {
						take = harness.Ways()["writer"].Take(l.Client(fmt.Sprint(i)))
					}
					warm := must(take(t.Context()))(t) // reads the declaration
					l.Unlock(warm)
					wg.Go(func() {
						time.Sleep(time.Second)
						for range cycles {
							x, err := take(t.Context())
							if err == nil {
								err = x.Unlock(t.Context())
							}
							if err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				time.Sleep(500 * time.Millisecond)
				l.Srv.ResetCounts()
				wg.Wait()
				n := l.Srv.Counts()
				requests, events := float64(n.Total)/(clients*cycles), float64(n.WatchEvents)/(clients*cycles)
				t.Logf("%.2f requests (%s) and %.2f events a cycle", requests, harness.Operations(n.ByOp), events)
				require.LessOrEqual(t, requests, b.requests)
				require.LessOrEqual(t, events, b.events)
			})
		})
	}
}

// A report on a lock says since when its holder holds, and not since when it waited. The holder writes the mark that says so after the
// grant. The mark never overwrites a revocation.
func TestAHolderThatWaitedSaysSoonSinceWhenItHolds(t *testing.T) {
	for name, asked := range map[string]bool{"left alone": false, "asked back at once": true} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
			w := l.Locking(l.Client("b").Mutex("/m"))
			time.Sleep(time.Minute)
			l.Unlock(x)
			r := l.Granted(w)
			if asked {
				require.NoError(t, l.Srv.Set(r.V.Node(), []byte(kind.RevokeMessage)))
			}
			l.Settle()
			in := l.look(l.Client("who"), "/m")
			require.Len(t, in.Holders, 1)
			require.Equal(t, asked, in.Holders[0].Revoked)
			if asked {
				require.ErrorIs(t, context.Cause(r.V.Context()), recipes.ErrRevoked)
			} else {
				require.Equal(t, r.At.UTC(), in.Holders[0].Held.UTC())
			}
			l.Unlock(r.V)
		})
	}
}

// A permit is created beyond the limit, waits, and is granted when the limit is raised. A report showed it as a waiter even then.
func TestAPermitThatWaitedSaysThatItIsHeld(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(1)
		x := l.Lock(draws(1)(l.Client("a")))
		w := l.drawing(l.Client("b"), 1)
		take := l.Srv.Inject(zktest.Once(zktest.On("multi")), zktest.Hold)
		l.Unlock(x)
		<-take.Hit()
		other := l.Foreign("/s/leases", "_c_x-lease-0000000001", "") // created before the waiter's own permit, without a place at the gate
		take.Release()
		notYet(t, w, "there is one permit")
		l.Settle()
		l.Semaphore(2)
		r := l.Got(w)
		l.Semaphore(1) // the holders keep their permits
		in := l.look(l.Client("who"), "/s")
		require.Len(t, in.Holders, 2)
		require.Empty(t, in.Waiters)
		l.Unlock(r)
		require.NoError(t, l.Srv.Delete(other))
	})
}

func TestTenThousandWaitersOneReleaseOneWakeUp(t *testing.T) { // failure matrix, row 43
	inLab(t, func(t *testing.T, l *lab) {
		l.Mutex()
		x := l.Lock(l.Client("holder").Mutex("/m").Lock)
		ctx, cancel := context.WithCancel(t.Context())
		sessions, each := 100, effort.Of(100, 10)
		var ids []int64
		granted, done := make(chan int, 1), make(chan error, sessions*each)
		for i := range sessions {
			c := l.Client(fmt.Sprint(i))
			ids = append(ids, l.SessionID(c))
			for range each {
				go func() {
					done <- c.Mutex("/m").Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
						granted <- i
						<-ctx.Done()
						return ctx.Err()
					})
				}()
			}
			l.Settle() // so that the next session queues later
		}
		require.Len(t, l.Children("/m"), 1+sessions, "one place a session, however many wait there")
		l.Srv.ResetCounts()
		l.Unlock(x)
		require.Equal(t, 0, <-granted)
		l.Settle()
		events, bytes := 0, int64(0)
		for _, id := range ids {
			counts := l.Srv.SessionCounts(id)
			events += counts.WatchEvents
			bytes += counts.BytesIn + counts.BytesOut
		}
		require.LessOrEqual(t, events, 4, "the next one, and the one behind it, which looks ahead; its own mark; and who waits for it learns that it holds")
		require.LessOrEqual(t, bytes, int64(3<<10+64*sessions),
			"with a heartbeat of each, what a few others send once a session timeout, and one listing: who looks ahead came when the queue was short")
		cancel()
		for range sessions * each {
			require.ErrorIs(t, <-done, context.Canceled)
		}
	})
}

func TestACrashOfManyWaitersKeepsTheOrderOfTheOthers(t *testing.T) { // failure matrix, row 44
	inLab(t, func(t *testing.T, l *lab) {
		l.Mutex()
		x := l.Lock(l.Client("holder").Mutex("/m").Lock)
		const sessions = 120
		var dead []int64
		var alive []int
		grants := make(chan int, sessions)
		done := make(chan error, sessions)
		for i := range sessions {
			c := l.Client(fmt.Sprint(i))
			if i%3 == 1 {
				dead = append(dead, l.SessionID(c))
			} else {
				alive = append(alive, i)
			}
			go func() {
				l, err := c.Mutex("/m").Lock(context.Background())
				if err == nil {
					grants <- i
					err = l.Unlock(context.Background())
				}
				done <- err
			}()
			l.Settle()
		}
		for _, id := range dead {
			l.Srv.Expire(id)
		}
		l.Settle()
		start := time.Now()
		l.Unlock(x)
		failed := 0
		for range sessions {
			if err := <-done; err != nil {
				require.ErrorIs(t, err, recipes.ErrSessionLost)
				failed++
			}
		}
		require.Equal(t, len(dead), failed)
		close(grants)
		var order []int
		for i := range grants {
			order = append(order, i)
		}
		require.Equal(t, alive, order, "each once, in the order of arrival")
		require.Less(t, time.Since(start), time.Duration(len(alive))*5*2*oneWay, "somebody waited for a session that was gone")
		l.vacant("/m")
	})
}
