//go:build linux

package recipes_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// TestInteropBudget counts what Curator and kazoo ask of a server for what this library does within the budgets of its
// design, on the same in-memory server and over the same network of 20 ms in each direction. go test -v prints the table.
func TestInteropBudget(t *testing.T) {
	srv := zktest.Start(t, zktest.WithLatency(budgetLatency))
	l := &lab{t: t, zk: &realzk.Server{Addr: srv.Addr()}, events: map[string]chan string{}}
	require.NoError(t, l.compile(t))
	l.java = l.startJava(t, "java", 30*time.Second, l.hear)
	l.python = l.startPython(t, "python", 30*time.Second, l.hear)
	b := &bench{t: t, l: l, srv: srv}

	semaphore := kind.Semaphore.New().(*kind.SemaphoreParams)
	semaphore.Permits = 3
	b.row("mutex", kind.Mutex.New(), map[string]party{
		"ours": ours("go", "", goMutex), "curator": foreign("curator", java, "mutex"), "kazoo": foreign("kazoo", python, "lock")})
	b.row("writer", kind.RWLock.New(), map[string]party{
		"ours": ours("go", "", goWrite), "curator": foreign("curator", java, "write"), "kazoo": foreign("kazoo", python, "write")})
	b.row("reader", kind.RWLock.New(), map[string]party{
		"ours": ours("go", "", goRead), "curator": foreign("curator", java, "read"), "kazoo": foreign("kazoo", python, "read")})
	b.row("one permit", semaphore, map[string]party{
		"ours": ours("go", "", goSemaphore(1)), "curator": foreign("curator", java, "semaphore", "3", "1")})
	b.row("election", kind.Election.New(), map[string]party{
		"ours": ours("go", "", goElection), "curator": foreign("curator", java, "latch"), "kazoo": foreign("kazoo", python, "election")})
	t.Log("\n" + b.table.String())
}

const budgetLatency = 20 * time.Millisecond

// bench counts on the in-memory server.
type bench struct {
	t     *testing.T
	l     *lab
	srv   *zktest.Server
	table strings.Builder
	locks int
}

// price is what one acquisition, and what one whole cycle costs.
type price struct {
	acquire, cycle float64 // requests
	trips          int     // round trips an acquisition is waited for
}

func (b *bench) row(name string, p kind.Params, who map[string]party) {
	prices := map[string]price{}
	for _, lib := range []string{"ours", "curator", "kazoo"} {
		if party, ok := who[lib]; ok {
			prices[lib] = b.price(party, p)
			fmt.Fprintf(&b.table, "%-12s %-8s acquire %4.1f requests, %d round trips; cycle %4.1f requests\n",
				name, lib, prices[lib].acquire, prices[lib].trips, prices[lib].cycle)
		}
	}
	require.Equal(b.t, 1, prices["ours"].trips, "%s: the budget is one round trip", name)
	for _, lib := range []string{"curator", "kazoo"} {
		if theirs, ok := prices[lib]; ok {
			require.Greater(b.t, theirs.trips, prices["ours"].trips, "%s against %s", name, lib)
		}
	}
}

// price measures some cycles of a free lock, after one that is not counted.
func (b *bench) price(p party, params kind.Params) price {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	b.locks++
	path := fmt.Sprintf("/budget-%d", b.locks)
	data, err := (&kind.Payload{Params: params, Owner: kind.Owner{Stack: "interop", Addr: "test"}}).Encode()
	require.NoError(b.t, err)
	require.NoError(b.t, b.srv.Create(path, data))
	for _, c := range params.Kind().Children {
		require.NoError(b.t, b.srv.Create(kind.JoinPath(path, c), nil))
	}
	e := p.enter(b.t, b.l, path)
	session, err := strconv.ParseInt(strings.TrimPrefix(e.session, "0x"), 16, 64)
	require.NoError(b.t, err)
	total := func() int { return b.srv.SessionCounts(session).Total }
	const cycles = 5
	var before, acquired int
	fastest := time.Hour
	for i := range cycles + 1 {
		if i == 1 {
			before, acquired = total(), 0 // the first cycle makes and learns what the others find
		}
		at, start := total(), time.Now()
		require.NoError(b.t, e.acquire(ctx))
		took := time.Since(start)
		if i > 0 {
			fastest = min(fastest, took)
		}
		if e.lease != nil {
			e.lease.Token() // its read is part of the price
		}
		acquired += total() - at
		require.NoError(b.t, e.release(ctx))
	}
	return price{float64(acquired) / cycles, float64(total()-before) / cycles, int(fastest / (2 * budgetLatency))}
}
