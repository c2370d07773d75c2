//go:build linux

// Package claims measures what is said of lock services.
package claims

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Results of all experiments.
type Results struct {
	TTL      time.Duration `json:"time_to_live_ns"` // of the locks and sessions that were paused, killed and kept
	Herd     []Release     `json:"herd,omitempty"`
	Paused   []Pause       `json:"paused,omitempty"`
	Fair     []Fair        `json:"fair,omitempty"`
	Killed   []Killed      `json:"killed,omitempty"`
	Idle     []Idle        `json:"idle,omitempty"`
	Crossed  []Crossed     `json:"crossed,omitempty"`
	Pooled   []Pooled      `json:"pooled,omitempty"`
	Failover []Failover    `json:"failover,omitempty"`
}

// Terms are the figures that the text about the experiments names.
func (r *Results) Terms() map[string]any {
	return map[string]any{"Crowd": crowd, "Handed": handed, "Held": held, "Enough": enough, "Deaf": deaf, "Observed": 3 * r.TTL}
}

// Handover is from a release to the next grant, locktree's being 1.
func (r *Results) Handover(of Fair) string {
	for _, f := range r.Fair {
		if f.System == drivers.Ours && f.Handover > 0 {
			return fmt.Sprintf("%.1f", float64(of.Handover)/float64(f.Handover))
		}
	}
	return "–"
}

// Row is what the rows of all experiments have.
type Row struct {
	System  string `json:"system"`
	Missing string `json:"missing,omitempty"` // why there is nothing else
}

func (r *Row) row() *Row { return r }

// try notes why an experiment failed.
func (r *Row) try(experiment func()) {
	if err := server.Try(experiment); err != nil {
		r.Missing = err.Error()
	}
}

// Env is what the experiments run on.
type Env struct {
	Self    string // this program, which is also the process of a driver in Go
	Dir     string // for what is compiled
	Systems []drivers.System
	Servers map[string]*server.Server // those that run, by name
	Missing map[string]string         // why a system does not run, by name: nobody waits for it again
	TTL     time.Duration             // how long a lock may outlive its holder
	Tell    func(format string, args ...any)
}

// patience bounds what must happen.
const patience = time.Minute

// Run runs all experiments. Those that wait for seconds to pass do so at the same time; what a server counts is counted
// while nobody else talks to it.
func (e *Env) Run(ctx context.Context, scope *server.Scope, quick bool) (r Results) {
	window, waiters, locks, trials := 3*time.Second, []int{10, 100, 1000}, 1000, 5
	if quick {
		window, waiters, trials = time.Second, []int{10, 100}, 2
	}
	r.TTL = e.TTL
	e.Tell("holders that are paused, killed and crossed; pools; servers that fail")
	var all sync.WaitGroup
	all.Go(func() { r.Paused = e.Paused() })
	all.Go(func() { r.Killed = e.Killed() })
	all.Go(func() { r.Crossed = e.Crossed() })
	all.Go(func() { r.Pooled = e.Pool(scope, window) })
	all.Go(func() { r.Failover = e.Failover(trials) })
	all.Wait()
	if ctx.Err() == nil {
		r.Fair = e.Fair(window)
	}
	if ctx.Err() == nil {
		r.Idle = e.Idle(locks)
	}
	if up := e.Servers["zookeeper"]; up != nil {
		limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		r.Herd = Herd(limited, up, waiters, e.Tell)
	}
	return r
}

// measured are the systems whose server runs; in Go only, if so.
func (e *Env) measured(inGo bool) (all []drivers.System) {
	for _, s := range e.Systems {
		if e.Servers[s.Server] != nil && (!inGo || s.Driver() != nil) {
			all = append(all, s)
		}
	}
	return all
}

// each runs an experiment for each system: at the same time, for a fact, or a wait of seconds; or one after the other for the
// systems of one server, for what the server counts.
func each[R any, P interface {
	*R
	row() *Row
}](systems []drivers.System, counted bool, measure func(drivers.System, P)) []R {
	rows, turns := make([]R, len(systems)), map[string]*sync.Mutex{}
	for _, s := range systems {
		turns[s.Server] = &sync.Mutex{}
	}
	var all sync.WaitGroup
	for i, s := range systems {
		all.Go(func() {
			if counted {
				turns[s.Server].Lock()
				defer turns[s.Server].Unlock()
			}
			row := P(&rows[i])
			row.row().System = s.Name
			row.row().try(func() { measure(s, row) })
		})
	}
	all.Wait()
	return rows
}

// command is what runs the system's process.
func (e *Env) command(s drivers.System, ttl time.Duration) []string {
	if why := e.Missing[s.Name]; why != "" {
		server.Check(errors.New(why))
	}
	return server.Must(s.Command(e.Self, e.Dir, ttl))
}

// role starts a process that does one thing with one lock. In other languages than Go it can hold one.
func (e *Env) role(role string, s drivers.System, addrs []string, name string, more ...string) *lock.Process {
	argv := append(e.command(s, e.TTL), role, strings.Join(addrs, ","), name)
	return server.Must(lock.Spawn(append(argv, more...), patience))
}
