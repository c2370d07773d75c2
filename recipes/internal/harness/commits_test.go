//go:build linux

package harness_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// A run in which the servers lost a commit was reported as two holders of one lock.
func TestALostCommitIsTheServers(t *testing.T) {
	srv := zktest.Start(t)
	require.NoError(t, srv.Create("/commits", nil))
	c := &harness.Commits{Set: func(context.Context) (int32, error) {
		err := srv.Set("/commits", nil)
		node, _ := srv.Get("/commits")
		return node.Stat.Version, err
	}}
	for range 3 {
		answered, lost := c.Write(t.Context())
		require.True(t, answered)
		require.NoError(t, lost)
	}
	require.NoError(t, srv.Delete("/commits"))
	require.NoError(t, srv.Create("/commits", nil))
	_, lost := c.Write(t.Context())
	require.ErrorContains(t, lost, realzk.Void+": a node has version 1 after 3 was confirmed")
	_, again := c.Write(t.Context())
	require.Equal(t, lost, again, "the run stays void")
}
