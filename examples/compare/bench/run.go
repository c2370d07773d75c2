//go:build linux

// Package bench runs workloads on lock services, by turns, and keeps what was measured.
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

// Workload is one kind of load, which the comparison runs on every system.
type Workload struct {
	Name      string
	Load      lock.Load
	RoundTrip time.Duration // between clients and servers, in addition to loopback
	Brief     bool          // part of a quick run
	Wide      bool          // also for lock services without ZooKeeper
}

// Workloads are all workloads.
var Workloads = []Workload{
	{Name: "Own lock, 1 worker", Brief: true, Wide: true, Load: lock.Load{Clients: 1, Workers: 1, Locks: 1}},
	{Name: "Own locks, 64 workers on 8 clients", Load: lock.Load{Clients: 8, Workers: 64, Locks: 64}},
	{Name: "One lock, 8 workers on 8 clients", Brief: true, Wide: true, Load: lock.Load{Clients: 8, Workers: 8, Locks: 1}},
	{Name: "Own lock, 1 worker, 1 ms away", Wide: true, RoundTrip: time.Millisecond, Load: lock.Load{Clients: 1, Workers: 1, Locks: 1}},
}

// Sample is one workload of one system in one round.
type Sample struct {
	lock.Result
	Missing          string  // why the rest is empty
	Requests, Events float64 // per cycle; negative if the server does not count them
}

// warm is how long a load runs before a sample, after its first cycles (see lock.Running.Warm).
const warm = 50 * time.Millisecond

// Plan is what to run.
type Plan struct {
	Systems   []drivers.System
	Workloads []Workload
	Rounds    int
	Window    time.Duration // of one sample
	WarmUp    time.Duration // how long each system's process warms up before the first round; a JVM takes ten times as long
	Limit     time.Duration // the time for an answer: the results leave out a slower system, and say so
	Members   int           // of the ZooKeeper ensemble
	Self      string        // this program
	Dir       string        // for compiled drivers
	// Tell reports progress.
	Tell func(format string, args ...any) `json:"-"`
}

// Results are all samples, and the servers that they were taken on.
type Results struct {
	Rounds  int                       // rounds that ended
	Samples map[string][]Sample       // by workload/system: one for each round
	Servers map[string]*server.Server // by name; they run until the scope ends
	Missing map[string]string         // by system, or workload/system: why it does not run
}

// Run runs the plan until the context ends. The results name each system that cannot run, with the reason.
func Run(ctx context.Context, scope *server.Scope, p Plan) *Results {
	r := &run{Plan: p, scope: scope, processes: map[string]*lock.Process{},
		out: &Results{Samples: map[string][]Sample{}, Servers: map[string]*server.Server{}, Missing: map[string]string{}}}
	for _, s := range p.Systems {
		r.prepare(s)
	}
	for round := range p.Rounds {
		for n, w := range p.Workloads {
			// The order of the systems differs each time: the first system has an idle server and an idle disk.
			for k := range p.Systems {
				if s := p.Systems[(k+round+n)%len(p.Systems)]; s.Client || w.Wide {
					if ctx.Err() != nil {
						return r.out
					}
					r.sample(w, s)
				}
			}
			p.Tell("round %d of %d: %s", round+1, p.Rounds, w.Name)
		}
		r.out.Rounds++
	}
	return r.out
}

type run struct {
	Plan
	scope     *server.Scope
	out       *Results
	processes map[string]*lock.Process
}

// prepare starts the server that a system needs, if it is not there.
func (r *run) prepare(s drivers.System) {
	if r.out.Servers[s.Server] == nil {
		r.Tell("starting %s", s.Server)
		up, err := server.Start(r.scope, s.Server, r.Members)
		if err != nil {
			up = &server.Server{Missing: err.Error()}
		}
		r.out.Servers[s.Server] = up
	}
	if r.out.Missing[s.Name] = r.out.Servers[s.Server].Missing; r.out.Missing[s.Name] == "" {
		r.warmUp(s)
	}
}

// warmUp starts the system's process, which is one for the whole run unless it is lost.
func (r *run) warmUp(s drivers.System) {
	if err := lock.Try(func() {
		r.Tell("warming up %s", s.Name)
		p := lock.Must(lock.Spawn(lock.Must(s.Command(r.Self, r.Dir, drivers.TTL)), r.Limit))
		r.scope.Cleanup(p.Kill)
		r.processes[s.Name] = p
		warm := r.WarmUp
		if s.Java != "" { // a JVM runs at a tenth of its speed for some seconds
			warm *= 10
		}
		lock.Check(p.Start(r.out.Servers[s.Server].Addrs, "warm-up", lock.Load{Clients: 4, Workers: 16, Locks: 16}, warm))
		lock.Check(p.Stop())
	}); err != nil {
		r.out.Missing[s.Name] = err.Error()
	}
}

// sample runs one workload of one system and keeps what came of it.
func (r *run) sample(w Workload, s drivers.System) {
	out, key := Sample{}, w.Name+"/"+s.Name
	if out.Missing = cmp.Or(r.out.Missing[s.Name], r.out.Missing[key]); out.Missing == "" {
		if err := lock.Try(func() { r.measure(w, s, &out) }); err != nil {
			out.Missing = err.Error()
			r.processes[s.Name].Kill() // its workers may still be busy
			r.warmUp(s)
			// Later rounds skip this system: it would fail again, and each failure costs the whole limit.
			r.out.Missing[key] = out.Missing
		}
	}
	r.out.Samples[key] = append(r.out.Samples[key], out)
}

func (r *run) measure(w Workload, s drivers.System, out *Sample) {
	p, up := r.processes[s.Name], r.out.Servers[s.Server]
	addrs := up.Addrs
	if w.RoundTrip > 0 {
		scope := &server.Scope{}
		defer scope.Close()
		addrs = lock.Must(server.Away(scope, up.Addrs, w.RoundTrip)).Addrs
	}
	lock.Check(p.Start(addrs, strings.NewReplacer(" ", "-", ",", "").Replace(w.Name), w.Load, warm))
	out.Take(p, up, r.Window)
	lock.Check(p.Stop())
}

// Take fills the sample from a window of time. On an error it panics; lock.Try returns the error. The counts of server
// and client are not read at the same instant, so Take divides the rates.
func (s *Sample) Take(p *lock.Process, up *server.Server, window time.Duration) {
	before, begin := up.Counts(), time.Now()
	s.Result = lock.Must(p.Measure(window))
	perCycle, counted := time.Since(begin).Seconds()*s.PerSecond(), up.Between(before, up.Counts())
	if s.Cycles == 0 {
		s.Missing = "nothing was granted within the window"
		return
	}
	s.Requests, s.Events = float64(counted.Requests)/perCycle, float64(counted.Events)/perCycle
}
