package view

import (
	"errors"
	"testing"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/stretchr/testify/require"
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
	v.Top(Top{Status: Status{Trees: trees, Waits: []*recipes.Waits{recipes.WaitsFor(crossed()...)}, NowMs: now}})
	out.WriteString("===\n")
	v.Top(Top{Status: Status{Trees: trees[:1], NowMs: now}, Rows: 1, Error: errors.New("recipes: connection lost"), ShownMs: now + 35_000})
	golden(t, "top.txt", out.String())
	require.NotContains(t, out.String(), "\x1b")
}
