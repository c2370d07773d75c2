package view_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

func TestTop(t *testing.T) {
	used := func(path string, params kind.Params, holders, waiters int) *plan.Node {
		n := node("x", path, params)
		n.Live.Usage = &plan.Usage{}
		for i := range holders + waiters {
			h := plan.Holder{Name: "_c_1-lock-000000000" + string(rune('0'+i)), ID: "host\x1b[31m", Token: uint64(70 + i), SinceMs: now - int64(1000*(90-i))}
			if i < holders {
				n.Live.Usage.Holders = append(n.Live.Usage.Holders, h)
			} else {
				n.Live.Usage.Waiters = append(n.Live.Usage.Waiters, h)
			}
		}
		return n
	}
	trees := []*plan.Tree{
		{Ensemble: "main", Nodes: []*plan.Node{node("n", "/locks", kind.Namespace.New()), used("/locks/a", kind.Mutex.New(), 1, 0), used("/locks/b", semaphore(3), 3, 2), used("/locks/idle", kind.Mutex.New(), 0, 0)}},
		{Ensemble: "spare", Nodes: []*plan.Node{used("/locks/c", kind.Election.New(), 0, 1), {Path: "/locks/odd"}}},
	}
	v, out, _ := capture(nil)
	v.Show(view.Top{Status: view.Status{Trees: trees, Waits: []*inspect.Waits{inspect.WaitsFor(crossed()...)}, NowMs: now}})
	out.WriteString("===\n")
	v.Show(view.Top{Status: view.Status{Trees: trees[:1], NowMs: now}, Rows: 1, Error: errors.New("recipes: connection lost"), ShownMs: now + 35_000})
	golden(t, "top.txt", out.String())
	require.NotContains(t, out.String(), "\x1b")
}

// pool is a semaphore of 12 permits: gw holds 7 of them, and gw2 waits for 7.
func pool() *plan.Node {
	n := node("semaphore.pool", "/locks/payments/pool", semaphore(12))
	n.Live.Usage = &plan.Usage{Waiters: []plan.Holder{
		{Name: "locks/_c_9-lock-0000000009", ID: "gw2", Session: 0x2, Token: 4294967390, SinceMs: now - 30_000, Permits: 7}}}
	for i := range 7 {
		n.Live.Usage.Holders = append(n.Live.Usage.Holders, plan.Holder{Name: fmt.Sprintf("leases/_c_%d-lease-%010d", i, i), ID: "gw", Session: 0x1,
			Token: 4294967301, SinceMs: now - 90_000, Permits: 1})
	}
	return n
}

// One holder of seven permits was seven lines, and neither their limit nor what a waiter wanted was to be seen.
func TestOneHolderOfManyPermitsIsOneRow(t *testing.T) {
	tree := &plan.Tree{Ensemble: "main", Root: "/locks", Stack: "s", Nodes: []*plan.Node{pool()}}
	v, out, _ := capture(nil)
	v.Show(view.Status{Trees: []*plan.Tree{tree}, NowMs: now})
	v.Show(view.Top{Status: view.Status{Trees: []*plan.Tree{tree}, NowMs: now}})
	in := &inspect.Report{Path: "/locks/pool", Kind: kind.Semaphore, Payload: pool().Payload,
		Holders: view.Contenders("/locks/pool", pool().Live.Usage.Holders), Waiters: view.Contenders("/locks/pool", pool().Live.Usage.Waiters)}
	foreign := *in
	foreign.Path, foreign.Payload = "/locks/foreign", nil
	v.Show(view.Locks{Ensembles: []view.LocksOf{{Ensemble: "main", Path: "/locks", Snapshot: &inspect.Snapshot{Locks: []*inspect.Report{in, &foreign}}}}, NowMs: now})
	golden(t, "permits.txt", out.String())

	// Another client's permits are another row, and those of nobody known are one row each.
	tree.Nodes[0].Live.Usage.Holders[3].Session = 0x3
	tree.Nodes[0].Live.Usage.Holders[4].Session = 0
	tree.Nodes[0].Live.Usage.Holders[5].Session = 0
	out.Reset()
	v.Show(view.Top{Status: view.Status{Trees: []*plan.Tree{tree}, NowMs: now}})
	require.Contains(t, out.String(), "gw and 3 more, 7 of 12; gw2 wants 7")
}

// On a terminal of 80 columns the longest queue, by which top sorts, was cut off.
func TestTopKeepsTheQueueWhereTheTerminalIsNarrow(t *testing.T) {
	ledger := node("mutex.ledger", "/locks/platform/payments/ledger/of/record", kind.Mutex.New())
	ledger.Live.Usage = &plan.Usage{Holders: []plan.Holder{{ID: "payments-worker-7f9c8d5b6-x2x4z/4121", Session: 1, Token: 4294967301, SinceMs: now - 90_000}}, Waiters: busy.Waiters}
	trees := []*plan.Tree{{Ensemble: "main", Nodes: []*plan.Node{ledger, pool()}}}
	for _, width := range []int{80, 100, 200} {
		v, out, _ := capture(func(s *view.Stream) { s.Terminal, s.Width = true, width })
		v.Show(view.Top{Status: view.Status{Trees: trees, NowMs: now}})
		header := strings.Split(out.String(), "\n")[2]
		require.Less(t, strings.Index(header, " TYPE"), width, "what is left of it is shown in full")
		require.True(t, width == 80 || view.Widest(header) <= width, header)
		require.Contains(t, out.String(), " ×7 of 12; gw2 wants 7 ")
	}
	v, out, _ := capture(func(s *view.Stream) { s.Terminal, s.Width = true, 80 })
	v.Show(view.Top{Status: view.Status{Trees: []*plan.Tree{{Nodes: trees[0].Nodes[:1]}}, NowMs: now}})
	require.Contains(t, out.String(), "/lock…r/of/record  payme…-x2x4z/4121  1m30s  2        30s      mutex  4294967301\n")
}
