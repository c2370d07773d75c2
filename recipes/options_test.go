package recipes

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

// WithCreate made the node, and then found that it could not be used.
func TestWithCreateLooksAtTheParametersBeforeItCreates(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("c")
		_, err := c.Mutex("/a/b/wrong-kind", WithParams(kind.RWLock.New()), WithCreate()).Lock(t.Context())
		require.ErrorIs(t, err, ErrKindMismatch)
		_, err = c.Semaphore("/a/none", WithParams(&kind.SemaphoreParams{}), WithCreate()).Acquire(t.Context(), 1)
		require.ErrorContains(t, err, `recipes: semaphore /a/none: parameter "permits": 0 is out of range`)
		_, err = c.MultiLock(c.Mutex("/a/m", WithParams(kind.Mutex.New()), WithCreate()),
			c.Semaphore("/a/s", WithParams(&kind.SemaphoreParams{Permits: -1}), WithCreate())).Lock(t.Context())
		require.ErrorContains(t, err, "recipes: semaphore /a/s: ")
		_, there := l.srv.Get("/a")
		require.False(t, there)
	})
}

func TestWhatParametersLeaveOutIsDefault(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("c")
		brought := &kind.SemaphoreParams{Permits: 3}
		m := c.Semaphore("/s", WithParams(brought), WithCreate())
		brought.Permits = 1 // the handle has what it was given
		x, err := m.Acquire(t.Context(), 3)
		require.NoError(t, err)
		l.unlock(x)
		y, err := c.RWMutex("/rw", WithParams(&kind.RWLockParams{}), WithCreate()).RLock(t.Context())
		require.NoError(t, err)
		l.unlock(y)
		for leader, err := range c.Election("/e", WithParams(&kind.ElectionParams{}), WithCreate()).Observe(t.Context()) {
			require.NoError(t, err)
			require.Empty(t, leader.Name)
			break
		}
		require.Equal(t, &kind.SemaphoreParams{Permits: 1}, brought)
	})
}

// What stood in the way was a panic, or an error that did not say which option was missing.
func TestAHandleThatWasMadeWronglySaysWhatIsWrong(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("c")
		require.NoError(t, l.srv.Create("/bare", nil))
		for want, lock := range map[string]func(context.Context) (*Lease, error){
			"recipes: mutex /m: an option is nil; leave it out":                                                                 c.Mutex("/m", nil).Lock,
			"recipes: rwlock /m: an option is nil; leave it out":                                                                c.RWMutex("/m", WithID("a"), nil).TryRLock,
			"recipes: mutex /m: the parameters are nil":                                                                         c.Mutex("/m", WithParams((*kind.MutexParams)(nil))).Lock,
			"recipes: mutex /: the root of the tree is no lock; name a node below":                                              c.Mutex("/").TryLock,
			`recipes: rwlock m: the path "m" must start with a slash`:                                                           c.RWMutex("m").RLock,
			"recipes: multi-lock: a member is nil":                                                                              c.MultiLock(c.Mutex("/m"), nil).Lock,
			"recipes: multi-lock: a member is nil ":                                                                             c.MultiLock((*Semaphore)(nil)).TryLock,
			"recipes: mutex /: the root of the tree is no lock; name a node below ":                                             c.MultiLock(c.Mutex("/")).Lock,
			"run apply, or say with WithParams what WithCreate is to make":                                                      c.Mutex("/m", WithCreate()).Lock,
			"run apply, or let WithCreate make it with those parameters":                                                        c.Mutex("/m", WithParams(kind.Mutex.New())).Lock,
			"/bare carries no declaration this program can read; declare it and run apply, or bring parameters with WithParams": c.Mutex("/bare", WithCreate()).Lock,
		} {
			_, err := lock(t.Context())
			require.ErrorContains(t, err, strings.TrimSpace(want))
		}
		for _, err := range c.Election("/").Observe(t.Context()) {
			require.ErrorContains(t, err, "the root of the tree is no lock")
		}
		require.Zero(t, l.srv.Counts().ByOp["create"])
	})
}
