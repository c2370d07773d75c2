package recipes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// A program that knows no recipe can take a lock of every kind, and nothing else.
func TestTakeServesEveryKind(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("anyone")
		for _, k := range append(kind.All(), nil) {
			path := "/" + k.String()
			if k == nil || k.Container || k == kind.Keyed { // a family's locks are those of its keys
				_, err := c.Take(t.Context(), k, path, recipes.Want{})
				require.ErrorIs(t, err, recipes.ErrKindMismatch)
				continue
			}
			l.declare(path, k.New())
			for _, shared := range []bool{false, true} { // a kind without readers has one way
				lease, err := c.Take(t.Context(), k, path, recipes.Want{Shared: shared, Permits: 1, Try: true})
				require.NoError(t, err, k)
				in, err := inspect.Lock(t.Context(), c, path)
				require.NoError(t, err)
				require.Same(t, k, in.Kind)
				require.Equal(t, shared && k == kind.RWLock, in.Holders[0].Shared)
				require.NoError(t, lease.Unlock(t.Context()))
			}
		}
	})
}
