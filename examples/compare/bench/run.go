//go:build linux

package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Plan is what to run.
type Plan struct {
	Systems   []drivers.System
	Workloads []Workload
	Rounds    int
	Window    time.Duration // of one sample
	Warm      time.Duration // before it, after every worker has had its turn
	WarmUp    time.Duration // of each system's process, which then stays; ten times as long of one that compiles as it runs
	Limit     time.Duration // for an answer: who needs longer is left out, and told so
	Members   int           // of the ZooKeeper ensemble
	Self      string        // this program
	Dir       string        // for what is compiled
	// Tell is called with what is going on.
	Tell func(format string, args ...any)
}

// Results are all samples, and on what they were taken.
type Results struct {
	Rounds  int               `json:"rounds"` // that ended
	Samples []Sample          `json:"samples"`
	Servers map[string]Ground `json:"servers"`
	Clients map[string]string `json:"clients"` // by system: library and version
	Missing map[string]string `json:"missing"` // by system, or system/workload: why it does not run
}

// Ground is what a system ran on.
type Ground struct {
	Version    string `json:"version"`
	Durability string `json:"durability"`
	Missing    string `json:"missing,omitempty"`
}

// Run runs the plan. What cannot run is in the results with the reason. The servers, by name, run until the scope ends.
func Run(ctx context.Context, scope *server.Scope, p Plan) (*Results, map[string]*server.Server, error) {
	r := &run{Plan: p, out: &Results{Servers: map[string]Ground{}, Clients: map[string]string{}, Missing: map[string]string{}}, servers: map[string]*server.Server{}, away: map[string][]string{},
		processes: map[string]*lock.Process{}}
	scope.Cleanup(r.end)
	r.scope = scope
	for _, s := range p.Systems {
		r.prepare(s)
	}
	for round := range p.Rounds {
		for n, w := range p.Workloads {
			// Another order each time: who comes first finds the server at rest, and the disk.
			order := slices.Clone(p.Systems)
			for k := range order {
				order[k] = p.Systems[(k+round+n)%len(order)]
			}
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, s := range order {
				if err := ctx.Err(); err != nil {
					return r.out, r.servers, err
				}
				if w.Has(s) {
					r.sample(round, w, s)
				}
			}
			p.Tell("round %d of %d: %s", round+1, p.Rounds, w.Name)
		}
		r.out.Rounds++
	}
	return r.out, r.servers, nil
}

type run struct {
	Plan
	scope     *server.Scope
	out       *Results
	servers   map[string]*server.Server
	away      map[string][]string // addresses by server and round trip
	processes map[string]*lock.Process
}

func (r *run) end() {
	for _, p := range r.processes {
		p.Kill()
	}
}

// prepare starts the server that a system needs, if it is not there.
func (r *run) prepare(s drivers.System) {
	r.out.Clients[s.Name] = s.Library()
	ground, known := r.out.Servers[s.Server]
	if !known {
		r.Tell("starting %s", s.Server)
		up, err := server.Start(r.scope, s.Server, r.Members)
		if err != nil {
			ground.Missing = err.Error()
		} else {
			r.servers[s.Server] = up
			ground = Ground{Version: up.Version, Durability: up.Durability}
		}
		r.out.Servers[s.Server] = ground
	}
	if ground.Missing != "" {
		r.out.Missing[s.Name] = ground.Missing
		return
	}
	r.warmUp(s)
}

func (r *run) warmUp(s drivers.System) {
	if err := server.Try(func() {
		p := r.process(s)
		r.Tell("warming up %s", s.Name)
		warm := r.WarmUp
		if s.Compiles() { // one that has not runs at a tenth of its speed for some seconds
			warm *= 10
		}
		server.Check(p.Start(r.servers[s.Server].Addrs, "warm-up", lock.Load{Clients: 4, Workers: 16, Locks: 16}, warm))
		server.Check(p.Stop())
	}); err != nil {
		r.out.Missing[s.Name] = err.Error()
	}
}

// process is that of the system: one for the whole run, unless it was lost.
func (r *run) process(s drivers.System) *lock.Process {
	if r.processes[s.Name] == nil {
		r.processes[s.Name] = server.Must(lock.Spawn(server.Must(s.Command(r.Self, r.Dir, drivers.TTL)), r.Limit))
	}
	return r.processes[s.Name]
}

func (r *run) addrs(s drivers.System, roundTrip time.Duration) []string {
	up := r.servers[s.Server]
	if roundTrip == 0 {
		return up.Addrs
	}
	key := fmt.Sprint(s.Server, roundTrip)
	if r.away[key] == nil {
		r.away[key] = server.Must(server.Away(r.scope, up.Addrs, roundTrip)).Addrs
	}
	return r.away[key]
}

// sample runs one workload of one system and keeps what came of it.
func (r *run) sample(round int, w Workload, s drivers.System) {
	out := Sample{Round: round, Workload: w.Name, System: s.Name}
	defer func() { r.out.Samples = append(r.out.Samples, out) }()
	if out.Missing = cmp.Or(r.out.Missing[s.Name], r.out.Missing[s.Name+"/"+w.Name]); out.Missing != "" {
		return
	}
	err := server.Try(func() { r.measure(w, s, &out) })
	if err == nil {
		return
	}
	out.Missing = err.Error()
	if p := r.processes[s.Name]; p != nil {
		p.Kill() // whatever its workers are still at
		delete(r.processes, s.Name)
		r.warmUp(s)
	}
	// It would not do better in the next round, and a limit was waited for.
	r.out.Missing[s.Name+"/"+w.Name] = out.Missing
}

func (r *run) measure(w Workload, s drivers.System, out *Sample) {
	p, addrs, up := r.process(s), r.addrs(s, w.RoundTrip), r.servers[s.Server]
	server.Check(p.Start(addrs, strings.NewReplacer(" ", "-", ",", "").Replace(w.Name), w.Load, r.Warm))
	before, begin := up.Counts(), time.Now()
	result := server.Must(p.Measure(r.Window))
	took := time.Since(begin)
	out.fill(result, up.Between(before, up.Counts()), took)
	server.Check(p.Stop())
}
