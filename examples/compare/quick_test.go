//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/examples/compare/bench"
	"github.com/locktree/locktree/examples/compare/claims"
	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/report"
	"github.com/locktree/locktree/examples/compare/server"
)

// The test does what `make compare QUICK=1` does, with every driver. It compares only counts, and checks that nothing is left behind. It is
// not parallel: it takes every child of this process for its own.
func TestTheQuickForm(t *testing.T) {
	out := t.TempDir()
	tmp, err := os.MkdirTemp("", "") // only the owner can enter t.TempDir, and databases run as user nobody
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	require.NoError(t, os.Chmod(tmp, 0o755))
	t.Setenv("TMPDIR", tmp)
	require.NoError(t, run(t.Context(), []string{"-quick", "-out", out}, nil, new(strings.Builder), tell{t}))
	require.Empty(t, children(t), "processes that were left behind")
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left, "folders that were left behind")

	text, err := os.ReadFile(filepath.Join(out, "results.json"))
	require.NoError(t, err)
	var r report.Report
	require.NoError(t, json.Unmarshal(text, &r))
	for name, ground := range r.Results.Servers {
		require.Empty(t, ground.Missing, name)
	}
	for key, samples := range r.Results.Samples {
		for _, s := range samples {
			require.Zero(t, s.Overlaps, "%s: a lock was granted twice", key)
		}
	}
	counted(t, &r.Claims)
	page, err := os.ReadFile(filepath.Join(out, "page.md"))
	require.NoError(t, err)
	for _, part := range []string{"## What ran", "## Speed", "## Experiments"} {
		require.Contains(t, string(page), part)
	}
	host, err := os.Hostname()
	require.NoError(t, err)
	for _, private := range []string{host, tmp, out, os.Getenv("HOME") + "/"} {
		require.NotContains(t, string(page), private)
	}
}

// counted checks the counts: wake-ups, stale writes and double grants.
func counted(t *testing.T, r *claims.Results) {
	require.Len(t, r.Herd, 6)
	for _, h := range r.Herd { // every release wakes all that watch the parent, but not those that watch their predecessor
		require.Empty(t, h.Missing, h.System)
		switch h.System {
		case "all watch the parent":
			require.Equal(t, h.Waiters, h.Woken)
		case "go-zookeeper":
			require.Equal(t, 1, h.Woken)
			require.EqualValues(t, 1, h.Events)
		default:
			require.LessOrEqual(t, h.Woken, 2, "the next, and the one behind it, which looks ahead or, if the queue is long, is told that the next has it")
			require.LessOrEqual(t, h.Events, int64(5), "the one before the next is gone, as it and the one behind it learn; the own node of who left; the next holds, as it and who waits for it learn")
		}
	}
	for _, p := range r.Paused { // a holder that was paused for too long goes on if nothing tells it
		require.Empty(t, p.Missing, p.System)
		s, err := drivers.Find(p.System)
		require.NoError(t, err)
		require.NotEqual(t, s.Lasting, p.Rival, "%s: its connection is there, and so is its lock", p.System)
		token := p.System == drivers.Ours || p.System == "etcd"
		require.Equal(t, token, p.Token, p.System)
		require.Equal(t, token || s.Client, p.Told, "%s: a client tells the end of a session", p.System)
		switch {
		case token: // a store that checks tokens refuses its writes
			require.Greater(t, p.Writes, p.Stale, "it wrote on when it was told, so that there was something to refuse")
			require.Zero(t, p.Fenced, p.System)
		case p.Rival && !p.Told:
			require.Positive(t, p.Stale, p.System)
		}
	}
	require.NotEmpty(t, r.Pooled)
	require.Empty(t, r.Pooled[0].Missing)
	require.NotEmpty(t, r.Failover)
	for _, f := range r.Failover {
		if f.Missing == "" && f.System != "redislock" {
			require.Zero(t, f.Double, f.System)
		}
	}
	for _, k := range r.Killed {
		require.Empty(t, k.Missing, k.System)
		switch s, err := drivers.Find(k.System); {
		case k.System == "postgres row":
			require.False(t, k.Released, "nothing ties it to its holder")
		case !s.Lasting:
			require.NoError(t, err)
			require.True(t, k.Released, k.System)
		}
	}
	for _, c := range r.Crossed {
		require.Empty(t, c.Missing, c.System)
		if c.System == drivers.Ours {
			require.True(t, c.Together)
			require.Empty(t, c.Refused, "nothing looks for a deadlock")
		}
	}
	for _, i := range r.Idle {
		require.Empty(t, i.Missing, i.System)
		require.Less(t, i.Requests*r.TTL.Seconds(), 500.0, "%s: a session is kept alive, not each of its thousand locks", i.System)
	}
}

// A replica that is behind does not have the key. If the machine stalls at the wrong moment, the replica catches up: try again.
func TestAReplicaThatIsBehindGrantsTheLockTwice(t *testing.T) {
	t.Parallel()
	env := &claims.Env{Results: &bench.Results{Servers: map[string]*server.Server{"redis": serverFor(t, "redis")}}}
	for {
		require.NoError(t, t.Context().Err())
		f := env.Failover(1)[0]
		require.Empty(t, f.Missing)
		require.Equal(t, 1, f.Double+f.Kept)
		if f.Double == 1 {
			return
		}
	}
}

type tell struct{ t *testing.T }

func (w tell) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// children returns the child processes that have not ended.
func children(t *testing.T) (all []string) {
	names, err := filepath.Glob("/proc/self/task/*/children")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil { // the thread may have ended
			all = append(all, strings.Fields(string(b))...)
		}
	}
	return all
}
