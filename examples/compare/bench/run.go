//go:build linux

package bench

import (
	"cmp"
	"context"
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
	Limit     time.Duration // for an answer: a system that needs longer is left out, and told so
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
	r := &run{Plan: p, scope: scope, out: &Results{Servers: map[string]Ground{}, Clients: map[string]string{}, Missing: map[string]string{}},
		servers: map[string]*server.Server{}, away: map[string][]string{}, processes: map[string]*lock.Process{}}
	for _, s := range p.Systems {
		r.prepare(s)
	}
	for round := range p.Rounds {
		for n, w := range p.Workloads {
			// Another order each time: the first finds the server at rest, and the disk.
			for k := range p.Systems {
				if s := p.Systems[(k+round+n)%len(p.Systems)]; s.Client || w.Wide {
					if err := ctx.Err(); err != nil {
						return r.out, r.servers, err
					}
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
	away      map[string][]string // addresses a round trip away, by server and workload
	processes map[string]*lock.Process
}

// prepare starts the server that a system needs, if it is not there.
func (r *run) prepare(s drivers.System) {
	r.out.Clients[s.Name] = s.Library()
	if _, known := r.out.Servers[s.Server]; !known {
		r.Tell("starting %s", s.Server)
		if up, err := server.Start(r.scope, s.Server, r.Members); err != nil {
			r.out.Servers[s.Server] = Ground{Missing: err.Error()}
		} else {
			r.servers[s.Server], r.out.Servers[s.Server] = up, Ground{Version: up.Version, Durability: up.Durability}
		}
	}
	if missing := r.out.Servers[s.Server].Missing; missing != "" {
		r.out.Missing[s.Name] = missing
		return
	}
	r.warmUp(s)
}

// warmUp starts the system's process, which is one for the whole run unless it is lost.
func (r *run) warmUp(s drivers.System) {
	if err := server.Try(func() {
		r.Tell("warming up %s", s.Name)
		p := server.Must(lock.Spawn(server.Must(s.Command(r.Self, r.Dir, drivers.TTL)), r.Limit))
		r.scope.Cleanup(p.Kill)
		r.processes[s.Name] = p
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

// sample runs one workload of one system and keeps what came of it.
func (r *run) sample(round int, w Workload, s drivers.System) {
	out, key := Sample{Round: round, Workload: w.Name, System: s.Name}, s.Name+"/"+w.Name
	if out.Missing = cmp.Or(r.out.Missing[s.Name], r.out.Missing[key]); out.Missing == "" {
		if err := server.Try(func() { r.measure(w, s, &out) }); err != nil {
			out.Missing = err.Error()
			r.processes[s.Name].Kill() // whatever its workers are still at
			r.warmUp(s)
			// It would not do better in the next round, and a limit was waited for.
			r.out.Missing[key] = out.Missing
		}
	}
	r.out.Samples = append(r.out.Samples, out)
}

func (r *run) measure(w Workload, s drivers.System, out *Sample) {
	p, up := r.processes[s.Name], r.servers[s.Server]
	addrs, key := up.Addrs, s.Server+"/"+w.Name
	if w.RoundTrip > 0 {
		if r.away[key] == nil {
			r.away[key] = server.Must(server.Away(r.scope, up.Addrs, w.RoundTrip)).Addrs
		}
		addrs = r.away[key]
	}
	server.Check(p.Start(addrs, strings.NewReplacer(" ", "-", ",", "").Replace(w.Name), w.Load, r.Warm))
	before, begin := up.Counts(), time.Now()
	result := server.Must(p.Measure(r.Window))
	took := time.Since(begin)
	out.fill(result, up.Between(before, up.Counts()), took)
	server.Check(p.Stop())
}
