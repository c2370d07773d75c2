package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// permits are the nodes below leases.
func (l *lab) permits() int { return len(l.Children("/s/leases")) }

func TestACancelledTakeLeavesNoPermit(t *testing.T) { // case 47: cancelled while the permit is being created
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(3)
		c := l.Client("a")
		require.NoError(t, c.Semaphore("/s").Declared(t.Context()))
		held := l.Srv.Inject(zktest.Once(l.By(c, "multi")), zktest.Hold)
		ctx, cancel := context.WithCancel(t.Context())
		got := async(func() (*recipes.Lease, error) { return c.Semaphore("/s").Acquire(ctx, 2) })
		<-held.Hit()
		cancel()
		require.ErrorIs(t, (<-got).Err, context.Canceled)
		held.Release()
		l.Settle()
		time.Sleep(time.Second)
		require.Zero(t, l.permits())
		l.Empty("/s/locks")
	})
}

func TestOnePermitThatComesBackWakesOneWaiter(t *testing.T) { // a herd is Curator's and kazoo's way only at the front
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(4)
		x := l.Lock(draws(4)(l.Client("holder")))
		var ws []<-chan result[*recipes.Lease]
		var ids []int64
		for i := range 6 {
			c := l.Client(fmt.Sprint(i))
			ids = append(ids, l.SessionID(c))
			ws = append(ws, l.drawing(c, 4))
		}
		l.Srv.ResetCounts()
		l.Unlock(x)
		first := l.Granted(ws[0])
		l.Settle()
		for i, id := range ids[2:] {
			require.Zero(t, l.Srv.SessionCounts(id).WatchEvents, "waiter %d", i+2)
		}
		l.Unlock(first.V)
		for _, w := range ws[1:] {
			l.Unlock((<-w).V)
		}
	})
}

// A place that goes with the transaction taking the permits, whose outcome its owner did not wait for, was left to the
// next goroutine, who found it deleted.
func TestPlaceThatIsBeingDeletedWasInherited(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(1)
		held := l.Lock(draws(1)(l.Client("holder")))
		c := l.Client("c")
		ctx, cancel := context.WithCancel(t.Context())
		first := async(func() (*recipes.Lease, error) { return c.Semaphore("/s").Acquire(ctx, 1) })
		l.Settle()
		second := l.drawing(c, 1)
		l.Settle()
		slow := l.Srv.Inject(zktest.Once(zktest.On("multi")), zktest.DelayReply(2*time.Second))
		l.Unlock(held)
		<-slow.Hit()
		cancel()
		require.ErrorIs(t, (<-first).Err, context.Canceled)
		got := l.Granted(second)
		l.Unlock(got.V)
		l.Settle()
		l.Empty("/s/locks", "/s/leases")
	})
}

// The front of the queue takes its permits under the number it knows. Where the event of another number was lost, the
// server refused that, and it took them under the same number again, for ever and without a pause.
func TestAWaiterLearnsTheNumberOfPermitsFromARefusalWhereItsEventIsLost(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(1)
		x := l.Lock(draws(1)(l.Client("b")))
		a := l.Client("a")
		id := l.SessionID(a)
		w := l.drawing(a, 1)
		lost := l.Srv.InjectEvent(func(e zktest.Event) bool { return e.Session == id && e.Path == "/s" }, zktest.DropEvent)
		l.Semaphore(2)
		l.Settle()
		require.Equal(t, 1, lost.Hits())
		l.Unlock(x)
		select {
		case r := <-w:
			require.NoError(t, r.Err)
			l.Unlock(r.V)
		case <-time.After(time.Minute):
			_ = a.Close()
			require.Fail(t, "never")
		}
	})
}

// Goroutines that asked for permits at the same moment each created one, and each listed those of all: 60 MB for a thousand, and
// with some thousands no answer came within the session timeout. (Go's own semaphores are used like that: one goroutine a task.)
func TestAThousandGoroutinesThatWantPermitsAtOnceDoNotAllAskForThem(t *testing.T) {
	effort.Proof(t, effort.Raced)
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(3)
		var most atomic.Int64
		l.Srv.Inject(func(r zktest.Request) bool {
			if n, _ := l.Srv.Get("/s/leases"); r.Op == "getChildren2" {
				most.Store(max(most.Load(), int64(len(n.Children))))
			}
			return false
		}, zktest.DropReply)
		s := l.Client("a").Semaphore("/s")
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				x, err := s.Acquire(t.Context(), 1)
				if assert.NoError(t, err) {
					assert.NoError(t, x.Unlock(t.Context()))
				}
			})
		}
		all.Wait()
		require.LessOrEqual(t, most.Load(), int64(70))
		l.Settle()
		var refused atomic.Int64
		for range 100 {
			all.Go(func() {
				x, err := s.TryAcquire(t.Context(), 1)
				if err == nil {
					time.Sleep(time.Second)
					err = x.Unlock(t.Context())
				} else if assert.ErrorIs(t, err, recipes.ErrHeld) {
					refused.Add(1)
					return
				}
				assert.NoError(t, err)
			})
		}
		all.Wait()
		require.Equal(t, int64(97), refused.Load())
	})
}

