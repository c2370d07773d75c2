//go:build linux

package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/examples/compare/bench"
	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Controls, one in each language, exclude no client. A load must notice that.
var controls = []drivers.System{
	{Name: "nothing", Server: "zookeeper", Driver: func([]string, time.Duration) lock.Client {
		done := func(context.Context) error { return nil }
		return lock.Client{Close: func() error { return nil }, Locker: func(string) lock.Locker { return lock.Locker{Lock: done, Unlock: done} }}
	}},
	{Name: "nothing in Java", Server: "zookeeper", Java: "Nothing"},
	{Name: "nothing in Python", Server: "zookeeper", Python: "driver_nothing"},
}

// The test binary is also the process of a Go system, or of a control.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "be" {
		drivers.All = append(drivers.All, controls...)
		main()
		return
	}
	code := m.Run()
	for _, scope := range scopes {
		scope.Close()
	}
	os.Exit(code)
}

// All tests share the servers.
var (
	starting sync.Mutex
	scopes   = map[string]*server.Scope{}
	started  = map[string]func() (*server.Server, error){}
)

func serverFor(t *testing.T, name string) *server.Server {
	t.Helper()
	starting.Lock()
	if started[name] == nil {
		scope := &server.Scope{}
		scopes[name] = scope
		started[name] = sync.OnceValues(func() (*server.Server, error) { return server.Start(scope, name, 1) })
	}
	start := started[name]
	starting.Unlock()
	up, err := start()
	require.NoError(t, err)
	return up
}

// patience limits a wait that hangs. Its passing proves nothing.
const patience = time.Minute

var load = lock.Load{Clients: 2, Workers: 4, Locks: 1, Hold: time.Millisecond}

// Every driver excludes, on a real server, with several clients. A driver that does not lock would have the best figures.
func TestEveryDriverExcludes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, s := range drivers.All {
		_, err := s.Command(self, dir, drivers.TTL) // compiles
		require.NoError(t, err)
	}
	for _, s := range slices.Concat(drivers.All, controls) {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			argv, err := s.Command(self, dir, drivers.TTL)
			require.NoError(t, err)
			p, err := lock.Spawn(argv, patience)
			require.NoError(t, err)
			defer p.Kill()
			control := strings.HasPrefix(s.Name, "nothing")
			require.NoError(t, p.Start(serverFor(t, s.Server).Addrs, "test", load, 0))
			var r lock.Result
			for until := time.Now().Add(patience); ; { // a busy machine may grant ten times in a window, one after another
				r, err = p.Measure(100 * time.Millisecond)
				require.NoError(t, err)
				require.Empty(t, r.First)
				if !control && r.Cycles > 0 || r.Overlaps > 0 || time.Now().After(until) {
					break
				}
			}
			require.Equal(t, control, r.Overlaps > 0, "%d of %d grants while another held the lock", r.Overlaps, r.Cycles)
			require.NoError(t, p.Stop())
		})
	}
}

// The row of a server that cannot start, or of a process that ends, says so. The others are measured.
func TestWhatFailsIsToldAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	scope := &server.Scope{}
	t.Cleanup(scope.Close)
	plan := bench.Plan{
		Systems:   append([]drivers.System{{Name: "nowhere", Server: "nosuch"}}, controls...),
		Workloads: []bench.Workload{{Name: "Own lock", Wide: true, Load: lock.Load{Clients: 1, Workers: 1, Locks: 1}}},
		Rounds:    2, Window: 50 * time.Millisecond, Limit: patience, Self: "/bin/false", Dir: t.TempDir(), Tell: t.Logf,
	}
	r := bench.Run(t.Context(), scope, plan)
	require.Len(t, r.Samples, len(plan.Systems))
	require.Empty(t, r.Servers["zookeeper"].Missing)
	require.Equal(t, `no server is called "nosuch"`, r.Servers["nosuch"].Missing)
	for key, samples := range r.Samples {
		require.Len(t, samples, 2)
		for _, s := range samples {
			switch key {
			case "Own lock/nowhere":
				require.Contains(t, s.Missing, "no server")
			case "Own lock/nothing":
				require.Contains(t, s.Missing, lock.ErrLost.Error())
			default:
				require.Empty(t, s.Missing, key)
				require.Positive(t, s.Cycles, key)
			}
		}
	}
}
