//go:build linux

package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/locktree/locktree/examples/compare/bench"
	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Fair is how a lock goes from hand to hand, where there is always somebody who wants it.
type Fair struct {
	Row
	Sample bench.Sample
}

// held is how long each holder keeps the lock: long enough that what the systems do beside each other does not matter.
const held = 10 * time.Millisecond

// Fair lets eight clients of each system contend for a lock.
func (e *Env) Fair(window time.Duration) []Fair {
	return each(e, e.measured(false), true, func(s drivers.System, f *Fair) {
		e.Tell("fairness: %s", s.Name)
		p := lock.Must(lock.Spawn(e.command(s, drivers.TTL), patience/3))
		defer p.Kill()
		lock.Check(p.Start(e.Servers[s.Server].Addrs, "fair", lock.Load{Clients: 8, Workers: 8, Locks: 1, Hold: held}, 0))
		f.Sample.Take(p, e.Servers[s.Server], window)
		f.Missing = f.Sample.Missing
	})
}

// Least and Most are the grants of the least and the most lucky.
func (f *Fair) Least() int64 { return slices.Min(f.Sample.Each) }
func (f *Fair) Most() int64  { return slices.Max(f.Sample.Each) }

// Waited is the longest wait in grants to others.
func (f *Fair) Waited() float64 { return f.Sample.Longest.Seconds() * f.Sample.PerSecond() }

// handover is from a release to the next grant, on average.
func (f *Fair) handover() time.Duration {
	return max(0, f.Sample.Window/time.Duration(max(1, f.Sample.Cycles))-held)
}

// Pooled is what becomes of PostgreSQL's advisory lock behind a pool of connections.
type Pooled struct {
	Row
	lock.Result
	Stranded int // locks that the server keeps after all clients have left
}

// Pool puts a load on it, four workers with connections of their own, and counts.
func (e *Env) Pool(window time.Duration) []Pooled {
	return each(e, []drivers.System{drivers.Pooled}, false, func(s drivers.System, p *Pooled) {
		scope := &server.Scope{}
		defer scope.Close()
		up := lock.Must(server.Start(scope, s.Server, 1))
		clients := lock.Must(lock.Spawn(e.command(s, e.TTL), e.TTL))
		defer clients.Kill()
		load := lock.Load{Clients: 4, Workers: 4, Locks: 1, Hold: time.Millisecond}
		// Start fails where not everybody has had a turn in time: what has been counted by then is wanted all the same.
		if err := clients.Start(up.Addrs[:1], "pooled", load, 0); errors.Is(err, lock.ErrLost) {
			lock.Check(err)
		}
		p.Result = lock.Must(clients.Measure(window))
		clients.Kill()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		db := lock.Must(pgx.Connect(ctx, "postgres://compare@"+up.Addrs[1]+"/postgres"))
		defer db.Close(ctx)
		// The pool notices that its clients are gone, and ends what they were waiting for.
		for range 20 {
			lock.Check(db.QueryRow(ctx, "select count(*) from pg_locks where locktype = 'advisory' and granted").Scan(&p.Stranded))
			if p.Stranded == 0 {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// Idle is what locks cost that one program holds and does nothing with.
type Idle struct {
	Row
	Requests float64 // that pass by in a second
	Gone     bool    // after one time to live and a little another could take one
}

// locks that each program holds.
const locks = 1000

// Idle lets a program hold that many locks of each system.
func (e *Env) Idle() []Idle {
	// On ZooKeeper a session is what is kept alive, so one raw client is enough.
	systems := slices.DeleteFunc(e.measured(true), func(s drivers.System) bool { return s.Server == "zookeeper" && !s.Client })
	return each(e, systems, true, func(s drivers.System, i *Idle) {
		e.Tell("idle locks: %s", s.Name)
		scope, up := &server.Scope{}, e.Servers[s.Server]
		defer scope.Close()
		relay := lock.Must(server.Away(scope, up.Addrs, 0))
		keeper, rival := s.Driver(relay.Addrs, e.TTL), s.Driver(up.Addrs, e.TTL)
		defer rival.Close()
		defer keeper.Close()
		l := keeper.Locker("idle-0")
		for n := range locks {
			if n > 0 {
				l = another(keeper, l, fmt.Sprint("idle-", n))
			}
			lock.Check(l.Lock(context.Background()))
		}
		passed := func() int64 { return relay.Sent.Pieces.Load() + relay.Sent.Pings.Load() }
		// What follows a grant, such as a watch, is over when hardly anything passes by any more.
		for last, limit := int64(-10), time.Now().Add(patience); passed()-last > 5 && time.Now().Before(limit); {
			last = passed()
			time.Sleep(e.TTL / 16)
		}
		before, begin := passed(), time.Now()
		time.Sleep(e.TTL)
		i.Requests = float64(passed()-before) / time.Since(begin).Seconds()
		granted, err := ask(rival.Locker("idle-0"), e.TTL/4)
		lock.Check(err)
		i.Gone = granted
	})
}
