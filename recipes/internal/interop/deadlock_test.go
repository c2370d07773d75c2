//go:build linux

package interop_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// deadlocks: a program in another language, which does not say for what it waits, and ours wait for each other. Ours is told, and the
// other one goes on.
func (l *realLab) deadlocks(t *testing.T) {
	for _, other := range languages()[1:] {
		t.Run(other.name, func(t *testing.T) {
			t.Parallel() // it waits for seconds
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			a, b := l.provision(t, mutexes.declare(kind.WireCurator)), l.provision(t, mutexes.declare(kind.WireCurator))
			c := l.goClient(t, "go", nil)
			first, err := c.Mutex(a).Lock(ctx)
			require.NoError(t, err)
			holds, waits := other.enter(t, l, b), other.enter(t, l, a)
			require.NoError(t, holds.acquire(ctx))
			granted := l.request(ctx, waits)
			line := l.awaitContenders(t, a, 2)

			_, err = c.Mutex(b).Lock(first.Context())
			require.ErrorIs(t, err, recipes.ErrDeadlock)
			var found *recipes.DeadlockError
			require.ErrorAs(t, err, &found)
			require.Len(t, found.Circle, 2)
			require.Equal(t, map[string]string{"curator": "java", "kazoo-subclass": "python"}[other.name], found.Circle[1].Who)
			require.ErrorContains(t, err, " holds "+b)
			require.Equal(t, line, l.contenders(t, a), "the other one is no victim")
			require.Len(t, l.contenders(t, b), 1)
			require.NoError(t, first.Unlock(ctx))
			require.NoError(t, <-granted)
			require.NoError(t, waits.release(ctx))
			require.NoError(t, holds.release(ctx))
		})
	}
}
