package recipes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

func TestUncontendedLockTakesOneRoundTripAndTheCycleTwo(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		first, err := m.Lock(t.Context()) // reads the declaration
		require.NoError(t, err)
		l.unlock(first)
		l.settle()

		l.srv.ResetCounts()
		start := time.Now()
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2*oneWay, time.Since(start), "acquire")
		require.NotZero(t, x.Token(), "known from the reply to the create")
		l.unlock(x)
		require.Equal(t, 4*oneWay, time.Since(start), "whole cycle")
		n := l.srv.Counts()
		require.Equal(t, map[string]int{"create": 1, "getChildren2": 1, "delete": 1}, n.ByOp)
		require.Zero(t, n.WatchEvents)
		require.Empty(t, l.children("/m"))
		t.Logf("uncontended: acquire 1 round trip, cycle 2, %d requests; budget 1, 2, 3", n.Total)
	})
}

func TestHandOffInALongQueueTakesNoRequestAndConstantBytes(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		holder, err := l.client("holder").Mutex(m).Lock(t.Context())
		require.NoError(t, err)
		var waiting []<-chan result[*recipes.Lease]
		for range 10 {
			c := l.client("w")
			c.Crowd(1)
			waiting = append(waiting, l.locking(c.Mutex(m)))
		}
		last := holder.Token()
		for i, w := range waiting {
			l.settle()
			l.srv.ResetCounts()
			l.unlock(holder)
			released := time.Now() // the delete was committed one way ago
			r := <-w
			require.NoError(t, r.err)
			// The event arrives as the holder's reply does.
			require.Zero(t, r.at.Sub(released), "waiter %d", i)
			require.Greater(t, r.v.Token(), last)
			holder, last = r.v, r.v.Token()
			l.settle()
			n := l.srv.Counts()
			require.Zero(t, n.ByOp["getChildren2"], "waiter %d listed", i)
			require.Equal(t, 1, n.ByOp["setData"], "the mark, behind the grant")
			require.LessOrEqual(t, n.BytesOut, int64(1500), "bytes of one hand-off")
			if i == 0 {
				t.Logf("hand-off: %d bytes, %d requests of all three clients; no round trip, O(1) bytes", n.BytesOut, n.Total)
			}
		}
		l.unlock(holder)
	})
}

func TestOneReleaseWakesOneWaiter(t *testing.T) { // case 22: N waiters, one release, one of them woken
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		holder, err := l.client("holder").Mutex(m).Lock(t.Context())
		require.NoError(t, err)
		var waiting []<-chan result[*recipes.Lease]
		for range 40 {
			waiting = append(waiting, l.locking(l.client("w").Mutex(m)))
		}
		l.srv.ResetCounts()
		l.unlock(holder)
		next := <-waiting[0]
		require.NoError(t, next.err)
		l.settle()
		require.Equal(t, 5, l.srv.Counts().WatchEvents,
			"the deletion, to who is next and to the one behind, which looks ahead; and what the new holder says of itself a moment later, "+
				"to itself and to the one behind; and the releaser's own deletion")
		l.unlock(next.v)
		for _, w := range waiting[1:] {
			r := <-w
			require.NoError(t, r.err)
			l.unlock(r.v)
		}
	})
}

func TestTryLockOfAHeldLockTakesOneRoundTripAndLeavesNothing(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		x, err := l.client("holder").Mutex(m).Lock(t.Context())
		require.NoError(t, err)
		b := l.client("b").Mutex(m)
		_, err = b.TryLock(t.Context())
		require.ErrorIs(t, err, recipes.ErrHeld)
		l.settle()

		l.srv.ResetCounts()
		start := time.Now()
		_, err = b.TryLock(t.Context())
		require.Equal(t, 2*oneWay, time.Since(start))
		var held *recipes.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, x.Node(), held.Holder.Path)
		require.Equal(t, 1, held.Position)
		require.NoError(t, held.Identify(t.Context()))
		require.Equal(t, "holder", held.Holder.ID)
		require.Contains(t, held.Error(), "holder")
		l.settle()
		require.Len(t, l.children("/m"), 1, "the try left its contender")
		require.Zero(t, l.srv.Counts().WatchEvents, "the try left a watch")
		t.Logf("try-lock while held: 1 round trip, %v; budget 1, no watch", l.srv.Counts().ByOp)
		l.unlock(x)
		got, err := b.TryLock(t.Context())
		require.NoError(t, err, "own leftovers of the last try were in the way")
		l.unlock(got)
	})
}

func TestGoroutinesOfAClientHandALockOverInOneTransactionWithOneContender(t *testing.T) { // case 21: g goroutines, one znode
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		var waiting []<-chan result[*recipes.Lease]
		for range 50 {
			waiting = append(waiting, l.locking(m))
		}
		require.Len(t, l.children("/m"), 1)
		for _, w := range waiting {
			l.settle()
			l.srv.ResetCounts()
			start, last := time.Now(), x.Token()
			l.unlock(x)
			r := <-w
			require.NoError(t, r.err)
			require.Equal(t, 2*oneWay, r.at.Sub(start))
			require.Greater(t, r.v.Token(), last, "a grant without a fresh token")
			n := l.srv.Counts()
			require.Equal(t, 1, n.ByOp["multi"])
			require.Equal(t, 1, n.ByOp["getChildren2"])
			require.Len(t, l.children("/m"), 1)
			x = r.v
		}
		l.unlock(x)
		require.Empty(t, l.children("/m"))
	})
}

