package inspect_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/internal/harness"
)

// look inspects the locks and puts the waits together.
func look(l *harness.Lab, paths ...string) *inspect.Waits {
	l.T.Helper()
	admin := l.Client("admin")
	var all []*inspect.Report
	for _, p := range paths {
		in, err := inspect.Lock(l.T.Context(), admin, p)
		require.NoError(l.T, err)
		all = append(all, in)
	}
	return inspect.WaitsFor(all...)
}

func TestTwoProgramsThatHoldWhatTheOtherWantsAreADeadlock(t *testing.T) {
	harness.InLab(t, func(t *testing.T, l *harness.Lab) {
		paths := l.Mutexes(3)
		a, b := l.Client("A"), l.Client("B")
		xa := l.Lock(a.Mutex(paths[0]).Lock)
		xb := l.Lock(b.Mutex(paths[1]).Lock)
		wa := l.Locking(a.Mutex(paths[1]))
		require.Empty(t, look(l, paths...).Deadlocks, "only one of them waits")
		ctx, cancel := context.WithCancel(context.Background())
		wb := l.Waiting(func(context.Context) (*recipes.Lease, error) { return b.Mutex(paths[0]).Lock(ctx) })
		// A third one waits for the circle, and is not in it; a fourth has nothing to do with it.
		wc := l.Locking(l.Client("C").Mutex(paths[0]))
		l.Lock(l.Client("D").Mutex(paths[2]).Lock)
		seen := look(l, paths...)
		require.Equal(t, []string{"deadlock: A holds /m0 and waits for /m1; B holds /m1 and waits for /m0"}, sorted(texts(seen)))
		require.Equal(t, l.SessionID(a), owner(seen.Deadlocks[0], "A"))
		require.Len(t, seen.All, 3)
		cancel()
		require.ErrorIs(t, (<-wb).Err, context.Canceled)
		l.Settle()
		require.Empty(t, look(l, paths...).Deadlocks, "one of them gave up")
		l.Unlock(xb)
		l.Unlock((<-wa).V)
		l.Unlock(xa)
		l.Unlock((<-wc).V)
	})
}

// sorted turns circles so that A begins them.
func sorted(texts []string) []string {
	for i, s := range texts {
		if s == "deadlock: B holds /m1 and waits for /m0; A holds /m0 and waits for /m1" {
			texts[i] = "deadlock: A holds /m0 and waits for /m1; B holds /m1 and waits for /m0"
		}
	}
	return texts
}

func owner(d inspect.Deadlock, who string) int64 {
	for _, s := range d {
		if s.Who == who {
			return s.Owner
		}
	}
	return 0
}

func set(c *recipes.Client, paths ...string) harness.Take {
	var members []recipes.Member
	for _, p := range paths {
		members = append(members, c.Mutex(p))
	}
	return c.MultiLock(members...).Lock
}

func TestMultiLocksThatWaitAreNoDeadlock(t *testing.T) {
	harness.InLab(t, func(t *testing.T, l *harness.Lab) {
		paths := l.Mutexes(3)
		x := l.Lock(l.Client("holder").Mutex(paths[0]).Lock)
		w1 := l.Waiting(set(l.Client("p"), paths[0], paths[1], paths[2]))
		w2 := l.Waiting(set(l.Client("q"), paths[2], paths[1], paths[0]))
		waits := look(l, paths...)
		require.NotEmpty(t, waits.All)
		require.Empty(t, waits.Deadlocks)
		l.Unlock(x)
		l.Unlock((<-w1).V)
		l.Unlock((<-w2).V)
	})
}
