package recipes_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// What a cycle of lock and unlock costs the servers where eight clients want the same all the time, a millisecond away. A wait
// of more than a moment costs two reads more, and an event: see waiter.brief.
func TestRequestBudgetsOfAContendedCycle(t *testing.T) {
	for name, b := range map[string]struct{ requests, events float64 }{
		"mutex":     {5, 3}, // the third event is of who looks ahead
		"writer":    {6, 2},
		"reader":    {6, 2}, // half of them; the others write
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
					warm, err := take(t.Context()) // reads the declaration
					require.NoError(t, err)
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

// A waiter that was next for long has nothing to ask and nothing to write: its heartbeats have gone on.
func TestHandOffAfterALongWaitTakesNoRequest(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
		b := l.Client("b")
		w := l.Locking(b.Mutex("/m"))
		time.Sleep(time.Minute + b.Newest().Timeout()/12) // between two heartbeats
		l.Srv.ResetCounts()
		l.Unlock(x)
		released := time.Now()
		r := l.Granted(w)
		require.Equal(t, released, r.At, "the event comes with the reply to the delete")
		require.Zero(t, l.Srv.SessionCounts(l.SessionID(b)).Total)
		l.Unlock(r.V)
	})
}

// Who looks at a lock wants to know since when it is held, and not since when its holder waited. The mark that says so comes
// behind the grant, and never in the way of a request to step back.
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

// A permit that waited beyond the number it was created under is granted when that is raised: it was shown as one that waits.
func TestAPermitThatWaitedSaysThatItIsHeld(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(1)
		x := l.Lock(draws(1)(l.Client("a")))
		w := l.drawing(l.Client("b"), 1)
		take := l.Srv.Inject(zktest.Once(zktest.On("multi")), zktest.Hold)
		l.Unlock(x)
		<-take.Hit()
		other := l.Foreign("/s/leases", "_c_x-lease-0000000001", "") // before the waiter's own, without a place at the gate
		take.Release()
		notYet(t, w, "there is one permit")
		l.Settle()
		l.Semaphore(2)
		r := l.Got(w)
		l.Semaphore(1) // takes nothing from who holds
		in := l.look(l.Client("who"), "/s")
		require.Len(t, in.Holders, 2)
		require.Empty(t, in.Waiters)
		l.Unlock(r)
		require.NoError(t, l.Srv.Delete(other))
	})
}
