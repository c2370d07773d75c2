package view_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// seen is a look that finds what a tree has.
func seen(ensemble string, nodes ...*plan.Node) view.LocksOf {
	snap := &inspect.Snapshot{At: time.UnixMilli(now), Waits: inspect.WaitsFor(), Sessions: map[int64]*inspect.Session{}}
	for _, n := range nodes {
		in := &inspect.Report{Path: n.Path, Kind: n.Kind(), Payload: n.Payload}
		if u := n.Live.Usage; u != nil {
			in.Holders, in.Waiters = at(n.Path, u.Holders), at(n.Path, u.Waiters)
		}
		snap.Locks = append(snap.Locks, in)
	}
	return view.LocksOf{Ensemble: ensemble, Snapshot: snap}
}

func top(ensembles ...view.LocksOf) view.Top {
	return view.Top{Locks: view.Locks{Ensembles: ensembles, NowMs: now}}
}

func TestTop(t *testing.T) {
	used := func(path string, params kind.Params, holders, waiters int) *plan.Node {
		n := node("x", path, params)
		n.Live.Usage = &kind.Usage{}
		for i := range holders + waiters {
			h := kind.Party{Name: "_c_1-lock-000000000" + string(rune('0'+i)), ID: "host\x1b[31m", Token: uint64(70 + i), Since: time.UnixMilli(now - int64(1000*(90-i)))}
			if i < holders {
				n.Live.Usage.Holders = append(n.Live.Usage.Holders, h)
			} else {
				n.Live.Usage.Waiters = append(n.Live.Usage.Waiters, h)
			}
		}
		return n
	}
	main := seen("main", used("/locks/a", kind.Mutex.New(), 1, 0), used("/locks/b", semaphore(3), 3, 2), used("/locks/idle", kind.Mutex.New(), 0, 0))
	spare := seen("spare", used("/locks/c", kind.Election.New(), 0, 1))
	main.Waits = inspect.WaitsFor(crossed()...)
	v, out, _ := capture(nil)
	v.Show(top(main, spare))
	out.WriteString("===\n")
	main.Waits = inspect.WaitsFor()
	main.Error = view.Reason(errors.New("recipes: connection lost"))
	stale := view.NewTop([]view.LocksOf{main}, time.UnixMilli(now+35_000))
	stale.Lines = 7
	v.Show(stale)
	out.WriteString("===\n")
	main.Error = ""
	v.Show(top(main, view.LocksOf{Ensemble: "spare", Error: "No answer yet."}))
	out.WriteString("===\n")
	anybody := seen("environment")
	anybody.Path, anybody.Locks, anybody.Cut, anybody.Pending = "/locks", crossed(), true, 7
	anybody.Unread = []inspect.Unread{{Path: "/locks/private", Err: zk.ErrNoAuth}, {Path: "/locks/gone", Err: zk.ErrNoNode}}
	anybody.Sessions[2] = &inspect.Session{ID: 2, Away: true, Expires: anybody.At.Add(8 * time.Second)}
	anybody.Sessions[1] = &inspect.Session{ID: 1, Address: "10.0.0.7:40822", Timeout: 30 * time.Second, Silent: 21 * time.Second, Expires: anybody.At.Add(9 * time.Second)}
	v.Show(top(anybody))
	anybody.Sessions[1].Silent = 20 * time.Second
	require.False(t, anybody.Sight(recipes.Contender{Session: 1}, anybody.At).Away(), "one that has lost its server, and looks for the next one")
	golden(t, "top.txt", out.String())
	require.NotContains(t, out.String(), "\x1b")
}

// Of a thousand holders that are cut off, the first three are named: the locks are what the screen is for.
func TestTopNamesAFewOfTheHoldersThatAreCutOff(t *testing.T) {
	found := seen("main")
	for i := range int64(1000) {
		path := fmt.Sprintf("/locks/%03d", i)
		found.Locks = append(found.Locks, &inspect.Report{Path: path, Kind: kind.Mutex, Holders: []recipes.Contender{party(path, "A", i+1)}})
		found.Sessions[i+1] = &inspect.Session{ID: i + 1, Away: true}
	}
	many := top(found)
	many.Lines = 24
	v, out, _ := capture(nil)
	v.Show(many)
	require.Equal(t, 23, strings.Count(out.String(), "\n"), "one is left for the cursor")
	require.Contains(t, out.String(), "A holds /locks/002: since 2027-01-15T08:00:00Z (1m30s), connected to no server that was asked; when its session ends is not known\n997 more holders are cut off or silent\n")
	require.Contains(t, out.String(), "/locks/014  A ")
	require.Contains(t, out.String(), "and 985 more\n")
}

