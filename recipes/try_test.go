package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestATryOfAFreeLockIsNotRefusedBecauseItsListingWasLost(t *testing.T) {
	forEveryTry(t, func(t *testing.T, l *lab, way harness.Way) {
		try := way.Try(l.Client("a"))
		l.warm(try)
		lost := l.Srv.Inject(zktest.Once(zktest.On("getChildren2")), zktest.CutBefore)
		x := l.Lock(try) // no client holds it, none waits
		l.Unlock(x)
		require.Equal(t, 1, lost.Hits())
	})
}

func TestAnObservationOutlivesAnyNumberOfLostConnections(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Election()
		c := l.Client("a")
		states, end := l.observing(c)
		require.Empty(t, <-states, "nobody leads")
		lost, reads := 0, l.By(c, "getData", "getChildren2", "getChildren")
		l.Srv.Inject(func(r zktest.Request) bool { // eight in a row
			lose := lost < 8 && reads(r)
			if lose {
				lost++
			}
			return lose
		}, zktest.CutBefore)
		lead := l.elected("b")
		require.Equal(t, lead.Node(), within(t, time.Minute, func() string { return (<-states).Path }))
		l.Unlock(lead)
		end()
	})
}

func TestARefusedTryIsNotInTheWayOfTheNextCallOfItsClient(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.RWLock()
		l.Semaphore(3)
		x := l.Lock(l.Client("holder").RWMutex("/rw").RLock)
		two := l.Lock(draws(2)(l.Client("holder")))
		c := l.Client("b")
		for range 300 {
			l.Refused(c.RWMutex("/rw").TryLock, recipes.ErrHeld)
			r := l.Lock(c.RWMutex("/rw").TryRLock) // others only read; only our own refused writer can be in the way
			l.Unlock(r)
			_, err := c.Semaphore("/s").TryAcquire(t.Context(), 2)
			require.ErrorIs(t, err, recipes.ErrHeld)
			p, err := c.Semaphore("/s").TryAcquire(t.Context(), 1)
			require.NoError(t, err, "one of three is free; our own refused permits are in the way")
			l.Unlock(p)
		}
		l.Unlock(x)
		l.Unlock(two)
	})
}

func TestAProofThatIsLostOrTooOldIsMadeAgain(t *testing.T) { // simulations, seeds 25699 and 402472
	for delay := 4 * time.Second; delay < 8*time.Second; delay += 125 * time.Millisecond {
		inLab(t, func(t *testing.T, l *lab) {
			m := l.Client("a", func(cfg *recipes.Config) { cfg.LoseOnSuspect = delay%(250*time.Millisecond) == 0 }).Mutex(l.Mutex())
			l.warm(m.Lock)
			l.Srv.Inject(zktest.Once(zktest.On("create")), zktest.DelayReply(delay)) // beyond T/2, or with LoseOnSuspect, the grant needs another proof
			proof := l.Srv.Inject(zktest.Once(zktest.On("multi")), zktest.DropReply)
			x := l.Lock(m.Lock, "the session and the context live; the proof was lost %d times, after %v", proof.Hits(), delay)
			synctest.Wait()
			require.NoError(t, context.Cause(x.Context()))
			l.Unlock(x)
		})
	}
}

func TestATryIsNotRefusedBecauseOfAWaiterThatHasGivenUp(t *testing.T) {
	forEveryTry(t, func(t *testing.T, l *lab, way harness.Way) {
		a := l.Client("a")
		x := l.Lock(way.Block(l.Client("b")))
		waiting, cancel := l.Leaving(way.Take(a))
		notYet(t, waiting, "it is held")
		leaving := l.Srv.Inject(zktest.Once(l.By(a, "delete", "multi")), zktest.Hold)
		cancel()
		require.ErrorIs(t, (<-waiting).Err, recipes.ErrHeld)
		l.Unlock(x)
		l.Settle()
		tried := l.Waiting(way.Try(a))
		leaving.Release()
		r := l.Got(tried) // no client holds it, and the try waits only for the end of its own client's cleaning
		l.Unlock(r)
		l.NothingLeft()
	})
}

// The turn passes from a caller that cleans up to a caller that waits for another client. From then on a try is refused again, and does not
// wait too. A try that came before, and waited for the cleaning, is refused too.
func TestATryIsRefusedOnceTheTurnHasGoneToAWaiter(t *testing.T) {
	forEveryTry(t, func(t *testing.T, l *lab, way harness.Way) {
		a := l.Client("a")
		x := l.Lock(way.Block(l.Client("b")))
		first, cancel := l.Leaving(way.Take(a))
		leaving := l.Srv.Inject(zktest.Once(l.By(a, "delete", "multi")), zktest.Hold)
		cancel()
		require.ErrorIs(t, (<-first).Err, recipes.ErrHeld)
		before := l.Waiting(way.Try(a))
		notYet(t, before, "one is cleaning up")
		second := l.Waiting(way.Take(a))
		leaving.Release()
		l.Settle()
		notYet(t, second, "it is held")
		require.ErrorIs(t, within(t, time.Hour, func() error { return (<-before).Err }), recipes.ErrHeld)
		after := l.Waiting(way.Try(a))
		require.Len(t, after, 1)
		require.ErrorIs(t, (<-after).Err, recipes.ErrHeld)
		l.Unlock(x)
		l.Unlock((<-second).V)
	})
}

// A turn that no goroutine inherited was given up twice: at once, and when the contender was gone. By then another goroutine had the turn,
// and a third one got it as well.
func TestTurnGivenUpTwice(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		path := l.Mutex()
		held := l.Lock(l.Client("holder").Mutex(path).Lock)
		c := l.Client("c")
		m := c.Mutex(path)
		first, cancel := l.Leaving(m.Lock)
		slow := l.Srv.Inject(zktest.On("delete"), zktest.Delay(2*time.Second))
		cancel()
		require.ErrorIs(t, (<-first).Err, context.Canceled)
		second, third := l.Locking(m), l.Locking(m)
		time.Sleep(3 * time.Second)
		l.Settle()
		slow.Remove()
		require.Len(t, l.Children(path), 2, "one client, two contenders")
		l.Unlock(held)
		l.Unlock((<-second).V)
		l.Unlock((<-third).V)
	})
}

// A goroutine waits for the turn, and gives up while the place for it is being created. A try met that place as a rival.
func TestATryDuringAHandOffIsNotRefusedByThePlaceHandedOn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("c")
		m := c.Mutex(l.Mutex())
		x := l.Lock(m.Lock)
		waiting, cancel := l.Leaving(m.Lock)
		slow := l.Srv.Inject(zktest.Once(zktest.On("delete")), zktest.Delay(time.Second))
		unlocked := async(func() (any, error) { return nil, x.Unlock(t.Context()) })
		synctest.Wait()
		cancel()
		require.ErrorIs(t, (<-waiting).Err, context.Canceled)
		<-slow.Hit()
		next := l.Lock(m.TryLock)
		require.NoError(t, (<-unlocked).Err)
		l.Unlock(next)
	})
}
