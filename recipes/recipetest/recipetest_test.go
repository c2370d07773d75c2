package recipetest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/recipetest"
)

// Every recipe is a Locker: while one client holds it, another is refused, and after the release another gets it.
func TestEveryRecipeIsALocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := recipetest.Start(t,
			recipetest.Lock("/mutex", &kind.MutexParams{}), recipetest.Lock("/rwlock", &kind.RWLockParams{}),
			recipetest.Lock("/semaphore", &kind.SemaphoreParams{Permits: 3}), recipetest.Lock("/election", &kind.ElectionParams{}))
		lockers := func(c *recipes.Client) map[string]recipes.Locker {
			rw := c.RWMutex("/rwlock")
			return map[string]recipes.Locker{
				"mutex": c.Mutex("/mutex"), "writer": rw, "semaphore": c.Semaphore("/semaphore").Locker(2), "election": c.Locker(kind.Election, "/election", false, 0),
				"multilock": c.MultiLock(c.Mutex("/mutex"), rw.RLocker()),
			}
		}
		one, two := lockers(c.Client("one")), lockers(c.Client("two"))
		for name, lock := range one {
			err := lock.Do(t.Context(), func(ctx context.Context, l *recipes.Lease) error {
				require.Positive(t, l.Token(), name)
				_, err := two[name].TryLock(context.Background())
				require.ErrorIs(t, err, recipes.ErrHeld, name)
				return nil
			})
			require.NoError(t, err, name)
			l, err := two[name].Lock(t.Context())
			require.NoError(t, err, name)
			require.NoError(t, l.Unlock(t.Context()), name)
		}
		// Readers share.
		rw := c.Client("three").RWMutex("/rwlock").RLocker()
		l, err := rw.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Client("four").RWMutex("/rwlock").RLocker().Do(t.Context(), func(context.Context, *recipes.Lease) error { return nil }))
		_, err = one["writer"].TryLock(t.Context())
		require.ErrorIs(t, err, recipes.ErrHeld)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

func TestAClientThatIsCutOffLosesItsLockInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := recipetest.Start(t, recipetest.Lock("/m", &kind.MutexParams{}))
		first := c.Client("first", func(cfg *recipes.Config) { cfg.SessionTimeout = 12 * time.Second })
		l, err := first.Mutex("/m").Lock(t.Context())
		require.NoError(t, err)
		begun := time.Now()
		heal := c.Cut(first)
		<-l.Context().Done()
		require.Less(t, time.Since(begun), 12*time.Second)
		heal()
		l, err = c.Client("second").Mutex("/m").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// A call that cannot do its work ends the test.
type failed struct{ text string }

type judged struct {
	*testing.T
}

func (judged) Fatalf(format string, _ ...any) { panic(failed{format}) }

func TestWhatCannotBeDeclaredFailsTheTest(t *testing.T) {
	require.PanicsWithValue(t, failed{"recipetest: %v"}, func() {
		recipetest.Start(judged{t}, recipetest.Lock("no path", &kind.MutexParams{}))
	})
}
