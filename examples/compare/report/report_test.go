//go:build linux

package report

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/examples/compare/bench"
	"github.com/locktree/locktree/examples/compare/claims"
	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// example has every peculiarity that a row can have.
func example() *Report {
	sample := func(perSecond int64) bench.Sample {
		return bench.Sample{Result: lock.Result{Window: time.Second, Cycles: perSecond}, Requests: 3, Events: 0.5}
	}
	const fast, far, much = "Own lock, 1 worker", "Own lock, far away", "Too much"
	broken := sample(500)
	broken.Overlaps, broken.Errors, broken.First = 7, 2, "lock: connection | loss"
	fair := func(cycles int64, longest time.Duration, requests float64, each ...int64) bench.Sample {
		return bench.Sample{Result: lock.Result{Window: time.Second, Cycles: cycles, Each: each, Longest: longest}, Requests: requests}
	}
	of := func(system string) claims.Row { return claims.Row{System: system} }
	lost := claims.Row{System: "etcd", Missing: "its process ended before it said granted: no | way"}
	uncounted := sample(250)
	uncounted.Requests, uncounted.Events = -1, -1
	return &Report{
		Cores: 2, Kernel: "6.1", Go: "go1.26", Load: 3,
		Plan: bench.Plan{Window: time.Second, Members: 1,
			Systems: []drivers.System{
				{Name: "locktree", Server: "zookeeper"}, {Name: "curator", Server: "zookeeper"}, {Name: "kazoo", Server: "zookeeper"},
				{Name: "redis", Server: "redis"},
			},
			Workloads: []bench.Workload{{Name: fast, Wide: true}, {Name: far, Wide: true, RoundTrip: time.Millisecond}, {Name: much, Wide: true}}},
		Claims: claims.Results{TTL: 4 * time.Second,
			Herd: []claims.Release{{Row: of("all watch the parent"), Waiters: 10, Woken: 10, Events: 11, Requests: 11, Bytes: 3706},
				{Row: of("locktree"), Waiters: 10, Woken: 1, Events: 4, Requests: 4, Bytes: 1456}, {Row: lost, Waiters: 10}},
			Paused: []claims.Pause{{Row: of("locktree"), Rival: true, Told: true, Token: true, Stale: 1, Writes: 21},
				{Row: of("redislock"), Rival: true, Stale: 400, Writes: 400, Fenced: 400}, {Row: of("postgres advisory lock")}, {Row: lost}},
			Fair: []claims.Fair{{Row: of("locktree"), Sample: fair(87, 80*time.Millisecond, 4, 5, 5)},
				{Row: of("redislock"), Sample: fair(40, time.Second, 9.5, 0, 12)},
				{Row: of("mariadb GET_LOCK"), Sample: fair(100, 0, -1, 1, 1)}, {Row: lost}},
			Killed: []claims.Killed{{Row: of("locktree"), Released: true, Lives: 1.25},
				{Row: of("postgres row"), Lives: 3},
				{Row: of("postgres advisory lock"), Released: true, Lives: 0.003}, {Row: lost}},
			Idle: []claims.Idle{{Row: of("locktree"), Requests: 2.25}, {Row: of("redislock"), Gone: true}, {Row: lost}},
			Crossed: []claims.Crossed{{Row: of("locktree"), Together: true}, {Row: of("etcd")}, {Row: of("redislock"), Granted: true},
				{Row: of("postgres advisory lock"), Refused: "deadlock detected"}, {Row: lost}},
			Pooled: []claims.Pooled{{Row: of("postgres advisory lock, pooled"),
				Result: lock.Result{Total: 90, Overlaps: 14, First: "unlock: no | way"}}, {Row: lost}},
			Failover: []claims.Failover{{Row: of("redislock"), Server: "the primary is killed", Trials: 5, Double: 5},
				{Row: of("locktree"), Server: "the leader is killed", Trials: 1, Kept: 1}, {Row: lost}}},
		Results: &bench.Results{
			Rounds: 3,
			Servers: map[string]*server.Server{
				"zookeeper": {Version: "Apache ZooKeeper 3.8.0", Durability: "written and synchronised to disk"},
				"redis":     {Missing: "redis-server is not installed:\napt-get install redis-server"},
			},
			Samples: map[string][]bench.Sample{
				fast + "/locktree": {sample(1000), sample(900), sample(1200)},
				fast + "/curator":  {sample(1000), broken, sample(800)},
				fast + "/kazoo":    {uncounted, {Missing: "lost the process"}},
				fast + "/redis":    {{Missing: "redis-server is not installed"}},
				far + "/locktree":  {sample(100)},
				far + "/curator":   {sample(100)},
				much + "/locktree": {{Missing: "nothing was granted within the window"}},
			},
		},
	}
}

func TestThePageOfResultsHasEachFigure(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, Page(&b, example()))
	fixed := strings.Split(pageText, "\n")
	var got strings.Builder // the page without the lines that come unchanged from its template
	for line := range strings.Lines(b.String()) {
		if strings.ContainsAny(line[:1], "#|\n") || !slices.Contains(fixed, strings.TrimSuffix(line, "\n")) {
			got.WriteString(line)
		}
	}
	const golden = "testdata/page.golden"
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "GOLDEN=1 go test ./report rewrites it")
}

// The JSON form has every sample.
func TestWhatIsWrittenForMachinesHasAll(t *testing.T) {
	want, r := example(), &Report{}
	text, err := json.Marshal(want)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, r))
	require.Equal(t, want, r)
}

// A ratio compares two samples of one round: a neighbour on the machine disturbed both in that round.
func TestARatioIsTakenWithinARound(t *testing.T) {
	r := example()
	rows := r.Rows(r.Plan.Workloads[0])
	require.Equal(t, spread{3, 1.5, 1, 1.8}, rows[1].Ratio) // 1000/1000, 900/500, 1200/800
	require.Zero(t, rows[0].Ratio, "locktree is not compared with itself")
	require.Contains(t, r.Notes(r.Plan.Workloads[0]), "kazoo: lost the process", "beside the figures of the round that went well")
	require.Equal(t, 4.0, rows[2].Ratio.Median)
	require.Zero(t, rows[2].Requests.N)
}
