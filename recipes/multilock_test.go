package recipes_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/zktest"
)

func multi(c *recipes.Client, paths ...string) *recipes.MultiLock {
	members := make([]recipes.Member, len(paths))
	for i, p := range paths {
		members[i] = c.Mutex(p)
	}
	return c.MultiLock(members...)
}

func TestAMultiLockIsNotGrantedWithAMemberThatWentWhileAnotherWasWaitedFor(t *testing.T) {
	for _, told := range []bool{true, false} {
		runInLab(t, fmt.Sprintf("told=%v", told), func(t *testing.T, l *lab) {
			paths := l.Mutexes(2)
			x := l.Lock(l.Client("holder").Mutex(paths[1]).Lock)
			w := l.Waiting(multi(l.Client("a"), paths...).Lock)
			node := l.Queue(paths[0])[0]
			if !told {
				l.Srv.InjectEvent(func(e zktest.Event) bool { return e.Path == node }, zktest.DropEvent)
			}
			require.NoError(t, l.Srv.Delete(node))
			l.Settle()
			l.Unlock(x)
			r := <-w
			require.ErrorIs(t, r.Err, recipes.ErrLost)
			l.Settle()
			l.Empty(paths[1])
		})
	}
}

// A lease entered again outlives the one it was entered from, and its context still says what is held.
func TestAMemberIsEnteredAgainFromTheLeaseThatIsLeft(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("a")
		outer := l.Lock(c.MultiLock(c.Mutex("/m"), c.Election("/e")).Lock)
		inner, err := c.Mutex("/m", recipes.WithReentrancy()).Lock(outer.Context())
		require.NoError(t, err)
		l.Unlock(outer)
		ctx, cancel := context.WithTimeout(inner.Context(), time.Minute)
		defer cancel()
		for _, again := range []taking{
			c.Mutex("/m", recipes.WithReentrancy()).Lock,
			c.Election("/e", recipes.WithReentrancy()).Campaign,
		} {
			x, err := again(ctx)
			require.NoError(t, err)
			require.Equal(t, inner.Token(), x.Token())
			l.Unlock(x)
		}
		_, err = c.MultiLock(c.Mutex("/m")).Lock(ctx)
		require.ErrorIs(t, err, recipes.ErrWouldDeadlock)
		l.Unlock(inner)
		l.NothingLeft()
	})
}

func TestVerifyAsksForEveryNodeThatIsHeld(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c := l.Client("a")
		for i, all := 0, 1; i < all; i++ {
			x := l.Lock(way.Take(c))
			l.Settle()
			all = len(x.Nodes())
			node := x.Nodes()[i]
			late := l.Srv.InjectEvent(func(e zktest.Event) bool { return e.Path == node }, zktest.DropEvent)
			require.NoError(t, l.Srv.Delete(node))
			err := x.Verify(t.Context())
			require.ErrorIs(t, err, recipes.ErrLost, "node %d", i)
			require.ErrorContains(t, err, node)
			require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
			late.Remove()
		}
		l.NothingLeft()
	})
}
