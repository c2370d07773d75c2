//go:build linux

package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/examples/compare/bench"
	"github.com/locktree/locktree/examples/compare/claims"
	"github.com/locktree/locktree/examples/compare/drivers"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// example has every peculiarity a row can have.
func example() *Report {
	sample := func(round int, workload, system string, perSecond float64) bench.Sample {
		return bench.Sample{Round: round, Workload: workload, System: system, Seconds: 1, Cycles: int64(perSecond), PerSecond: perSecond, Requests: 3, Events: 0.5}
	}
	const fast, far = "own lock, 1 worker", "own lock, far away"
	broken := sample(1, fast, "curator", 500)
	broken.Overlaps, broken.Errors, broken.First = 7, 2, "lock: connection | loss"
	of := func(system string) claims.Row { return claims.Row{System: system} }
	lost := claims.Row{System: "etcd", Missing: "its process ended before it said granted: no | way"}
	uncounted := sample(0, fast, "kazoo", 250)
	uncounted.Requests, uncounted.Events = -1, -1
	return &Report{
		Machine: Machine{Cores: 2, Kernel: "6.1", Go: "go1.26", Load: 3},
		Plan:    Plan{Seconds: 1, Members: 1},
		Systems: []drivers.System{
			{Name: "locktree", Server: "zookeeper"}, {Name: "curator", Server: "zookeeper"}, {Name: "kazoo", Server: "zookeeper"},
			{Name: "redis", Server: "redis"},
		},
		Workloads: []bench.Workload{{Name: fast, Wide: true}, {Name: far, Wide: true, RoundTrip: time.Millisecond}, {Name: "too much", Wide: true}},
		Claims: claims.Results{TTL: 4 * time.Second,
			Herd: []claims.Release{{Row: of("all watch the parent"), Waiters: 10, Woken: 10, Events: 11, Requests: 11, Bytes: 3706},
				{Row: of("locktree"), Waiters: 10, Woken: 1, Events: 4, Requests: 4, Bytes: 1456}, {Row: lost, Waiters: 10}},
			Paused: []claims.Pause{{Row: of("locktree"), Rival: true, Told: true, Token: true, Stale: 1, Writes: 21},
				{Row: of("redislock"), Rival: true, Stale: 400, Writes: 400, Fenced: 400}, {Row: of("postgres advisory lock")}, {Row: lost}},
			Fair: []claims.Fair{{Row: of("locktree"), Window: time.Second, Each: []int64{5, 5}, Requests: 4, Longest: 80 * time.Millisecond, Handover: 1500 * time.Microsecond},
				{Row: of("redislock"), Window: time.Second, Each: []int64{0, 12}, Requests: 9.5, Longest: time.Second},
				{Row: of("mariadb GET_LOCK"), Window: time.Second, Each: []int64{1, 1}, Requests: -1}, {Row: lost}},
			Killed: []claims.Killed{{Row: of("locktree"), TTL: 4 * time.Second, Released: true, After: 5 * time.Second},
				{Row: of("postgres row"), TTL: 4 * time.Second, After: 12 * time.Second},
				{Row: of("postgres advisory lock"), TTL: 4 * time.Second, Released: true, After: 12 * time.Millisecond}, {Row: lost}},
			Idle: []claims.Idle{{Row: of("locktree"), Locks: 1000, Kept: 1000, Requests: 2.25},
				{Row: of("redislock"), Locks: 1000, Kept: 1000, Gone: true},
				{Row: of("mariadb GET_LOCK"), Locks: 1000, Kept: 300, Refused: "Too many\nconnections"}, {Row: lost}},
			Crossed: []claims.Crossed{{Row: of("locktree"), Together: true}, {Row: of("etcd")}, {Row: of("redislock"), Granted: 2},
				{Row: of("postgres advisory lock"), Refused: `"deadlock detected"`}, {Row: lost}},
			Pooled: []claims.Pooled{{Row: of("postgres advisory lock, pooled"), Grants: 90, Double: 14, First: "unlock: no | way", Stuck: true, Stranded: 1},
				{Row: of("postgres transaction lock, pooled"), Grants: 80}, {Row: lost}},
			Failover: []claims.Failover{{Row: of("redislock"), Server: "the primary is killed", Trials: 5, Double: 5},
				{Row: of("locktree"), Server: "the leader is killed", Trials: 1, Kept: 1}, {Row: lost}}},
		Results: &bench.Results{
			Rounds: 3, Clients: map[string]string{"locktree": "this repository", "curator": "curator-recipes-5.4.0"},
			Servers: map[string]bench.Ground{
				"zookeeper": {Version: "Apache ZooKeeper 3.8.0", Durability: "written and synchronised to disk"},
				"redis":     {Missing: "redis-server is not installed:\napt-get install redis-server"},
			},
			Samples: []bench.Sample{
				sample(0, fast, "locktree", 1000), sample(1, fast, "locktree", 900), sample(2, fast, "locktree", 1200),
				sample(0, fast, "curator", 1000), broken, sample(2, fast, "curator", 800),
				uncounted, {Round: 1, Workload: fast, System: "kazoo", Missing: "lost the process"},
				{Workload: fast, System: "redis", Missing: "redis-server is not installed"},
				sample(0, far, "locktree", 100), sample(0, far, "curator", 100),
				{Workload: "too much", System: "locktree", Missing: "nothing was granted within the window"},
			},
		},
	}
}

func TestThePage(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, Page(&b, example()))
	const golden = "testdata/page.md"
	if *update {
		require.NoError(t, os.WriteFile(golden, b.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "go test ./report -update rewrites it")
}

// What is written for machines has every sample.
func TestWhatIsWrittenForMachinesHasAll(t *testing.T) {
	dir, want := t.TempDir(), example()
	require.NoError(t, want.WriteTo(dir))
	text, err := os.ReadFile(filepath.Join(dir, "results.json"))
	require.NoError(t, err)
	r := &Report{}
	require.NoError(t, json.Unmarshal(text, r))
	require.Equal(t, want.Results, r.Results)
	require.Equal(t, want.Machine, r.Machine)
	require.Equal(t, want.Claims, r.Claims)
	require.Equal(t, want.Plan, r.Plan)
}

// A ratio is of two samples of one round: what a neighbour did to the machine in that round was done to both.
func TestARatioIsTakenWithinARound(t *testing.T) {
	r := example()
	fast := r.Speeds()[0]
	require.Equal(t, spread{3, 1.5, 1, 1.8}, fast.Rows[1].Ratio) // 1000/1000, 900/500, 1200/800
	require.Zero(t, fast.Rows[0].Ratio, "locktree is not compared with itself")
	require.Contains(t, fast.Notes, "kazoo: lost the process", "beside the figures of the round that went well")
	require.Equal(t, 4.0, fast.Rows[2].Ratio.Median)
	require.Zero(t, fast.Rows[2].Requests.N)
}
