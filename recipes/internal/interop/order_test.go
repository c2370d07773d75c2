//go:build linux

package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// order proves that programs of all three languages are served in the order of their sequence numbers.
func (l *realLab) order(t *testing.T) {
	goM, javaM, pythonM := mutexes.parties[0], mutexes.parties[1], mutexes.parties[2]
	t.Run("mutex", func(t *testing.T) {
		l.queue(t, l.provision(t, mutexes.declare(kind.WireCurator)), []party{goM, javaM, pythonM, javaM, goM, goM, pythonM, pythonM, javaM, javaM, goM},
			[]int{0}, []int{1}, []int{2}, []int{3}, []int{4}, []int{5}, []int{6}, []int{7}, []int{8}, []int{9}, []int{10})
	})
	goK, kazoo, goZK := mutexes.parties[4], mutexes.parties[5], mutexes.parties[3]
	t.Run("mutex of kazoo's wire", func(t *testing.T) {
		l.queue(t, l.provision(t, mutexes.declare(kind.WireKazoo)), []party{kazoo, goK, goZK, goK, kazoo, kazoo, goK},
			[]int{0}, []int{1}, []int{2}, []int{3}, []int{4}, []int{5}, []int{6})
	})
	r, w := func(i int) party { return rwlocks.parties[2*i] }, func(i int) party { return rwlocks.parties[2*i+1] }
	t.Run("readers do not pass writers", func(t *testing.T) {
		l.queue(t, l.provision(t, rwlocks.declare(kind.WireCurator)),
			[]party{w(0), r(1), r(2), w(0), r(0), w(1), w(2), r(2), r(0), r(1), w(0)},
			[]int{0}, []int{1, 2}, []int{3}, []int{4}, []int{5}, []int{6}, []int{7, 8, 9}, []int{10})
	})
	g, c, k := elections.parties[0], elections.parties[1], elections.parties[2]
	t.Run("election", func(t *testing.T) {
		l.queue(t, l.provision(t, elections.declare(kind.WireCurator)), []party{c, g, k, c, k, g, g, c},
			[]int{0}, []int{1}, []int{2}, []int{3}, []int{4}, []int{5}, []int{6}, []int{7})
	})
}

// queue lets the parties queue up one after the other and leave again. groups are those that hold together, in order:
// when a group holds, nobody of a later one does.
func (l *realLab) queue(t *testing.T, path string, parties []party, groups ...[]int) {
	ctx := within(t, 2*patience)
	type member struct {
		*entry
		node    string
		granted <-chan error
	}
	var line []member
	for i, p := range parties {
		m := member{entry: p.enter(t, l, path)}
		m.granted = l.request(ctx, m.entry)
		children := l.awaitContenders(t, path, i+1)
		m.node = children[i] // the newest: the others were in line before
		line = append(line, m)
	}
	for g, group := range groups {
		for _, i := range group {
			select {
			case err := <-line[i].granted:
				require.NoError(t, err, "%s, place %d", parties[i].name, i)
			case <-time.After(patience):
				t.Fatalf("%s at place %d has the lock and does not know", parties[i].name, i)
			}
		}
		for _, later := range groups[g+1:] {
			for _, i := range later {
				stillWaits(t, ctx, line[i].entry, line[i].granted)
			}
		}
		for _, i := range group {
			require.Contains(t, l.contenders(t, path), line[i].node)
			require.NoError(t, line[i].release(ctx))
		}
	}
	l.awaitContenders(t, path, 0)
}

// together: a multi-lock of ours among programs that take its members one at a time.
func (l *realLab) together(t *testing.T) {
	ctx := within(t, patience)
	a, b, rw := l.provision(t, mutexes.declare(kind.WireCurator)), l.provision(t, mutexes.declare(kind.WireKazoo)), l.provision(t, rwlocks.declare(kind.WireCurator))
	java, kazoo, reader := mutexes.parties[1], mutexes.parties[5], rwlocks.parties[4]
	before := []*entry{java.enter(t, l, a), kazoo.enter(t, l, b), reader.enter(t, l, rw)}
	for _, e := range before {
		require.NoError(t, e.acquire(ctx))
	}
	all := ours("go", "", func(c *recipes.Client, _ string) goLock {
		m := c.MultiLock(c.Mutex(a), c.Mutex(b), c.RWMutex(rw))
		return goLock{m.Lock, m.TryLock}
	}).enter(t, l, "")
	require.True(t, isHeld(all.try(ctx)))
	granted := l.request(ctx, all)
	after := []*entry{java.enter(t, l, a), kazoo.enter(t, l, b), reader.enter(t, l, rw)}
	later := make([]<-chan error, len(after))
	for i, path := range []string{a, b, rw} {
		l.awaitContenders(t, path, 2)
		later[i] = l.request(ctx, after[i])
		ours := l.awaitContenders(t, path, 3)[1]
		l.awaitWatch(t, after[i].session, kind.JoinPath(path, ours))
	}
	for i, e := range before {
		stillWaits(t, ctx, all, granted)
		stillWaits(t, ctx, after[i], later[i])
		require.NoError(t, e.release(ctx))
	}
	require.NoError(t, <-granted)
	for i, e := range after {
		stillWaits(t, ctx, e, later[i])
	}
	require.NoError(t, all.release(ctx))
	for i, e := range after {
		require.NoError(t, <-later[i])
		require.NoError(t, e.release(ctx))
	}
}
