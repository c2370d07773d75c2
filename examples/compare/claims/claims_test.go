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

// Who watches the parent is woken by every release, all of them; who watches the one before him is not.
func TestAReleaseWakesOneWaiterOrTheHerd(t *testing.T) {
	scope := &server.Scope{}
	defer scope.Close()
	up, err := server.Start(scope, "zookeeper", 1)
	require.NoError(t, err)
	all := Herd(t.Context(), up, []int{10, 100}, t.Logf)
	t.Logf("%+v", all)
	require.Len(t, all, 6)
	for _, r := range all {
		require.Empty(t, r.Missing, r)
		switch r.System {
		case "all watch the parent":
			require.Equal(t, r.Waiters, r.Woken)
		case "go-zookeeper":
			require.Equal(t, 1, r.Woken)
			require.EqualValues(t, 1, r.Events)
		default:
			require.LessOrEqual(t, r.Woken, 2, "the next, and the one behind it, which looks ahead or, if the queue is long, is told that the next has it")
			require.LessOrEqual(t, r.Events, int64(5), "the one before the next is gone, as it and the one behind it learn; the own node of who left; the next holds, as it and who waits for it learn")
		}
	}
}

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
