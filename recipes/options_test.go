package recipes_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// WithCreate made the node, and then found that it could not be used.
func TestWithCreateLooksAtTheParametersBeforeItCreates(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("c")
		l.Refused(c.Mutex("/a/b/wrong-kind", recipes.WithParams(kind.RWLock.New()), recipes.WithCreate()).Lock, recipes.ErrKindMismatch)
		_, err := c.Semaphore("/a/none", recipes.WithParams(&kind.SemaphoreParams{}), recipes.WithCreate()).Acquire(t.Context(), 1)
		require.ErrorContains(t, err, `recipes: semaphore /a/none: parameter "permits": 0 is out of range`)
		_, err = c.MultiLock(c.Mutex("/a/m", recipes.WithParams(kind.Mutex.New()), recipes.WithCreate()),
			c.Mutex("/a/wrong", recipes.WithParams(kind.RWLock.New()), recipes.WithCreate())).Lock(t.Context())
		require.ErrorContains(t, err, "recipes: mutex /a/wrong: ")
		_, there := l.Srv.Get("/a")
		require.False(t, there)
	})
}

// What a handle's parameters make of a node without a declaration is kept for its next call, and for no other handle's.
func TestHandlesOfOneNodeHaveTheirOwnParameters(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("c")
		curators := c.Mutex("/m", recipes.WithParams(&kind.MutexParams{}), recipes.WithCreate())
		kazoos := c.Mutex("/m", recipes.WithParams(&kind.MutexParams{Common: kind.Common{Wire: kind.WireKazoo}}), recipes.WithCreate())
		for range 2 {
			x := l.Lock(curators.Lock)
			require.Contains(t, x.Node(), "-lock-")
			l.Unlock(x)
			y := l.Lock(kazoos.Lock)
			require.Contains(t, y.Node(), "__lock__")
			l.Unlock(y)
		}
	})
}

func TestWhatParametersLeaveOutIsDefault(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("c")
		brought := &kind.SemaphoreParams{Permits: 3}
		m := c.Semaphore("/s", recipes.WithParams(brought), recipes.WithCreate())
		brought.Permits = 1 // the handle has what it was given
		l.Unlock(l.Lock(permits(m, 3)))
		l.Unlock(l.Lock(c.RWMutex("/rw", recipes.WithParams(&kind.RWLockParams{}), recipes.WithCreate()).RLock))
		for leader, err := range c.Election("/e", recipes.WithParams(&kind.ElectionParams{}), recipes.WithCreate()).Observe(t.Context()) {
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
		c := l.Client("c")
		require.NoError(t, l.Srv.Create("/bare", nil))
		for want, lock := range map[string]taking{
			"recipes: mutex /m: an option is nil; leave it out":                                                 c.Mutex("/m", nil).Lock,
			"recipes: rwlock /m: an option is nil; leave it out":                                                c.RWMutex("/m", recipes.WithID("a"), nil).TryRLock,
			"recipes: mutex /m: the parameters are nil":                                                         c.Mutex("/m", recipes.WithParams((*kind.MutexParams)(nil))).Lock,
			"recipes: mutex /: the root of the tree is no lock; name a node below":                              c.Mutex("/").TryLock,
			`recipes: rwlock: the path "m" must start with a slash`:                                             c.RWMutex("m").RLock,
			`recipes: mutex: the path "/a\nb" is not legal`:                                                     c.Mutex("/a\nb").Lock,
			"recipes: multi-lock: a member is nil":                                                              c.MultiLock(c.Mutex("/m"), nil).Lock,
			"recipes: multi-lock: a member is nil ":                                                             c.MultiLock((*recipes.Mutex)(nil)).TryLock,
			"recipes: mutex /: the root of the tree is no lock; name a node below ":                             c.MultiLock(c.Mutex("/")).Lock,
			"run apply; WithCreate also needs WithParams":                                                       c.Mutex("/m", recipes.WithCreate()).Lock,
			"run apply, or let WithCreate make it with those parameters":                                        c.Mutex("/m", recipes.WithParams(kind.Mutex.New())).Lock,
			"/bare has no declaration that this program can read; declare it and run apply, or pass WithParams": c.Mutex("/bare", recipes.WithCreate()).Lock,
		} {
			_, err := lock(t.Context())
			require.ErrorContains(t, err, strings.TrimSpace(want))
		}
		for _, err := range c.Election("/").Observe(t.Context()) {
			require.ErrorContains(t, err, "the root of the tree is no lock")
		}
		require.Zero(t, l.Srv.Counts().ByOp["create"])
		l.Srv.ResetCounts()
		_, _, err := c.Election("/").Leader(t.Context()) // it listed the root, and said that nobody leads
		require.ErrorContains(t, err, "the root of the tree is no lock")
		require.Empty(t, l.requests())
		x := l.Lock(c.RWMutex(l.RWLock()).Lock)
		_, err = c.RWMutex("/rw", nil).Downgrade(t.Context(), x) // it exchanged the lease
		require.ErrorContains(t, err, "an option is nil")
		l.Unlock(x)
	})
}
