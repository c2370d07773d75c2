package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/examples/quickstart/locks"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestTheProgramRunsOnTheLocksOfTheStack(t *testing.T) {
	// provision: begin
	server := zktest.Start(t)
	require.NoError(t, locks.Provision(server, locks.Root))
	require.NoError(t, run(t.Context(), []string{server.Addr()}))
	// provision: end
}
