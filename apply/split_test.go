package apply_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// The servers read less than the default: they end the connection without a word.
// Halves are sent, then halves of these, and what had been sent stands.
func TestTransactionTheServersDoNotReadIsHalved(t *testing.T) {
	for name, frame := range map[string]int{"one transaction": 250_000, "two": 500_000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { halved(t, inMemory(t, zktest.WithMaxFrame(frame)), frame) })
		})
	}
}

func halved(t *testing.T, s *site, frame int) {
	c := s.provisioner()
	n := map[bool]int{true: 26, false: 44}[frame < 300_000]
	tree := s.tree(append(bulk(n, 280, "x"), declare("/zz", kind.Semaphore))...)
	p := s.plan(c, tree)
	require.Equal(t, n > 30, len(p.Batches) > 1)
	var ev events
	x := executor(c, ev.add)
	res, err := x.Run(t.Context(), p)
	require.NoError(t, err)
	require.Greater(t, res.Transactions, max(1, len(p.Batches)))
	started := map[string]int{}
	for _, e := range ev {
		switch e := e.(type) {
		case event.Committed:
			require.LessOrEqual(t, e.Bytes, frame)
			require.LessOrEqual(t, e.Batch, e.Batches)
		case event.Started:
			started[string(e.Addr)]++
		case event.Failed:
			t.Errorf("%s failed: %v", e.Addr, e.Err)
		}
	}
	require.Len(t, started, len(tree.Nodes))
	for addr, n := range started {
		require.Equal(t, 1, n, addr)
	}
	require.Equal(t, res.Transactions, find[event.Committed](ev).Batches)
	s.converges(c, tree, plan.Options{})
}

// A stack grows lock by lock on servers that read less than the default: one more fits.
func TestAStackThatGrowsIsNeverTooLargeForServersThatReadLess(t *testing.T) {
	for frame, from := range map[int]int{80_000: 10, 200_000: 40} { // locks of 4 kB each
		t.Run(strconv.Itoa(frame), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { growing(t, inMemory(t, zktest.WithMaxFrame(frame)), from, from+24) })
		})
	}
}

func growing(t *testing.T, s *site, from, to int) {
	c := s.provisioner()
	step := 4 // so that one transaction of one node is enough
	for n := 2; n <= to; n += step {
		if n >= from {
			step = 1
		}
		p := s.plan(c, s.tree(longNames(0, n)...))
		require.True(t, p.Applyable(), "%s", p)
		s.runs(c, p)
	}
	one := s.tree(longNames(0, to)...)
	set("description", "changed")(one.Nodes[from])
	s.converges(c, one, plan.Options{})
}

// One lock is longer than the servers read: nothing can be cut, and the error says
// what the servers are set to. What stood before it in the plan is there.
func TestLockTheServersDoNotReadIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := provisioned(t, zktest.WithMaxFrame(60_000))
		long := declare("/long", kind.Mutex)
		long.Payload.ChildACL = append(long.Payload.ChildACL, kind.ACL{Scheme: "digest", ID: "x:" + strings.Repeat("A", 80_000), Perms: kind.PermRead})
		tree := s.tree(declare("/a", kind.Mutex), long, declare("/z", kind.Mutex))
		p := s.plan(c, tree)
		require.True(t, p.Applyable())
		var failed []event.Failed
		x := executor(c, on(func(e event.Failed) { failed = append(failed, e) }))
		_, err := x.Run(t.Context(), p)
		e := errorAs[*failure.TooLargeError](t, err)
		require.True(t, e.Refused)
		require.EqualValues(t, "long.mutex", e.Addr)
		require.ErrorContains(t, err, "jute.maxbuffer")
		partial := errorAs[*failure.PartialError](t, err)
		require.Equal(t, 1, partial.Done)
		require.Len(t, failed, 1)
		_, there := s.server.Get(s.root + "/a")
		require.True(t, there)
		require.Len(t, s.plan(c, s.tree(declare("/a", kind.Mutex))).Changes, 1, "nothing else is there")
	})
}
