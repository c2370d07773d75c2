//go:build linux

package claims

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Fair is how a lock goes from hand to hand, where there is always somebody who wants it.
type Fair struct {
	Row
	Window   time.Duration `json:"window_ns"`
	Each     []int64       `json:"grants_by_worker"`
	Requests float64       `json:"requests_per_grant"` // -1 where the server does not count them
	Handover time.Duration `json:"handover_ns"`        // from a release to the next grant, on average
	Longest  time.Duration `json:"longest_wait_ns"`    // of those that go on when the window ends, too
}

// held is how long each holder keeps the lock: long enough that what the systems do beside each other does not matter.
const held = 10 * time.Millisecond

// Fair lets eight clients of each system contend for a lock.
func (e *Env) Fair(window time.Duration) []Fair {
	return each(e.measured(false), true, func(s drivers.System, f *Fair) {
		e.Tell("fairness: %s", s.Name)
		f.Window, f.Requests = window, -1
		p := server.Must(lock.Spawn(e.command(s, drivers.TTL), patience/3))
		defer p.Kill()
		up := e.Servers[s.Server]
		server.Check(p.Start(up.Addrs, "fair", lock.Load{Clients: 8, Workers: 8, Locks: 1, Hold: held}, 0))
		before := up.Counts()
		r := server.Must(p.Measure(window))
		n := up.Between(before, up.Counts()).Requests
		f.Each, f.Longest = r.Each, r.Longest
		if n >= 0 && r.Cycles > 0 {
			f.Requests = float64(n) / float64(r.Cycles)
		}
		if r.Cycles > 0 {
			f.Handover = max(0, r.Window/time.Duration(r.Cycles)-held)
		}
	})
}

// Least and Most are the grants of the least and the most lucky.
func (f *Fair) Least() int64 { return slices.Min(f.Each) }
func (f *Fair) Most() int64  { return slices.Max(f.Each) }

// Waited is the longest wait in grants to others.
func (f *Fair) Waited() float64 {
	all := int64(0)
	for _, n := range f.Each {
		all += n
	}
	return f.Longest.Seconds() / f.Window.Seconds() * float64(all)
}

// Pooled is what becomes of PostgreSQL's locks behind a pool of connections.
type Pooled struct {
	Row
	Grants   int64  `json:"grants"`
	Double   int64  `json:"double_grants"`
	First    string `json:"first_error,omitempty"`
	Stuck    bool   `json:"stuck"`    // within the time nobody was granted the lock any more
	Stranded int    `json:"stranded"` // locks that the server keeps after all clients have left
}

// Pool puts a load on each, four workers with connections of their own, and counts.
func (e *Env) Pool(scope *server.Scope, window time.Duration) (all []Pooled) {
	up, err := server.Start(scope, "pgbouncer", 1)
	for _, s := range drivers.Pooled {
		p := Pooled{Row: Row{System: s.Name}}
		p.try(func() {
			server.Check(err)
			e.pooled(s, up, window, &p)
		})
		all = append(all, p)
	}
	return all
}

func (e *Env) pooled(s drivers.System, up *server.Server, window time.Duration, p *Pooled) {
	clients := server.Must(lock.Spawn(e.command(s, e.TTL), e.TTL))
	defer clients.Kill()
	load := lock.Load{Clients: 4, Workers: 4, Locks: 1, Hold: time.Millisecond}
	// Start fails where not everybody has had a turn in time: what has been counted by then is wanted all the same.
	if err := clients.Start(up.Addrs[:1], "pooled", load, 0); errors.Is(err, lock.ErrLost) {
		server.Check(err)
	}
	r := server.Must(clients.Measure(window))
	p.Grants, p.Double, p.First, p.Stuck = r.Total, r.Overlaps, r.First, r.Cycles == 0
	clients.Kill()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	db := server.Must(pgx.Connect(ctx, "postgres://compare@"+up.Addrs[1]+"/postgres"))
	defer db.Close(ctx)
	// The pool notices that its clients are gone, and ends what they were waiting for.
	for range 20 {
		server.Check(db.QueryRow(ctx, "select count(*) from pg_locks where locktype = 'advisory' and granted").Scan(&p.Stranded))
		if p.Stranded == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
