package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/examples/compare/bench"
	"github.com/locktree/locktree/examples/compare/claims"
	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// example has every peculiarity a row can have.
func example() *Report {
	sample := func(round int, workload, system string, perSecond float64, p50 int64) bench.Sample {
		return bench.Sample{Round: round, Workload: workload, System: system, Seconds: 1, Cycles: int64(perSecond), PerSecond: perSecond,
			P50: p50, P99: 10 * p50, Requests: 3, Events: 0.5, ClientCPU: 40, ServerCPU: 120, Waits: [][2]int64{{p50, int64(perSecond)}}}
	}
	const fast, due = bench.Alone, "own locks, 100 arrivals a second"
	broken := sample(1, fast, "curator", 500, 2000)
	broken.Overlaps, broken.Errors, broken.First = 7, 2, "lock: connection | loss"
	uncounted := sample(0, fast, "kazoo", 250, 3000)
	uncounted.Requests, uncounted.Events = -1, -1
	return &Report{
		Machine: Machine{CPU: "Abacus", Cores: 2, Kernel: "6.1", Go: "go1.26", Sync: 150 * time.Microsecond, Load: 3},
		Plan:    Plan{Seconds: 1, Members: 1},
		Systems: []drivers.System{
			{Name: "locktree", Server: "zookeeper"}, {Name: "curator", Server: "zookeeper"}, {Name: "kazoo", Server: "zookeeper"},
			{Name: "redis", Server: "redis"}, {Name: "requests", Server: "zookeeper", Floor: true},
		},
		Workloads: []bench.Workload{{Name: fast}, {Name: due, Load: lock.Load{Rate: 100}}, {Name: "the same, handed on", Instead: fast}},
		Claims: claims.Results{TTL: 4 * time.Second,
			Herd: []claims.Release{{Row: claims.Row{System: "all watch the parent"}, Waiters: 10, Woken: 10, Events: 11, Requests: 11, Bytes: 3706}, {Row: claims.Row{System: "locktree"}, Waiters: 10, Woken: 1, Events: 4, Requests: 4, Bytes: 1456},
				{Row: claims.Row{System: "go-zookeeper", Missing: "9 of 10 have a place"}, Waiters: 10}},
			Paused: []claims.Pause{{Row: claims.Row{System: "locktree"}, Rival: true, Told: true, Token: true, Stale: 1, Writes: 21}, {Row: claims.Row{System: "redislock"}, Rival: true, Stale: 400, Writes: 400, Fenced: 400},
				{Row: claims.Row{System: "postgres advisory lock"}}, {Row: claims.Row{System: "etcd", Missing: "its process ended"}}},
			Fair: []claims.Fair{{Row: claims.Row{System: "locktree"}, Window: time.Second, Each: []int64{5, 5}, Requests: 4, Longest: 80 * time.Millisecond, Handover: 1500 * time.Microsecond},
				{Row: claims.Row{System: "redislock"}, Window: time.Second, Each: []int64{0, 12}, Requests: 9.5, Longest: time.Second}, {Row: claims.Row{System: "mariadb GET_LOCK"}, Window: time.Second, Each: []int64{1, 1}, Requests: -1}},
			Killed: []claims.Killed{{Row: claims.Row{System: "locktree"}, TTL: 4 * time.Second, Released: true, After: 5 * time.Second}, {Row: claims.Row{System: "postgres row"}, TTL: 4 * time.Second, After: 12 * time.Second},
				{Row: claims.Row{System: "postgres advisory lock"}, TTL: 4 * time.Second, Released: true, After: 12 * time.Millisecond}},
			Idle: []claims.Idle{{Row: claims.Row{System: "locktree"}, Locks: 1000, Kept: 1000, Requests: 2.25, PerTTL: 9, Connections: 1}, {Row: claims.Row{System: "redislock"}, Locks: 1000, Kept: 1000, Connections: 20, Gone: true},
				{Row: claims.Row{System: "mariadb GET_LOCK"}, Locks: 1000, Kept: 300, Refused: "Too many\nconnections", Connections: 300}},
			Crossed: []claims.Crossed{{Row: claims.Row{System: "locktree"}, Deadlock: true, Together: true}, {Row: claims.Row{System: "redislock"}, Granted: 2}, {Row: claims.Row{System: "postgres advisory lock"}, Refused: `"deadlock detected"`}},
			Pooled: []claims.Pooled{{Row: claims.Row{System: "postgres advisory lock, pooled"}, Grants: 90, Double: 14, First: "unlock: no | way", Stuck: true, Stranded: 1},
				{Row: claims.Row{System: "postgres transaction lock, pooled"}, Grants: 80}},
			Failover: []claims.Failover{{Row: claims.Row{System: "redislock"}, Server: "the primary is killed", Trials: 5, Double: 5}, {Row: claims.Row{System: "locktree"}, Server: "the leader is killed", Trials: 1, Kept: 1},
				{Row: claims.Row{System: "redsync", Missing: "redis-server is not installed"}}}},
		Results: &bench.Results{
			Rounds: 3, Clients: map[string]string{"locktree": "this repository", "curator": "curator-recipes-5.4.0"},
			Servers: map[string]bench.Ground{
				"zookeeper": {Version: "Apache ZooKeeper 3.8.0", Durability: "written and synchronised to disk"},
				"redis":     {Missing: "redis-server is not installed:\napt-get install redis-server"},
			},
			Samples: []bench.Sample{
				sample(0, fast, "locktree", 1000, 800), sample(1, fast, "locktree", 900, 900), sample(2, fast, "locktree", 1200, 700),
				sample(0, fast, "curator", 1000, 900), broken, sample(2, fast, "curator", 800, 1000),
				uncounted, {Round: 1, Workload: fast, System: "kazoo", Missing: "lost the process"},
				{Workload: fast, System: "redis", Missing: "redis-server is not installed"},
				sample(0, due, "locktree", 100, 1000), sample(0, due, "curator", 100, 1500), sample(0, due, "requests", 100, 500),
			},
		},
	}
}

