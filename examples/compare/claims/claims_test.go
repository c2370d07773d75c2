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

// A process that ends is in its row.
func TestAnExperimentThatFailsSaysSoInItsRow(t *testing.T) {
	ours, err := drivers.Find(drivers.Ours)
	require.NoError(t, err)
	e := &Env{Plan: bench.Plan{Self: "/bin/false", Systems: []drivers.System{ours}, Tell: t.Logf}, Results: &bench.Results{Servers: nowhere}, TTL: time.Second}
	var r Results
	r.Paused, r.Killed, r.Fair = e.Paused(), e.Killed(), e.Fair(time.Second)
	for _, missing := range []string{r.Paused[0].Missing, r.Killed[0].Missing, r.Fair[0].Missing} {
		require.Regexp(t, "lost the process", missing)
	}
}

// A launcher that waits for what it has launched is ended with that.
func TestAHolderIsEndedWithWhatItStarted(t *testing.T) {
	h, err := lock.Spawn([]string{"/bin/sh", "-c", "sleep 1000 & echo waiting; wait"}, patience)
	require.NoError(t, err)
	_, err = h.Await(patience, "waiting")
	require.NoError(t, err)
	h.Kill()
}

// What did not run before is not waited for in every experiment.
func TestASystemThatDoesNotRunIsNotTriedAgain(t *testing.T) {
	ours, err := drivers.Find(drivers.Ours)
	require.NoError(t, err)
	e := &Env{Plan: bench.Plan{Self: "/nosuch", Systems: []drivers.System{ours}, Tell: t.Logf}, TTL: time.Second,
		Results: &bench.Results{Servers: nowhere, Missing: map[string]string{drivers.Ours: "it hung"}}}
	for _, missing := range []string{e.Paused()[0].Missing, e.Killed()[0].Missing, e.Crossed()[0].Missing, e.Fair(time.Second)[0].Missing} {
		require.Equal(t, "it hung", missing)
	}
}

var nowhere = map[string]*server.Server{"zookeeper": {Addrs: []string{"127.0.0.1:1"}}}
