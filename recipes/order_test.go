package recipes_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// placed declares a lock with a place in an order.
func (l *lab) placed(path string, p kind.Params, of string, rank int) {
	l.T.Helper()
	for _, f := range p.Fields() {
		if f.Name == "order" {
			require.NoError(l.T, f.Set(kind.Place{Of: of, Rank: rank}.String()))
		}
	}
	l.Declare(path, p)
}

func TestLocksTakenAgainstTheDeclaredOrderAreRefusedAtOnce(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.placed("/first", kind.Mutex.New(), "/bank", 1)
		l.placed("/second", kind.RWLock.New(), "/bank", 2)
		l.placed("/keys", &kind.KeyedParams{Of: "mutex", Foreign: "false"}, "/bank", 3)
		l.placed("/other", kind.Mutex.New(), "/shop", 1)
		l.Declare("/none", kind.Mutex.New())
		c := l.Client("A")
		take := func(ctx context.Context, f taking) *recipes.Lease {
			x, err := f(ctx)
			require.NoError(t, err)
			return x
		}
		key := func(k string) taking {
			return locked(c.Keyed("/keys"), k)
		}
		second := take(t.Context(), c.RWMutex("/second").RLock)
		for name, f := range map[string]taking{
			"Lock": c.Mutex("/first").Lock, "Try": c.Mutex("/first").TryLock,
			"a set": multi(c, "/none", "/first").Lock,
		} {
			_, err := f(second.Context())
			require.ErrorIs(t, err, recipes.ErrLockOrder, name)
			require.Empty(t, l.Children("/first"), name)
		}
		_, err := c.Mutex("/first").Lock(second.Context())
		require.EqualError(t, err, "recipes: wrong order of locks: /first comes before /second in the order that /bank declares, "+
			"and the caller's context comes from a lease of /second; take /first first")
		// What is behind, of another order, of none, or of the same place.
		one := take(second.Context(), key("a"))
		two := take(one.Context(), key("b"))
		for _, x := range []*recipes.Lease{take(two.Context(), c.Mutex("/other").Lock), take(two.Context(), c.Mutex("/none").Lock), two, one, second} {
			l.Unlock(x)
		}
		first := take(context.WithoutCancel(second.Context()), c.Mutex("/first").Lock) // the lease is over
		l.Unlock(first)
	})
}
