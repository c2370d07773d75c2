package recipes_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
)

// A guarded write that begins while another goroutine gives the lock back belongs to no later holder.
func TestAWriteThatMeetsTheUnlockIsRefusedWhereTheLockIsHandedOn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex(), recipes.WithLocalHandoff(10))
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		w := l.locking(m)
		l.unlock(x)
		next := (<-w).v
		require.ErrorIs(t, x.BeginWrite(), recipes.ErrReleased)
		require.NoError(t, next.BeginWrite())
	})
}

// A lock that is being exchanged while another goroutine gives it back is handed on to nobody: what happens to the node is the
// exchange's.
func TestALockThatIsBeingExchangedIsNotHandedOn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		m := l.client("a").RWMutex("/rw", recipes.WithLocalHandoff(10))
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		w := async(func() (*recipes.Lease, error) { return m.Lock(context.Background()) })
		l.settle()
		require.NoError(t, m.Exchanged(x))
		l.unlock(x)
		require.ErrorIs(t, m.Exchanged(x), recipes.ErrReleased)
		next := (<-w).v
		require.False(t, next.With(x))
		l.unlock(next)
	})
}
