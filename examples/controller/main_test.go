package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

const head = `
locktree { stack = "shop" }
ensemble "main" { root = "/locks" }
principal "anyone" { scheme = "world" }
acl "open" {
  allow_world = true
  grant {
    to    = [principal.anyone]
    allow = "admin"
  }
}
`

// The controller applies what it finds, says what is wrong and changes nothing then, and puts back what somebody deleted.
func TestTheControllerFollowsItsDirectory(t *testing.T) {
	srv := zktest.Start(t)
	t.Setenv("ZOOKEEPER_SERVERS", srv.Addr())
	dir := t.TempDir()
	write := func(blocks string) {
		part := filepath.Join(dir, "part")
		require.NoError(t, os.WriteFile(part, []byte(head+blocks), 0o600))
		require.NoError(t, os.Rename(part, filepath.Join(dir, "locks.locktree.hcl")))
	}
	write(`mutex "ledger" { acl = acl.open }`)

	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan struct{})
	go func() { defer close(ended); follow(ctx, dir, time.Millisecond, in) }()
	t.Cleanup(func() { stop(); _ = out.Close(); <-ended })
	lines := json.NewDecoder(out)
	next := func() (line struct {
		Error  string
		Result struct{ Counts struct{ Add, Destroy int } }
		Plan   struct {
			Changes []struct{ Address string } `json:"resource_changes"`
		}
	}) {
		require.NoError(t, lines.Decode(&line))
		return line
	}

	first := next()
	require.Empty(t, first.Error)
	require.Equal(t, 1, first.Result.Counts.Add)
	require.Equal(t, "mutex.ledger", first.Plan.Changes[0].Address)

	write(`mutex "ledger" { acl = acl.closed }`)
	require.Contains(t, next().Error, "closed")
	_, there := srv.Get("/locks/ledger")
	require.True(t, there)

	write(`mutex "catalog" { acl = acl.open }`)
	second := next()
	require.Empty(t, second.Error)
	require.Equal(t, 1, second.Result.Counts.Add)
	require.Equal(t, 1, second.Result.Counts.Destroy)

	require.NoError(t, srv.Delete("/locks/catalog"))
	require.Equal(t, 1, next().Result.Counts.Add)

	over, end := context.WithCancel(t.Context())
	end()
	require.Empty(t, reconcile(over, dir), "the end of the program is told as an error of the ensemble")
}
