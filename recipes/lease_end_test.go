package recipes_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// Deadline moved on with the session of a lease that had been given back, or lost by itself.
func TestTheDeadlineOfALeaseThatHasEndedIsPast(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c := l.Client("a")
		held := l.Lock(c.Mutex("/other", recipes.WithParams(kind.Mutex.New()), recipes.WithCreate()).Lock)
		end := map[string]func(*recipes.Lease){
			"released": func(x *recipes.Lease) { l.Unlock(x) },
			"lost":     func(x *recipes.Lease) { require.NoError(t, l.Srv.Delete(x.Node())) },
		}
		for how, end := range end {
			x := l.Lock(way.Take(c))
			require.True(t, time.Now().Before(x.Deadline()))
			end(x)
			<-ended(x)
			over := time.Now()
			time.Sleep(time.Minute)
			require.NoError(t, held.Verify(t.Context()), "the session lives on")
			require.False(t, x.Deadline().After(over), how)
		}
	})
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").RWMutex(l.RWLock())
		x := l.Lock(m.RLock)
		y := l.Lock(m.RLock)
		l.Unlock(x)
		over := time.Now()
		time.Sleep(time.Minute)
		require.False(t, x.Deadline().After(over), "of one share")
		require.True(t, y.Deadline().After(over), "and not of the other")
	})
}

// A program that is continued after more than its session, or whose machine was suspended, has run no timer when it asks for
// the first time whether it still holds: Err said yes.
func TestTheFirstLookAtALeasesContextAfterAStopTellsTheLoss(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		var asleep atomic.Int64
		c := l.Asleep("a", l.Srv.DialContext, func() time.Duration { return time.Duration(asleep.Load()) }) // with a session timeout of 40 s
		x := l.Lock(way.Take(c))
		asleep.Add(int64(5 * time.Second))
		require.NoError(t, x.Context().Err(), "a nap")
		l.Settle()
		asleep.Add(int64(21 * time.Second))
		require.ErrorIs(t, x.Context().Err(), context.Canceled)
		select {
		case <-ended(x):
		default:
			require.Fail(t, "Err says that it has ended, Done does not")
		}
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
		require.False(t, time.Now().Before(x.Deadline()))
		_ = x.Unlock(t.Context())
	})
	inLab(t, func(t *testing.T, l *lab) {
		l.Mutex()
		var asleep atomic.Int64
		c := l.Asleep("a", l.Srv.DialContext, func() time.Duration { return time.Duration(asleep.Load()) })
		err := c.Mutex("/m").Do(t.Context(), func(ctx context.Context, _ *recipes.Lease) error {
			require.NoError(t, ctx.Err())
			asleep.Add(int64(21 * time.Second))
			require.Error(t, ctx.Err())
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, recipes.ErrLost)
	})
}

// A function that Do runs has no other context at hand. Its release ended the very context that the release waited with: it
// answered ErrReleasePending before the servers could confirm.
func TestAReleaseIsNotCutShortByTheContextThatItEnds(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		x := l.Lock(way.Take(l.Client("a")))
		ctx, cancel := context.WithCancel(x.Context())
		defer cancel()
		require.NoError(t, x.Unlock(ctx))
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		_, there := l.Srv.Get(x.Node())
		require.False(t, there)
	})
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		require.NoError(t, c.Mutex(l.Mutex()).Do(t.Context(), func(ctx context.Context, x *recipes.Lease) error { return x.Unlock(ctx) }))
		l.Srv.Inject(zktest.On("delete", "multi"), zktest.Fail(zktest.CodeThrottled))
		for given, waited := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: 12 * time.Second} {
			l.Declare("/"+given.String(), kind.Mutex.New())
			x := l.Lock(c.Mutex("/" + given.String()).Lock)
			ctx, cancel := context.WithTimeout(x.Context(), given)
			defer cancel()
			began := time.Now()
			require.ErrorIs(t, x.Unlock(ctx), recipes.ErrReleasePending)
			require.Equal(t, waited, time.Since(began))
		}
	})
}

// One lost reply was the end of a Verify, with an error that was not worth another try.
func TestVerifySurvivesALostReply(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
		confirm := func(r zktest.Request) bool { return r.Op == "multi" && r.Path == x.Node() }
		for name, fault := range map[string]zktest.Fault{"cut after": zktest.DropReply, "cut before": zktest.CutBefore, "lost alone": zktest.LoseReply} {
			lost := l.Srv.Inject(zktest.Once(confirm), fault)
			require.NoError(t, x.Verify(t.Context()), name)
			<-lost.Hit()
		}

		all := l.Srv.Inject(confirm, zktest.DropReply)
		ctx := l.Within(time.Second)
		start := time.Now()
		require.ErrorIs(t, x.Verify(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))

		verified := async(func() (struct{}, error) { return struct{}{}, x.Verify(context.Background()) })
		l.Settle()
		all.Remove()
		l.Unlock(x)
		require.ErrorIs(t, (<-verified).Err, recipes.ErrReleased)
	})
}