func TestOtherProcessesComeBetweenGoroutinesOfAClient(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		a := l.client("a").Mutex(m)
		x, err := a.Lock(t.Context())
		require.NoError(t, err)
		second := l.locking(a)
		other := l.locking(l.client("b").Mutex(m))
		l.unlock(x)
		r := <-other
		require.NoError(t, r.err)
		notYet(t, second, "the goroutine of the same client went first")
		l.unlock(r.v)
		r = <-second
		require.NoError(t, r.err)
		l.unlock(r.v)
	})
}

func TestGrantsComeInTheOrderOfArrivalWithGrowingTokens(t *testing.T) { // case 33
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		x, err := l.client("c0").Mutex(m).Lock(t.Context())
		require.NoError(t, err)
		var waiting []<-chan result[*recipes.Lease]
		for range 8 {
			waiting = append(waiting, l.locking(l.client("c").Mutex(m)))
		}
		for i, w := range waiting {
			for _, later := range waiting[i+1:] {
				notYet(t, later, "out of order")
			}
			last := x.Token()
			l.unlock(x)
			r := <-w
			require.NoError(t, r.err)
			require.Greater(t, r.v.Token(), last)
			x = r.v
		}
		last := x.Token()
		l.unlock(x)
		require.NoError(t, l.srv.Delete(m)) // numbers start again, tokens must not
		l.declare(m, kind.Mutex.New())
		x, err = l.client("later").Mutex(m).Lock(t.Context())
		require.NoError(t, err)
		require.Contains(t, x.Node(), "-lock-0000000000")
		require.Greater(t, x.Token(), last)
		l.unlock(x)
	})
}

func TestReentryThroughTheLeasesContext(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		m := c.Mutex(l.mutex(), recipes.WithReentrancy())
		err := m.Do(t.Context(), func(ctx context.Context, outer *recipes.Lease) error {
			return m.Do(ctx, func(ctx context.Context, inner *recipes.Lease) error {
				require.Equal(t, outer.Token(), inner.Token())
				require.Len(t, l.children("/m"), 1)
				return nil
			})
		})
		require.NoError(t, err)
		require.Empty(t, l.children("/m"))

		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		y, err := m.Lock(x.Context())
		require.NoError(t, err)
		l.unlock(x)
		l.unlock(x) // again: must not count twice
		require.NoError(t, y.Context().Err())
		require.Len(t, l.children("/m"), 1, "given back by the first of two")
		l.unlock(y)
		require.ErrorIs(t, context.Cause(y.Context()), recipes.ErrReleased)
		require.Empty(t, l.children("/m"))
	})
}

func TestAnEndedContextSendsNothing(t *testing.T) { // case 7: pre-cancelled ctx on a free lock (matrixone #25790)
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l.srv.ResetCounts()
		_, err := m.Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		_, err = m.TryLock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		l.settle()
		require.Zero(t, l.srv.Counts().Total)
	})
}

func TestATimedOutWaitNamesTheHolderAndThePosition(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		x, err := l.client("ledger-1").Mutex(m).Lock(t.Context())
		require.NoError(t, err)
		between := l.locking(l.client("b").Mutex(m))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err = l.client("c").Mutex(m).Lock(ctx)
		require.Less(t, time.Since(start), 3*time.Second+50*time.Millisecond) // case 18
		var held *recipes.HeldError
		require.ErrorAs(t, err, &held)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, recipes.ErrHeld)
		require.Equal(t, 2, held.Position)
		require.Equal(t, x.Node(), held.Holder.Path)
		require.Equal(t, "ledger-1", held.Holder.ID)
		l.settle()
		require.Len(t, l.children(m), 2, "the contender of the timed-out waiter stayed")
		l.unlock(x)
		l.unlock((<-between).v)
	})
}

func TestDoGivesBackAfterItsFunctionAndJoinsTheLoss(t *testing.T) { // case 57: never release before fn returned
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		ctx, cancel := context.WithCancel(t.Context())
		err := m.Do(ctx, func(ctx context.Context, x *recipes.Lease) error {
			cancel()
			<-ctx.Done()
			time.Sleep(time.Second)
			require.Len(t, l.children("/m"), 1, "given back while fn runs")
			require.NoError(t, x.Context().Err())
			return errors.New("from fn")
		})
		require.ErrorContains(t, err, "from fn")
		require.Empty(t, l.children("/m"), "a cancelled context kept the lock")

		err = m.Do(t.Context(), func(ctx context.Context, x *recipes.Lease) error {
			require.NoError(t, l.srv.Delete(x.Node()))
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), recipes.ErrLost)
			return nil
		})
		require.ErrorIs(t, err, recipes.ErrLost)
	})
}

func TestDoReleasesWhenItsFunctionPanics(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		require.PanicsWithValue(t, "boom", func() {
			_ = m.Do(t.Context(), func(context.Context, *recipes.Lease) error { panic("boom") })
		})
		synctest.Wait()
		require.Empty(t, l.children("/m"))
	})
}

// A caller that gives up at the moment at which a place is made for it is told so, as ever, and does not keep it.
func TestAPlaceIsNotKeptByACallerThatHasLeft(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		for range 50 {
			x, err := m.Lock(t.Context())
			require.NoError(t, err)
			ctx, leave := context.WithCancel(t.Context())
			left := async(func() (*recipes.Lease, error) { return m.Lock(ctx) })
			synctest.Wait()
			next := async(func() (*recipes.Lease, error) { return m.Lock(t.Context()) })
			synctest.Wait()
			leave()
			l.unlock(x)
			require.ErrorIs(t, (<-left).err, context.Canceled)
			l.unlock((<-next).v)
		}
		l.noneLeft(m)
	})
}
