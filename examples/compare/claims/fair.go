//go:build linux

package claims

import (
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Fair is how a lock goes from hand to hand, where there is always somebody who wants it.
type Fair struct {
	System   string        `json:"system"`
	Window   time.Duration `json:"window_ns"`
	Each     []int64       `json:"grants_by_worker"`
	Requests float64       `json:"requests_per_grant"` // -1 where the server does not count them
	Handover time.Duration `json:"handover_ns"`        // from a release to the next grant, on average
	Longest  time.Duration `json:"longest_wait_ns"`    // of those that go on when the window ends, too
	Missing  string        `json:"missing,omitempty"`
}

// held is how long each holder keeps the lock: long enough that what the systems do beside each other does not matter.
const held = 10 * time.Millisecond

// Fair lets eight clients of each system contend for a lock.
func (e *Env) Fair(window time.Duration) []Fair {
	return byServer(e.measured(false), func(s drivers.System) Fair {
		e.Tell("fairness: %s", s.Name)
		f := Fair{System: s.Name, Window: window}
		if err := e.fair(s, &f); err != nil {
			f.Missing = err.Error()
		}
		return f
	})
}

func (e *Env) fair(s drivers.System, f *Fair) error {
	argv, err := e.command(s, drivers.TTL)
	if err != nil {
		return err
	}
	p, err := lock.Spawn(argv, patience/3)
	if err != nil {
		return err
	}
	defer p.Kill()
	up := e.Servers[s.Server]
	load := lock.Load{Kind: lock.Mutex, Clients: 8, Workers: 8, Locks: 1, Hold: held}
	if err := p.Start(up.Addrs(), "fair", load, 0); err != nil {
		return err
	}
	before, err := up.Counts()
	if err != nil {
		return err
	}
	r, err := p.Measure(f.Window)
	if err != nil {
		return err
	}
	after, err := up.Counts()
	if err != nil {
		return err
	}
	f.Each, f.Longest, f.Requests = r.Each, r.Longest, -1
	if n := server.Between(up, before, after).Requests; n >= 0 && r.Cycles > 0 {
		f.Requests = float64(n) / float64(r.Cycles)
	}
	if r.Cycles > 0 {
		f.Handover = max(0, r.Window/time.Duration(r.Cycles)-held)
	}
	return nil
}

// jain is Jain's index of fairness: 1 where all have the same, 1/n where one has everything.
func jain(each []int64) float64 {
	var sum, squares float64
	for _, n := range each {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(each)) * squares)
}
