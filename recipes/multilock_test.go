package recipes_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// mutexes declares n mutexes.
func (l *lab) mutexes(n int) []string {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("/m%d", i)
		l.declare(paths[i], kind.Mutex.New())
	}
	return paths
}

func multi(c *recipes.Client, paths ...string) *recipes.MultiLock {
	members := make([]recipes.Member, len(paths))
	for i, p := range paths {
		members[i] = c.Mutex(p)
	}
	return c.MultiLock(members...)
}

func TestAMultiLockThatFailsLeavesNothing(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		paths := l.mutexes(3)
		x, err := l.client("holder").Mutex(paths[1]).Lock(t.Context())
		require.NoError(t, err)
		c := l.client("a")
		_, err = multi(c, paths...).TryLock(t.Context())
		var held *recipes.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, paths[1], held.Path)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		_, err = multi(c, paths...).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, time.Since(start), 10*time.Second+50*time.Millisecond, "one deadline for all members")
		l.settle()
		require.Empty(t, l.children(paths[0]))
		require.Len(t, l.children(paths[1]), 1)
		require.Empty(t, l.children(paths[2]))
		l.unlock(x)
		_, err = multi(c, paths[0], paths[0]).Lock(t.Context())
		require.ErrorIs(t, err, recipes.ErrWouldDeadlock)
	})
}

func TestAMultiLockIsNotGrantedWithAMemberThatWentWhileAnotherWasWaitedFor(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		paths := l.mutexes(2)
		x, err := l.client("holder").Mutex(paths[1]).Lock(t.Context())
		require.NoError(t, err)
		w := l.locker(multi(l.client("a"), paths...).Lock)
		require.NoError(t, l.srv.Delete(l.queue(paths[0])[0]))
		l.settle()
		l.unlock(x)
		r := <-w
		require.ErrorIs(t, r.err, recipes.ErrLost)
		l.settle()
		require.Empty(t, l.children(paths[1]))
	})
}

// A lease entered again outlives the one it was entered from, and its context still says what is held.
func TestAMemberIsEnteredAgainFromTheLeaseThatIsLeft(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		c := l.client("a")
		outer, err := c.MultiLock(c.Mutex("/m"), c.Election("/e")).Lock(t.Context())
		require.NoError(t, err)
		inner, err := c.Mutex("/m", recipes.WithReentrancy()).Lock(outer.Context())
		require.NoError(t, err)
		l.unlock(outer)
		ctx, cancel := context.WithTimeout(inner.Context(), time.Minute)
		defer cancel()
		for _, again := range []func(context.Context) (*recipes.Lease, error){
			c.Mutex("/m", recipes.WithReentrancy()).Lock,
			func(ctx context.Context) (*recipes.Lease, error) {
				l, err := c.Election("/e", recipes.WithReentrancy()).Campaign(ctx)
				if err != nil {
					return nil, err
				}
				return l, nil
			},
		} {
			x, err := again(ctx)
			require.NoError(t, err)
			require.Equal(t, inner.Token(), x.Token())
			l.unlock(x)
		}
		_, err = c.MultiLock(c.Mutex("/m")).Lock(ctx)
		require.ErrorIs(t, err, recipes.ErrWouldDeadlock)
		l.unlock(inner)
		l.nothingLeft()
	})
}

func TestVerifyAsksForEveryNodeThatIsHeld(t *testing.T) {
	for name, lock := range map[string]func(context.Context, *recipes.Client) (*recipes.Lease, error){
		"set": func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) { return mixed(c).Lock(ctx) },
		"permits": func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
			return c.Semaphore("/s").Acquire(ctx, 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.everyKind()
				c := l.client("a")
				for i := 0; ; i++ {
					x, err := lock(t.Context(), c)
					require.NoError(t, err)
					l.settle()
					if i == len(x.Nodes()) {
						l.unlock(x)
						break
					}
					node := x.Nodes()[i]
					late := l.srv.InjectEvent(func(e zktest.Event) bool { return e.Path == node }, zktest.DropEvent)
					require.NoError(t, l.srv.Delete(node))
					err = x.Verify(t.Context())
					require.ErrorIs(t, err, recipes.ErrLost, "node %d", i)
					require.ErrorContains(t, err, node)
					require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
					late.Remove()
				}
				l.nothingLeft()
			})
		})
	}
}
