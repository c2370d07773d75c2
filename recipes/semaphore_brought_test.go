package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

func brought(c *recipes.Client, path string, permits int) *recipes.Semaphore {
	return c.Semaphore(path, recipes.WithParams(&kind.SemaphoreParams{Permits: permits}), recipes.WithCreate())
}

// Each grant of an undeclared semaphore read every older permit: 153 requests with 250 permits.
func TestAGrantOfAnUndeclaredSemaphoreReadEveryOlderPermit(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := brought(l.Client("a"), "/own", 250)
		for range 3 {
			_, err := brought(l.Client("b"), "/own", 250).Acquire(t.Context(), 50)
			require.NoError(t, err)
		}
		warm, err := m.Acquire(t.Context(), 1)
		require.NoError(t, err)
		l.Unlock(warm)
		l.Settle()
		var x *recipes.Lease
		require.Equal(t, spent(1, "create 2getChildren2 getData"), l.Cost(func() { x, err = m.Acquire(t.Context(), 1) }), "as if it were declared")
		require.NoError(t, err)
		l.Unlock(x)
	})
}

// What WithParams promises to programs that bring different numbers: each obeys its own, so the largest bounds what is held.
func TestProgramsThatBringDifferentNumbersOfPermitsObeyEachItsOwn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		two, five := brought(l.Client("two"), "/s", 2), brought(l.Client("five"), "/s", 5)
		x, err := two.Acquire(t.Context(), 2)
		require.NoError(t, err)
		y, err := five.Acquire(t.Context(), 3)
		require.NoError(t, err)
		_, err = five.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, recipes.ErrHeld)
		l.Unlock(x)
		l.Settle()
		w := l.Waiting(func(ctx context.Context) (*recipes.Lease, error) { return two.Acquire(ctx, 1) })
		time.Sleep(time.Minute)
		notYet(t, w, "three are held, and it knows of two")
		l.Unlock(y)
		l.Unlock(l.Got(w))
	})
}
