package recipes

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

// look inspects the locks and puts the waits together.
func (l *lab) look(paths ...string) *Waits {
	l.t.Helper()
	admin := l.client("admin")
	var all []*Inspection
	for _, p := range paths {
		in, err := admin.Inspect(l.t.Context(), p)
		require.NoError(l.t, err)
		all = append(all, in)
	}
	return WaitsFor(all...)
}

// texts are the deadlocks as people read them.
func (w *Waits) texts() []string {
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
		wb := l.locker(func(context.Context) (*Lease, error) { return b.Mutex(paths[0]).Lock(ctx) })
		// A third one waits for the circle, and is not in it; a fourth has nothing to do with it.
		wc := l.locking(l.client("C").Mutex(paths[0]))
		_, err = l.client("D").Mutex(paths[2]).Lock(t.Context())
		require.NoError(t, err)
		seen := l.look(paths...)
		require.Equal(t, []string{"deadlock: A holds /m0 waits /m1, B holds /m1 waits /m0"}, sorted(seen.texts()))
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
		if s == "deadlock: B holds /m1 waits /m0, A holds /m0 waits /m1" {
			texts[i] = "deadlock: A holds /m0 waits /m1, B holds /m1 waits /m0"
		}
	}
	return texts
}

func owner(d Deadlock, who string) int64 {
	for _, s := range d {
		if s.Who == who {
			return s.Owner
		}
	}
	return 0
}

// sketch builds an Inspection by hand: session numbers, readers negative.
func sketch(path string, k *kind.Kind, holders, waiters []int64) *Inspection {
	list := func(all []int64) []Contender {
		var out []Contender
		for _, s := range all {
			out = append(out, Contender{Path: path + "/x", Session: max(s, -s), Shared: s < 0, ID: string(rune('A' + max(s, -s) - 1))})
		}
		return out
	}
	return &Inspection{Path: path, Kind: k, Holders: list(holders), Waiters: list(waiters)}
}

func TestWhatIsADeadlockAndWhatOnlyLooksLikeOne(t *testing.T) {
	m, rw, sem := kind.Mutex, kind.RWLock, kind.Semaphore
	type ids = []int64
	for name, c := range map[string]struct {
		locks []*Inspection
		want  []string
	}{
		"nothing":                    {nil, nil},
		"a queue":                    {[]*Inspection{sketch("/x", m, ids{1}, ids{2, 3, 4})}, nil},
		"a chain":                    {[]*Inspection{sketch("/x", m, ids{1}, ids{2}), sketch("/y", m, ids{2}, ids{3}), sketch("/z", m, ids{3}, ids{4})}, nil},
		"the same order":             {[]*Inspection{sketch("/x", m, ids{1}, ids{2}), sketch("/y", m, ids{1}, ids{2})}, nil},
		"three in a circle":          {[]*Inspection{sketch("/x", m, ids{1}, ids{3}), sketch("/y", m, ids{2}, ids{1}), sketch("/z", m, ids{3}, ids{2})}, []string{"deadlock: C holds /z waits /x, A holds /x waits /y, B holds /y waits /z"}},
		"two circles":                {[]*Inspection{sketch("/a", m, ids{1}, ids{2}), sketch("/b", m, ids{2}, ids{1}), sketch("/c", m, ids{3}, ids{4}), sketch("/d", m, ids{4}, ids{3})}, []string{"deadlock: B holds /b waits /a, A holds /a waits /b", "deadlock: D holds /d waits /c, C holds /c waits /d"}},
		"readers beside readers":     {[]*Inspection{sketch("/x", rw, ids{-1, -2}, ids{}), sketch("/y", rw, ids{2}, ids{-1})}, nil},
		"reader behind its own":      {[]*Inspection{sketch("/x", rw, ids{-1}, ids{1})}, nil},
		"a writer between readers":   {[]*Inspection{sketch("/x", rw, ids{-1}, ids{2, -3}), sketch("/y", m, ids{3}, ids{1})}, []string{"deadlock: B is ahead in /x waits /x, A holds /x waits /y, C holds /y waits /x"}},
		"readers of each other":      {[]*Inspection{sketch("/x", rw, ids{-1}, ids{2}), sketch("/y", rw, ids{-2}, ids{1})}, []string{"deadlock: B holds /y waits /x, A holds /x waits /y"}},
		"one permit will come":       {[]*Inspection{sketch("/s", sem, ids{1, 3}, ids{2}), sketch("/y", m, ids{2}, ids{1})}, nil},
		"no permit will come":        {[]*Inspection{sketch("/s", sem, ids{1, 3}, ids{2}), sketch("/y", m, ids{2}, ids{1, 3})}, []string{"deadlock: B holds /y waits /s, A holds /s waits /y"}},
		"behind one that is blocked": {[]*Inspection{sketch("/x", m, ids{1}, ids{2, 3}), sketch("/y", m, ids{3}, ids{2})}, []string{"deadlock: B is ahead in /x waits /y, C holds /y waits /x"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, WaitsFor(c.locks...).texts())
		})
	}
}

func TestUnnamedPartiesOfADeadlockAreCalledByWhatIsKnown(t *testing.T) {
	x, y := sketch("/x", kind.Mutex, []int64{0x1a}, []int64{0x2b}), sketch("/y", kind.Mutex, []int64{0x2b}, []int64{0x1a})
	for _, cs := range [][]Contender{x.Holders, x.Waiters, y.Holders, y.Waiters} {
		cs[0].ID = ""
	}
	require.Equal(t, []string{"deadlock: session 0x2b holds /y waits /x, session 0x1a holds /x waits /y"}, WaitsFor(x, y).texts())
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
