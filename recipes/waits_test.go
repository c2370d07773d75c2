package recipes_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
)

// look inspects the locks and puts the waits together.
func (l *lab) look(paths ...string) *inspect.Waits {
	l.t.Helper()
	admin := l.client("admin")
	var all []*inspect.Report
	for _, p := range paths {
		in, err := inspect.Lock(l.t.Context(), admin, p)
		require.NoError(l.t, err)
		all = append(all, in)
	}
	return inspect.WaitsFor(all...)
}

// texts are the deadlocks as people read them.
func texts(w *inspect.Waits) []string {
	var out []string
	for _, d := range w.Deadlocks {
		out = append(out, d.String())
	}
	return out
}

func TestTwoProgramsThatHoldWhatTheOtherWantsAreADeadlock(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		paths := l.mutexes(3)
		a, b := l.client("A"), l.client("B")
		xa, err := a.Mutex(paths[0]).Lock(t.Context())
		require.NoError(t, err)
		xb, err := b.Mutex(paths[1]).Lock(t.Context())
		require.NoError(t, err)
		wa := l.locking(a.Mutex(paths[1]))
		require.Empty(t, l.look(paths...).Deadlocks, "only one of them waits")
		ctx, cancel := context.WithCancel(context.Background())
		wb := l.locker(func(context.Context) (*recipes.Lease, error) { return b.Mutex(paths[0]).Lock(ctx) })
		// A third one waits for the circle, and is not in it; a fourth has nothing to do with it.
		wc := l.locking(l.client("C").Mutex(paths[0]))
		_, err = l.client("D").Mutex(paths[2]).Lock(t.Context())
		require.NoError(t, err)
		seen := l.look(paths...)
		require.Equal(t, []string{"deadlock: A holds /m0 and waits for /m1; B holds /m1 and waits for /m0"}, sorted(texts(seen)))
		require.Equal(t, l.session(a), owner(seen.Deadlocks[0], "A"))
		require.Len(t, seen.All, 3)
		cancel()
		require.ErrorIs(t, (<-wb).err, context.Canceled)
		l.settle()
		require.Empty(t, l.look(paths...).Deadlocks, "one of them gave up")
		l.unlock(xb)
		l.unlock((<-wa).v)
		l.unlock(xa)
		l.unlock((<-wc).v)
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

func TestMultiLocksThatWaitAreNoDeadlock(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		paths := l.mutexes(3)
		x, err := l.client("holder").Mutex(paths[0]).Lock(t.Context())
		require.NoError(t, err)
		w1 := l.locker(multi(l.client("p"), paths[0], paths[1], paths[2]).Lock)
		w2 := l.locker(multi(l.client("q"), paths[2], paths[1], paths[0]).Lock)
		waits := l.look(paths...)
		require.NotEmpty(t, waits.All)
		require.Empty(t, waits.Deadlocks)
		l.unlock(x)
		l.unlock((<-w1).v)
		l.unlock((<-w2).v)
	})
}
