package inspect_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
)

// texts are the deadlocks as people read them.
func texts(w *inspect.Waits) []string {
	var out []string
	for _, d := range w.Deadlocks {
		out = append(out, d.String())
	}
	return out
}

// sketch builds a Report by hand: session numbers, readers negative.
func sketch(path string, k *kind.Kind, holders, waiters []int64) *inspect.Report {
	list := func(all []int64) []inspect.Contender {
		var out []inspect.Contender
		for _, s := range all {
			out = append(out, inspect.Contender{Path: path + "/x", Session: max(s, -s), Shared: s < 0, ID: string(rune('A' + max(s, -s) - 1))})
		}
		return out
	}
	return &inspect.Report{Path: path, Kind: k, Holders: list(holders), Waiters: list(waiters)}
}

func TestWhatIsADeadlockAndWhatOnlyLooksLikeOne(t *testing.T) {
	m, rw, sem := kind.Mutex, kind.RWLock, kind.Semaphore
	type ids = []int64
	for name, c := range map[string]struct {
		locks []*inspect.Report
		want  []string
	}{
		"nothing":                    {nil, nil},
		"a queue":                    {[]*inspect.Report{sketch("/x", m, ids{1}, ids{2, 3, 4})}, nil},
		"a chain":                    {[]*inspect.Report{sketch("/x", m, ids{1}, ids{2}), sketch("/y", m, ids{2}, ids{3}), sketch("/z", m, ids{3}, ids{4})}, nil},
		"the same order":             {[]*inspect.Report{sketch("/x", m, ids{1}, ids{2}), sketch("/y", m, ids{1}, ids{2})}, nil},
		"three in a circle":          {[]*inspect.Report{sketch("/x", m, ids{1}, ids{3}), sketch("/y", m, ids{2}, ids{1}), sketch("/z", m, ids{3}, ids{2})}, []string{"deadlock: C holds /z and waits for /x; A holds /x and waits for /y; B holds /y and waits for /z"}},
		"two circles":                {[]*inspect.Report{sketch("/a", m, ids{1}, ids{2}), sketch("/b", m, ids{2}, ids{1}), sketch("/c", m, ids{3}, ids{4}), sketch("/d", m, ids{4}, ids{3})}, []string{"deadlock: B holds /b and waits for /a; A holds /a and waits for /b", "deadlock: D holds /d and waits for /c; C holds /c and waits for /d"}},
		"readers beside readers":     {[]*inspect.Report{sketch("/x", rw, ids{-1, -2}, ids{}), sketch("/y", rw, ids{2}, ids{-1})}, nil},
		"reader behind its own":      {[]*inspect.Report{sketch("/x", rw, ids{-1}, ids{1})}, nil},
		"a writer between readers":   {[]*inspect.Report{sketch("/x", rw, ids{-1}, ids{2, -3}), sketch("/y", m, ids{3}, ids{1})}, []string{"deadlock: B is ahead in /x and waits for /x; A holds /x and waits for /y; C holds /y and waits for /x"}},
		"readers of each other":      {[]*inspect.Report{sketch("/x", rw, ids{-1}, ids{2}), sketch("/y", rw, ids{-2}, ids{1})}, []string{"deadlock: B holds /y and waits for /x; A holds /x and waits for /y"}},
		"one permit will come":       {[]*inspect.Report{sketch("/s", sem, ids{1, 3}, ids{2}), sketch("/y", m, ids{2}, ids{1})}, nil},
		"no permit will come":        {[]*inspect.Report{sketch("/s", sem, ids{1, 3}, ids{2}), sketch("/y", m, ids{2}, ids{1, 3})}, []string{"deadlock: B holds /y and waits for /s; A holds /s and waits for /y"}},
		"a chain, its end first":     {[]*inspect.Report{sketch("/z", m, ids{3}, ids{4}), sketch("/y", m, ids{2}, ids{3}), sketch("/x", m, ids{1}, ids{2})}, nil},
		"a third before a circle":    {[]*inspect.Report{sketch("/w", m, ids{1}, ids{3}), sketch("/x", m, ids{1}, ids{2}), sketch("/y", m, ids{2}, ids{1})}, []string{"deadlock: A holds /x and waits for /y; B holds /y and waits for /x"}},
		"behind one that is blocked": {[]*inspect.Report{sketch("/x", m, ids{1}, ids{2, 3}), sketch("/y", m, ids{3}, ids{2})}, []string{"deadlock: B is ahead in /x and waits for /y; C holds /y and waits for /x"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, texts(inspect.WaitsFor(c.locks...)))
		})
	}
}

func TestUnnamedPartiesOfADeadlockAreCalledByWhatIsKnown(t *testing.T) {
	x, y := sketch("/x", kind.Mutex, []int64{0x1a}, []int64{0x2b}), sketch("/y", kind.Mutex, []int64{0x2b}, []int64{0x1a})
	for _, cs := range [][]inspect.Contender{x.Holders, x.Waiters, y.Holders, y.Waiters} {
		cs[0].ID = ""
	}
	require.EqualValues(t, 0x2b, inspect.WaitsFor(x, y).Deadlocks[0][0].Owner)
	require.Equal(t, []string{"deadlock: session 0x2b holds /y and waits for /x; session 0x1a holds /x and waits for /y"}, texts(inspect.WaitsFor(x, y)))
}

func TestMultiLocksThatWaitAreNoDeadlock(t *testing.T) {
	harness.InLab(t, func(t *testing.T, l *harness.Lab) {
		paths := l.Mutexes(3)
		set := func(id string, order ...int) <-chan harness.Result[*recipes.Lease] {
			c := l.Client(id)
			return l.Waiting(c.MultiLock(c.Mutex(paths[order[0]]), c.Mutex(paths[order[1]]), c.Mutex(paths[order[2]])).Lock)
		}
		x := l.Lock(l.Client("holder").Mutex(paths[0]).Lock)
		first, second := set("p", 0, 1, 2), set("q", 2, 1, 0)
		waits := inspect.WaitsFor(look(l, paths[0]), look(l, paths[1]), look(l, paths[2]))
		require.NotEmpty(t, waits.All)
		require.Empty(t, waits.Deadlocks)
		l.Unlock(x)
		l.Unlock(l.Got(first))
		l.Unlock(l.Got(second))
	})
}
