package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/zktest"
)

// A variable too few, or a name that led elsewhere: the stack was planned on another ensemble, and an apply would have made it there.
func TestNoCommandDoesAnythingOnAnotherEnsemble(t *testing.T) {
	srv, other := zktest.Start(t), zktest.Start(t)
	dir, env := quickstart(t, srv)
	found := tool(t, exit.OK, dir, env, "doctor")
	_, id, ok := strings.Cut(found, "ensemble id: it is ")
	require.True(t, ok, found)
	id = id[:32]
	file := filepath.Join(dir, "locks.locktree.hcl")
	rewrite(t, file, `ensemble "local" {`, "ensemble \"local\" {\n  id = \""+id+"\"")
	require.Contains(t, tool(t, exit.OK, dir, env, "plan"), "No changes")
	require.Contains(t, tool(t, exit.OK, dir, env, "doctor"), "it is "+id+", as the ensemble block says")

	for i := range env {
		env[i] = strings.ReplaceAll(env[i], srv.Addr(), other.Addr())
	}
	for _, args := range [][]string{{"plan"}, {"apply", "-auto-approve"}, {"status"}, {"show"}, {"destroy", "-auto-approve"}} {
		other.ResetCounts()
		require.Contains(t, tool(t, exit.Failed, dir, env, args...), "no apply was here, or its nodes were deleted", args)
		n := other.Counts()
		require.Empty(t, n.ByOp["create"]+n.ByOp["multi"]+n.ByOp["getChildren2"], "%v: %v", args, n.ByOp)
	}
	_, there := other.Get("/locks")
	require.False(t, there)
}