// The documentation said that no guarded write is applied after its lease has ended. A lease ends by the clock, at half a
// session timeout, before its node goes.
func TestAGuardedWriteIsAppliedOnlyBeforeTheNextGrant(t *testing.T) {
	for name, granted := range map[string]bool{"lease over, nobody else granted": false, "somebody else granted": true} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			path := l.Mutex()
			require.NoError(t, l.Srv.Create("/guarded", nil))
			x := l.Lock(l.Client("a").Mutex(path).Lock)
			rival := l.Locking(l.Client("b").Mutex(path))
			stuck := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "multi" && len(r.Paths) == 2 && r.Paths[1] == "/guarded" }), zktest.Hold)
			written := async(func() ([]zk.MultiResponse, error) {
				return x.Multi(context.Background(), &zk.SetDataRequest{Path: "/guarded", Data: []byte("late"), Version: -1})
			})
			<-stuck.Hit() // and with it all that the session sends behind it
			<-ended(x)
			require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
			if granted {
				require.NoError(t, (<-rival).Err)
			} else {
				require.Empty(t, rival)
			}
			stuck.Release()
			require.Error(t, (<-written).Err)
			l.Settle()
			g, _ := l.Srv.Get("/guarded")
			require.Equal(t, !granted, string(g.Data) == "late")
		})
	}
}

// One that is asked for when it has ended knows why.
func TestALeasesContextThatIsAskedForLateKnowsTheEnd(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		released := l.Lock(m.Lock)
		l.Unlock(released)
		require.ErrorIs(t, context.Cause(released.Context()), recipes.ErrReleased)
		lost := l.Lock(m.Lock)
		time.Sleep(time.Second)
		require.NoError(t, l.Srv.Delete(lost.Node()))
		l.Settle()
		require.ErrorIs(t, lost.Unlock(t.Context()), recipes.ErrLost)
		require.ErrorIs(t, context.Cause(lost.Context()), recipes.ErrLost)
	})
}

// The release of a lease that had ended while the process was stopped was pending, or done: others may have held the lock by then.
func TestAReleaseAfterAStopTellsTheLoss(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		for how, release := range map[string]func(x *recipes.Lease) error{
			"Unlock": func(x *recipes.Lease) error { return x.Unlock(t.Context()) },
			"Release": func(x *recipes.Lease) error {
				x.Release()
				return context.Cause(x.Context())
			},
		} {
			var asleep atomic.Int64
			c := l.Asleep(how, l.Srv.DialContext, func() time.Duration { return time.Duration(asleep.Load()) })
			x := l.Lock(c.Mutex(m).Lock)
			asleep.Add(int64(21 * time.Second))
			require.ErrorIs(t, release(x), recipes.ErrLost, how)
			require.NoError(t, c.Close())
			err := l.Awake("do", l.Srv.DialContext).Mutex(m).Do(t.Context(), func(context.Context, *recipes.Lease) error { return nil })
			require.NoError(t, err)
		}
	})
}

// A write that was under way when the lock was given to the next goroutine, or whose reply was lost, was applied after its lease
// had been given back, under another's, while both held the same node.
func TestAGuardedWriteIsNotAppliedUnderTheNextLocalHolder(t *testing.T) {
	faults := map[string]struct {
		fault zktest.Fault
		first time.Duration // how long the caller waits for the write
	}{
		"given up":     {zktest.Delay(2 * time.Second), 100 * time.Millisecond},
		"reply lost":   {zktest.DropReply, time.Minute},
		"request lost": {zktest.CutBefore, time.Minute},
		"under way":    {zktest.Delay(2 * time.Second), time.Minute},
	}
	for _, name := range []string{"mutex", "writer", "election"} {
		for how, f := range faults {
			runInLab(t, name+", "+how, func(t *testing.T, l *lab) {
				l.EveryKind()
				require.NoError(t, l.Srv.Create("/data", []byte("0")))
				take := harness.Ways()[name].Take(l.Client("a"))
				x := l.Lock(take)
				next := l.Waiting(take)
				l.Srv.Inject(zktest.Once(zktest.On("multi")), f.fault)
				wrote := async(func() ([]zk.MultiResponse, error) {
					ctx := l.Within(f.first)
					return x.Multi(ctx, &zk.SetDataRequest{Path: "/data", Data: []byte("1"), Version: -1})
				})
				synctest.Wait()
				if how != "under way" {
					require.Error(t, (<-wrote).Err)
					time.Sleep(time.Second) // until there is a connection again
				}
				l.Unlock(x)
				r := l.Got(next)
				require.NotEqual(t, x.Node(), r.Node(), "handed over while a write may still come")
				before, _ := l.Srv.Get("/data")
				time.Sleep(10 * time.Second)
				after, _ := l.Srv.Get("/data")
				require.Equal(t, before.Data, after.Data, "written under the next holder")
				l.Unlock(r)
			})
		}
	}
}