func TestRenderers(t *testing.T) {
	for name, render := range map[string]func(io.Writer, *Report){"targets.md": Targets, "page.md": Page} {
		var b bytes.Buffer
		render(&b, example())
		golden := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.WriteFile(golden, b.Bytes(), 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), b.String(), "go test ./report -update rewrites it")
	}
}

// What is written for machines has every sample, and what it is a sample of.
func TestJSONHasEverySample(t *testing.T) {
	var b bytes.Buffer
	JSON(&b, example())
	var back Report
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	want := example()
	require.Equal(t, want.Results, back.Results)
	require.Equal(t, want.Machine, back.Machine)
	require.Equal(t, want.Claims, back.Claims)
	require.Equal(t, want.Plan, back.Plan)
}

// A page can be rendered again, in other words, from what a run has kept.
func TestAPageIsRenderedFromItsSamples(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results.json")
	require.NoError(t, write(name, func(w io.Writer) error { JSON(w, example()); return nil }))
	r, err := Read(name)
	require.NoError(t, err)
	var systems []string
	for _, s := range r.Systems {
		systems = append(systems, s.Name)
	}
	require.Equal(t, []string{"locktree", "curator", "kazoo", "requests"}, systems, "those that there are, in their order")
	require.Len(t, r.Workloads, 1)
	require.Equal(t, bench.Alone, r.Workloads[0].Name)
	require.Equal(t, Spread{3, 1.5, 1, 1.8}, r.reached(targets[0]))
	require.NoError(t, os.WriteFile(name, []byte("{}"), 0o600))
	_, err = Read(name)
	require.ErrorContains(t, err, "is not the results.json of a run")
}

// A target about what no run measures would never be missed.
func TestEveryTargetIsOfWhatIsMeasured(t *testing.T) {
	for _, g := range targets {
		require.True(t, slices.ContainsFunc(bench.Workloads, func(w bench.Workload) bool {
			return w.Name == g.workload && (slices.Contains(w.Floors, g.beside) || slices.Contains([]string{"", "curator", "go-zookeeper"}, g.beside))
		}), g.workload)
		require.True(t, Targeted(g.workload, drivers.Ours))
	}
	require.False(t, Targeted(bench.Crowd, "curator"))
}

// A ratio is of two samples of one round: what a neighbour did to the machine in that round was done to both.
func TestARatioIsTakenWithinARound(t *testing.T) {
	r := example()
	rows := Rows(r.Results.Samples, r.Workloads[0], r.Systems)
	require.Equal(t, Spread{3, 1.5, 1, 1.8}, rows[1].Ratio) // 1000/1000, 900/500, 1200/800
	require.Zero(t, rows[0].Ratio, "nobody is compared with himself")
	require.Equal(t, "lost the process", rows[2].Missing, "beside the figures of the round that went well")
	require.Equal(t, 4.0, rows[2].Ratio.Median)
	require.Zero(t, rows[2].Requests.N)
	due := Rows(r.Results.Samples, r.Workloads[1], r.Systems)
	require.Equal(t, 1.5, due[1].Ratio.Median, "arrivals are as many for everybody, so waits are compared")
}
