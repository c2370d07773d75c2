package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

func brought(c *recipes.Client, path string, permits int) *recipes.Semaphore {
	return c.Semaphore(path, recipes.WithParams(&kind.SemaphoreParams{Permits: permits}), recipes.WithCreate())
}

// 5 permits were out of a semaphore of which its first holder thought that it has 2.
func TestProgramsThatBringDifferentNumbersOfPermitsDoNotHoldTogether(t *testing.T) {
	for name, take := range map[string]func(m *recipes.Semaphore, ctx context.Context, n int) (*recipes.Lease, error){
		"acquire": (*recipes.Semaphore).Acquire,
		"try":     (*recipes.Semaphore).TryAcquire,
		"set": func(m *recipes.Semaphore, ctx context.Context, n int) (*recipes.Lease, error) {
			return m.Client().MultiLock(m.Share(n)).Lock(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				two, five := brought(l.client("two"), "/s", 2), brought(l.client("five"), "/s", 5)
				x, err := take(two, t.Context(), 2)
				require.NoError(t, err)
				_, err = take(five, t.Context(), 3)
				require.ErrorIs(t, err, recipes.ErrNotProvisioned)
				require.ErrorContains(t, err, "semaphore /s: two takes it to have 2 permits, this program brings 5; declare it and run apply")
				l.settle()
				require.Len(t, l.children("/s/leases"), 2, "what was refused stays")
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, err = take(brought(l.client("three"), "/s", 2), ctx, 2)
				cancel()
				require.ErrorIs(t, err, recipes.ErrHeld, "the same number waits")
				l.unlock(x)
				l.settle()
				y, err := take(five, t.Context(), 5)
				require.NoError(t, err, "nobody holds any")
				l.unlock(y)
			})
		})
	}
}

// One that would have to wait for those who disagree is told at once.
func TestWhoWaitsForHoldersOfAnotherNumberOfPermitsIsTold(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		x, err := brought(l.client("five"), "/s", 5).Acquire(t.Context(), 4)
		require.NoError(t, err)
		start := time.Now()
		_, err = brought(l.client("two"), "/s", 2).Acquire(t.Context(), 1)
		require.ErrorContains(t, err, "five takes it to have 5 permits, this program brings 2")
		require.Less(t, time.Since(start), time.Second)
		l.unlock(x)
	})
}

// Both create their permits at the same moment: the younger one sees the older.
func TestDifferentNumbersOfPermitsBroughtAtTheSameMoment(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		two, five := brought(l.client("two"), "/s", 2), brought(l.client("five"), "/s", 5)
		for range 20 {
			a := async(func() (*recipes.Lease, error) { return two.TryAcquire(t.Context(), 1) })
			b := async(func() (*recipes.Lease, error) { return five.TryAcquire(t.Context(), 1) })
			x, y := <-a, <-b
			require.True(t, x.err != nil || y.err != nil)
			for _, r := range []result[*recipes.Lease]{x, y} {
				if r.err == nil {
					l.unlock(r.v)
				}
			}
			l.settle()
		}
	})
}

func TestPermitsBroughtOrDeclaredCost(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := brought(l.client("a"), "/own", 3)
		warm, err := m.Acquire(t.Context(), 1)
		require.NoError(t, err)
		l.unlock(warm)
		l.settle()
		var x *recipes.Lease
		require.Equal(t, 2, l.cost(func() { x, err = m.Acquire(t.Context(), 2) }).trips)
		require.NoError(t, err)
		l.settle()
		cut := l.srv.Inject(zktest.Once(zktest.On("getData")), zktest.CutBefore)
		y, err := brought(l.client("b"), "/own", 3).Acquire(t.Context(), 1)
		require.NoError(t, err, "a read that is lost is made again")
		<-cut.Hit()
		synctest.Wait()
		l.unlock(y)
		l.unlock(x)
	})
}
