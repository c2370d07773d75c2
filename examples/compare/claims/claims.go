//go:build linux

// Package claims measures what is said of lock services.
package claims

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Results of all experiments.
type Results struct {
	TTL      time.Duration // of the locks and sessions that were paused, killed and kept
	Herd     []Release
	Paused   []Pause
	Fair     []Fair
	Killed   []Killed
	Idle     []Idle
	Crossed  []Crossed
	Pooled   []Pooled
	Failover []Failover
}

// Terms are the figures that the text about the experiments names.
func (r *Results) Terms() map[string]any {
	return map[string]any{"Crowd": crowd, "Handed": handed, "Held": held, "Enough": enough, "Deaf": deaf, "Observed": 3 * r.TTL, "Locks": locks}
}

// Handover is from a release to the next grant, locktree's being 1.
func (r *Results) Handover(of Fair) string {
	for _, f := range r.Fair {
		if f.System == drivers.Ours && f.handover() > 0 {
			return fmt.Sprintf("%.1f", float64(of.handover())/float64(f.handover()))
		}
	}
	return "–"
}

// Row is what the rows of all experiments have.
type Row struct {
	System  string
	Missing string // why there is nothing else
}

func (r *Row) row() *Row { return r }

// try notes why an experiment failed.
func (r *Row) try(experiment func()) {
	if err := lock.Try(experiment); err != nil {
		r.Missing = err.Error()
	}
}

// Env is what the experiments run on.
type Env struct {
	Self    string // this program, which is also the process of a driver in Go
	Dir     string // for what is compiled
	Systems []drivers.System
	Servers map[string]*server.Server // by name
	Missing map[string]string         // why a system does not run, by name: nobody waits for it again
	TTL     time.Duration             // how long a lock may outlive its holder
	Tell    func(format string, args ...any)
}

// patience bounds what must happen.
const patience = time.Minute

// Run runs all experiments. Those that wait for seconds to pass do so at the same time; what a server counts is counted
// while nobody else talks to it.
func (e *Env) Run(ctx context.Context, quick bool) (r Results) {
	window, waiters, trials := 3*time.Second, []int{10, 100, 1000}, 5
	if quick {
		window, waiters, trials = time.Second, []int{10, 100}, 2
	}
	r.TTL = e.TTL
	e.Tell("holders that are paused, killed and crossed; pools; servers that fail")
	var all sync.WaitGroup
	all.Go(func() { r.Paused = e.Paused() })
	all.Go(func() { r.Killed = e.Killed() })
	all.Go(func() { r.Crossed = e.Crossed() })
	all.Go(func() { r.Pooled = e.Pool(window) })
	all.Go(func() { r.Failover = e.Failover(trials) })
	all.Wait()
	if ctx.Err() == nil {
		r.Fair = e.Fair(window)
	}
	if ctx.Err() == nil {
		r.Idle = e.Idle()
	}
	if e.runs("zookeeper") {
		limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		r.Herd = Herd(limited, e.Servers["zookeeper"], waiters, e.Tell)
	}
	return r
}

func (e *Env) runs(server string) bool {
	up := e.Servers[server]
	return up != nil && up.Missing == ""
}

// measured are the systems whose server runs; in Go only, if so.
func (e *Env) measured(inGo bool) (all []drivers.System) {
	for _, s := range e.Systems {
		if e.runs(s.Server) && (!inGo || s.Driver != nil) {
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
}](e *Env, systems []drivers.System, counted bool, measure func(drivers.System, P)) []R {
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
			row.row().try(func() {
				if why := e.Missing[s.Name]; why != "" {
					lock.Check(errors.New(why))
				}
				measure(s, row)
			})
		})
	}
	all.Wait()
	return rows
}

// command is what runs the system's process.
func (e *Env) command(s drivers.System, ttl time.Duration) []string {
	return lock.Must(s.Command(e.Self, e.Dir, ttl))
}

// another is a lock of the holder of one.
func another(c lock.Client, of lock.Locker, name string) lock.Locker {
	if of.Also != nil {
		return of.Also(name)
	}
	return c.Locker(name)
}

// ask asks for a lock, for a while. A driver may not heed its context, and waits until its client is closed.
func ask(l lock.Locker, while time.Duration) (granted bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), while)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- l.Lock(ctx) }()
	select {
	case err := <-done:
		if err != nil && ctx.Err() != nil {
			return false, nil
		}
		return err == nil, err
	case <-time.After(while + time.Second):
		return false, nil
	}
}
