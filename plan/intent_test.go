package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
)

func TestMovesAreFollowedAsFarAsAddressesReach(t *testing.T) {
	i := plan.Intent{Moves: []plan.Move{
		{From: "mutex.a", To: "namespace.n.mutex.b"},
		{From: "namespace.n.mutex.b", To: "namespace.n.mutex.c"},
		{From: `semaphore.s`, To: "semaphore.t"},
		{From: `semaphore.s["x"]`, To: `semaphore.u["y"]`, One: true},
		{From: "election.e", To: `election.e["first"]`, One: true},
		{From: "module.old", To: `module.new["k"]`},
		{From: "loop.a", To: "loop.b"}, {From: "loop.b", To: "loop.a"},
	}}
	for from, to := range map[plan.Addr]plan.Addr{
		"mutex.a":              "namespace.n.mutex.c",
		"mutex.ab":             "mutex.ab",
		`mutex.a["k"]`:         `namespace.n.mutex.c["k"]`,
		`semaphore.s["x"]`:     `semaphore.u["y"]`, // the nearer one wins
		`semaphore.s["xy"]`:    `semaphore.t["xy"]`,
		"election.e":           `election.e["first"]`,
		`election.e["second"]`: `election.e["second"]`,
		"module.old.mutex.m":   `module.new["k"].mutex.m`,
		"module.older.mutex.m": "module.older.mutex.m",
	} {
		require.Equal(t, to, i.Rename(from), from)
	}
	require.Contains(t, []plan.Addr{"loop.a", "loop.b"}, i.Rename("loop.a"), "a list that Load would refuse must not hang")
}

func TestRemovalsCoverWhatIsInside(t *testing.T) {
	i := plan.Intent{Removals: []plan.Removal{{From: "namespace.legacy", Destroy: true}, {From: `mutex.m["a"]`}}}
	require.True(t, i.Removed("namespace.legacy.mutex.x").Destroy)
	require.NotNil(t, i.Removed("namespace.legacy"))
	require.NotNil(t, i.Removed(`mutex.m["a"]`))
	require.Nil(t, i.Removed(`mutex.m["b"]`))
	require.Nil(t, i.Removed("namespace.legacy2"))
}
