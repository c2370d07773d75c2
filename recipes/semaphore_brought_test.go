package recipes_test

import (
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
			l.Lock(permits(brought(l.Client("b"), "/own", 250), 50))
		}
		l.Unlock(l.Lock(permits(m, 1)))
		l.Settle()
		var x *recipes.Lease
		require.Equal(t, spent(1, "create 2getChildren2 getData"), l.Cost(func() { x = l.Lock(permits(m, 1)) }), "as if it were declared")
		l.Unlock(x)
	})
}

// What WithParams promises to programs that bring different numbers: each obeys its own, so the largest bounds what is held.
func TestProgramsThatBringDifferentNumbersOfPermitsObeyEachItsOwn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		two, five := brought(l.Client("two"), "/s", 2), brought(l.Client("five"), "/s", 5)
		x := l.Lock(permits(two, 2))
		y := l.Lock(permits(five, 3))
		_, err := five.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, recipes.ErrHeld)
		l.Unlock(x)
		l.Settle()
		w := l.Waiting(permits(two, 1))
		time.Sleep(time.Minute)
		notYet(t, w, "three are held, and it knows of two")
		l.Unlock(y)
		l.Unlock(l.Got(w))
	})
}
