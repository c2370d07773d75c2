package recipes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
)

func TestHandOffInALongQueueTakesNoRequestAndConstantBytes(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		holder := l.Lock(l.Client("holder").Mutex(m).Lock)
		var waiting []<-chan result[*recipes.Lease]
		for range 10 {
			c := l.Client("w")
			c.Crowd(1)
			waiting = append(waiting, l.Locking(c.Mutex(m)))
		}
		last := holder.Token()
		for i, w := range waiting {
			l.Settle()
			l.Srv.ResetCounts()
			l.Unlock(holder)
			released := time.Now() // the delete was committed one way ago
			r := l.Granted(w)
			// The event arrives as the holder's reply does.
			require.Zero(t, r.At.Sub(released), "waiter %d", i)
			require.Greater(t, r.V.Token(), last)
			holder, last = r.V, r.V.Token()
			l.Settle()
			n := l.Srv.Counts()
			require.Zero(t, n.ByOp["getChildren2"], "waiter %d listed", i)
			require.Equal(t, 1, n.ByOp["setData"], "the mark, behind the grant")
			require.LessOrEqual(t, n.BytesOut, int64(1500), "bytes of one hand-off")
			if i == 0 {
				t.Logf("hand-off: %d bytes, %d requests of all three clients; no round trip, O(1) bytes", n.BytesOut, n.Total)
			}
		}
		l.Unlock(holder)
	})
}

func TestGoroutinesOfAClientHandALockOverInOneTransactionWithOneContender(t *testing.T) { // case 21: g goroutines, one znode
	inLab(t, func(t *testing.T, l *lab) {
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
			l.Unlock(x)
			r := l.Granted(w)
			require.Equal(t, 2*oneWay, r.At.Sub(start))
			require.Greater(t, r.V.Token(), last, "a grant without a fresh token")
			n := l.Srv.Counts()
			require.Equal(t, 1, n.ByOp["multi"])
			require.Equal(t, 1, n.ByOp["getChildren2"])
			require.Len(t, l.Children("/m"), 1)
			x = r.V
		}
		l.Unlock(x)
		l.Empty("/m")
	})
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

func TestAnEndedContextSendsNothing(t *testing.T) { // case 7: pre-cancelled ctx on a free lock (matrixone #25790)
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l.Srv.ResetCounts()
		_, err := m.Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		_, err = m.TryLock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		l.Settle()
		require.Zero(t, l.Srv.Counts().Total)
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
	})
}

func TestDoReleasesWhenItsFunctionPanics(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		require.PanicsWithValue(t, "boom", func() { _ = m.Do(t.Context(), func(context.Context, *recipes.Lease) error { panic("boom") }) })
		synctest.Wait()
		l.Empty("/m")
	})
}

// A caller that gives up at the moment at which a place is made for it is told so, as ever, and does not keep it.
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
