//go:build linux

package claims

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/examples/compare/bench"
	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// ours is an environment with this library and no server.
func ours(t *testing.T, self string, missing map[string]string) *Env {
	system, err := drivers.Find(drivers.Ours)
	require.NoError(t, err)
	nowhere := map[string]*server.Server{"zookeeper": {Addrs: []string{"127.0.0.1:1"}}}
	return &Env{Plan: bench.Plan{Self: self, Systems: []drivers.System{system}, Tell: t.Logf}, TTL: time.Second, Results: &bench.Results{Servers: nowhere, Missing: missing}}
}

// A row says that its process has ended. If a system is already noted as missing, no experiment starts it: the row repeats the reason.
func TestAnExperimentThatFailsSaysSoInItsRow(t *testing.T) {
	e := ours(t, "/bin/false", nil)
	for _, missing := range []string{e.Paused()[0].Missing, e.Killed()[0].Missing, e.Fair(time.Second)[0].Missing} {
		require.Regexp(t, "lost the process", missing)
	}
	e = ours(t, "/nosuch", map[string]string{drivers.Ours: "it hung"})
	for _, missing := range []string{e.Paused()[0].Missing, e.Killed()[0].Missing, e.Crossed()[0].Missing, e.Fair(time.Second)[0].Missing} {
		require.Equal(t, "it hung", missing)
	}
}

// A launcher and the program that it waits for are ended together.
func TestAHolderIsEndedWithWhatItStarted(t *testing.T) {
	h, err := lock.Spawn([]string{"/bin/sh", "-c", "sleep 1000 & echo waiting; wait"}, patience)
	require.NoError(t, err)
	_, err = h.Await(patience, "waiting")
	require.NoError(t, err)
	h.Kill()
}