// pool is a semaphore of 12 permits: gw holds 7 of them, and gw2 waits for 7.
func pool() *plan.Node {
	n := node("semaphore.pool", "/locks/payments/pool", semaphore(12))
	n.Live.Usage = &kind.Usage{Waiters: []kind.Party{
		{Name: "_c_9-lock-0000000009", ID: "gw2", Session: 0x2, Token: 4294967390, Since: time.UnixMilli(now - 30_000), Permits: 7}}}
	for i := range 7 {
		n.Live.Usage.Holders = append(n.Live.Usage.Holders, kind.Party{Name: fmt.Sprintf("_c_%d-lease-%010d", i, i), ID: "gw", Session: 0x1,
			Token: 4294967301, Since: time.UnixMilli(now - 90_000), Permits: 1})
	}
	return n
}

// One holder of seven permits was seven lines, and neither their limit nor what a waiter wanted was to be seen.
func TestOneHolderOfManyPermitsIsOneRow(t *testing.T) {
	tree := &plan.Tree{Ensemble: "main", Root: "/locks", Stack: "s", Nodes: []*plan.Node{pool()}}
	v, out, _ := capture(nil)
	v.Show(view.Status{Trees: []*plan.Tree{tree}, Declared: []*plan.Tree{{}}, Servers: []string{""}, Drift: []*plan.Plan{{}}, NowMs: now})
	v.Show(top(seen("main", pool())))
	in := &inspect.Report{Path: "/locks/pool", Kind: kind.Semaphore, Payload: pool().Payload,
		Holders: at("/locks/pool", pool().Live.Usage.Holders), Waiters: at("/locks/pool", pool().Live.Usage.Waiters)}
	foreign := *in
	foreign.Path, foreign.Payload = "/locks/foreign", nil
	v.Show(view.Locks{Ensembles: []view.LocksOf{{Ensemble: "main", Path: "/locks", Snapshot: &inspect.Snapshot{Locks: []*inspect.Report{in, &foreign}, Waits: inspect.WaitsFor()}}}, NowMs: now})
	golden(t, "permits.txt", out.String())

	// Another client's permits are another row, and those of nobody known are one row each.
	tree.Nodes[0].Live.Usage.Holders[3].Session = 0x3
	tree.Nodes[0].Live.Usage.Holders[4].Session = 0
	tree.Nodes[0].Live.Usage.Holders[5].Session = 0
	out.Reset()
	v.Show(top(seen("main", tree.Nodes[0])))
	require.Contains(t, out.String(), "gw and 3 more, 7 of 12; gw2 wants 7")
}

// On a terminal of 80 columns the longest queue, by which top sorts, was cut off.
func TestTopKeepsTheQueueWhereTheTerminalIsNarrow(t *testing.T) {
	ledger := node("mutex.ledger", "/locks/platform/payments/ledger/of/record", kind.Mutex.New())
	ledger.Live.Usage = &kind.Usage{Holders: []kind.Party{{ID: "payments-worker-7f9c8d5b6-x2x4z/4121", Session: 1, Token: 4294967301, Since: time.UnixMilli(now - 90_000)}}, Waiters: at(ledger.Path, busy.Waiters)}
	for _, width := range []int{80, 100, 200} {
		v, out, _ := capture(func(s *view.Stream) { s.Terminal, s.Width = true, width })
		v.Show(top(seen("main", ledger, pool())))
		header := strings.Split(out.String(), "\n")[2]
		require.Less(t, strings.Index(header, " TYPE"), width, "what is left of it is shown in full")
		require.True(t, width == 80 || view.Widest(header) <= width, header)
		require.Contains(t, out.String(), " ×7 of 12; gw2 wants 7 ")
	}
	v, out, _ := capture(func(s *view.Stream) { s.Terminal, s.Width = true, 80 })
	v.Show(top(seen("main", ledger)))
	require.Contains(t, out.String(), "/lo…f/record  pay…x4z/4121  1m30s  not asked   2        30s      mutex  4294967301\n")
}
