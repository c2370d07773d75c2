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