// It asked again every 10 ms, with a listing each time, of servers that shed what they cannot bear.
func TestTheFirstAtAGateAsksServersThatShedItsRequestEverMoreRarely(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		x := l.Lock(draws(3)(l.Client("holder")))
		w := async(func() (*recipes.Lease, error) { return l.Client("waiter").Semaphore("/s").Acquire(t.Context(), 1) })
		l.Settle()
		l.Unlock(x)
		shed := l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "multi" && r.Session != l.SessionID(x.Client()) }, zktest.Fail(zktest.CodeThrottled))
		time.Sleep(time.Minute)
		require.Less(t, shed.Hits(), 100)
		shed.Remove()
		l.Unlock(l.Got(w))
		l.NothingLeft()
	})
}

// The error named a node of the layout, and said nothing of the place.
func TestAPlaceAtTheGateThatWentWithItsSemaphoreIsLost(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(1)
		holder := l.Lock(draws(1)(l.Client("a")))
		c := l.Client("b")
		waiting := async(func() (*recipes.Lease, error) { return c.Semaphore("/s").Acquire(t.Context(), 1) })
		l.Settle()
		held := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Path == "/s/leases" && strings.HasPrefix(r.Op, "getChildren") }), zktest.Hold)
		l.Unlock(holder)
		<-held.Hit()
		place := "/s/locks/" + l.Children("/s/locks")[0]
		for _, path := range []string{place, "/s/locks", "/s/leases"} {
			require.NoError(t, l.Srv.Delete(path))
		}
		held.Release()
		got := <-waiting
		require.ErrorIs(t, got.Err, recipes.ErrLost)
		require.ErrorContains(t, got.Err, place)
		require.ErrorContains(t, got.Err, "run apply")
		require.True(t, recipes.Retryable(got.Err), "it was never granted")
	})
}

func TestNeverMorePermitsThanDeclared(t *testing.T) { // case 48: kazoo #213 admits too many without blocking; CURATOR-376
	for name, c := range map[string]struct {
		clients, goroutines int
		take                func(*recipes.Semaphore, context.Context, int) (*recipes.Lease, error)
	}{
		"clients that wait":          {8, 1, (*recipes.Semaphore).Acquire},
		"clients that try":           {6, 1, (*recipes.Semaphore).TryAcquire},
		"goroutines with one handle": {1, 8, (*recipes.Semaphore).Acquire},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.Semaphore(3)
			var mu sync.Mutex
			now, most, grants := 0, 0, 0
			count := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				now += n
				most, grants = max(most, now), grants+1
			}
			var all sync.WaitGroup
			for i := range c.clients {
				m := l.Client(fmt.Sprint(i)).Semaphore("/s")
				for j := range c.goroutines {
					rnd := rand.New(rand.NewPCG(uint64(i), uint64(j)))
					all.Go(func() {
						for range 40 {
							time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
							x, err := c.take(m, context.Background(), 1+rnd.IntN(2))
							if errors.Is(err, recipes.ErrHeld) {
								continue
							}
							if !assert.NoError(t, err) {
								return
							}
							count(len(x.Nodes()))
							time.Sleep(time.Duration(200+rnd.IntN(200)) * time.Millisecond) // longer than a call takes at the gate, so that leases overlap
							assert.NoError(t, context.Cause(x.Context()), "granted and over")
							count(-len(x.Nodes()))
							assert.NoError(t, x.Unlock(context.Background()))
						}
					})
				}
			}
			all.Wait()
			require.Equal(t, 3, most, "the limit, reached and not passed")
			require.Greater(t, grants, 40, "the test refused nearly everything")
			l.Settle()
			require.Zero(t, l.permits())
			l.Empty("/s/locks")
		})
	}
}
