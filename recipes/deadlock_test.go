package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
)

// nested takes a lock, and then another one with the context of the first lease.
func (l *lab) nested(first, second taking) (outer *recipes.Lease, inner <-chan result[*recipes.Lease]) {
	l.t.Helper()
	x, err := first(l.t.Context())
	require.NoError(l.t, err)
	return x, async(func() (*recipes.Lease, error) { return second(x.Context()) })
}

func TestTwoClientsThatLockInOppositeOrderAreADeadlockOfWhichOneIsTheVictim(t *testing.T) {
	for name, programs := range map[string]int{"one client": 1, "two clients": 2} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				paths := l.mutexes(2)
				a := l.client("A")
				b := a
				if programs == 2 {
					b = l.client("B")
				}
				xa, err := a.Mutex(paths[0]).Lock(t.Context())
				require.NoError(t, err)
				xb, wb := l.nested(b.Mutex(paths[1]).Lock, b.Mutex(paths[0]).Lock)
				l.settle()
				start := time.Now()
				_, err = a.Mutex(paths[1]).Lock(xa.Context())
				require.ErrorIs(t, err, recipes.ErrDeadlock)
				require.NotErrorIs(t, err, context.Canceled)
				require.False(t, recipes.Retryable(err))
				require.Less(t, time.Since(start), 2*time.Second)
				var d *recipes.DeadlockError
				require.ErrorAs(t, err, &d)
				require.Len(t, d.Circle, 2)
				t.Log(err, time.Since(start))
				notYet(t, wb, "the other goes on waiting")
				require.NoError(t, xa.Context().Err(), "its lease is untouched")
				l.unlock(xa)
				l.unlock((<-wb).v)
				l.unlock(xb)
			})
		})
	}
}

func TestAWaitCostsMoreOnlyIfItsCallerHoldsSomethingAndAfterASecond(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		paths := l.mutexes(2)
		a, b := l.client("A"), l.client("B")
		xb, err := b.Mutex(paths[1]).Lock(t.Context())
		require.NoError(t, err)
		xa, err := a.Mutex(paths[0]).Lock(t.Context())
		require.NoError(t, err)
		wait := func(ctx context.Context, d time.Duration, opts ...recipes.Option) string {
			l.settle()
			l.srv.ResetCounts()
			ctx, cancel := context.WithTimeout(ctx, d)
			defer cancel()
			_, err := a.Mutex(paths[1], opts...).Lock(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			l.settle()
			by := l.srv.Counts().ByOp
			delete(by, "multi") // heartbeats
			return operations(by)
		}
		_ = wait(t.Context(), time.Second) // reads the declaration
		for _, d := range []time.Duration{950 * time.Millisecond, 5 * time.Second} {
			require.Equal(t, "create delete getChildren2 2getData", wait(t.Context(), d), "no lease")
			require.Equal(t, "create delete getChildren2 2getData", wait(recipes.Detach(xa.Context()), d), "not that goroutine's")
			require.Equal(t, "create delete getChildren2 2getData", wait(xa.Context(), d, recipes.WithoutDeadlockDetection()))
		}
		require.Equal(t, "create delete getChildren2 2getData", wait(xa.Context(), 950*time.Millisecond))
		// It is said once, and both locks are looked at four times: their declarations, queues and contenders.
		require.Equal(t, "create delete 9getChildren2 24getData setData", wait(xa.Context(), 5*time.Second))
		l.unlock(xa)
		l.unlock(xb)
	})
}
