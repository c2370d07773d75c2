//go:build linux

// Package claims measures claims about lock services.
package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/examples/compare/bench"
	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Results of all experiments.
type Results struct {
	TTL      time.Duration // see Env
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
	return map[string]any{"LongQueue": longQueue, "Releases": manyReleases, "Held": held, "StaleLimit": staleLimit, "WritesAfter": writesAfter, "Observed": 3 * r.TTL, "Locks": locks}
}

// Handover is the time from a release to the next grant, divided by that of locktree.
func (r *Results) Handover(of Fair) string {
	for _, f := range r.Fair {
		if f.System == drivers.Ours && f.handover() > 0 {
			return fmt.Sprintf("%.1f", float64(of.handover())/float64(f.handover()))
		}
	}
	return "–"
}

// Row has the columns that all experiments share.
type Row struct {
	System  string
	Missing string // why the rest is empty
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
	bench.Plan
	*bench.Results               // the servers, and why a system does not run
	TTL            time.Duration // how long a lock may outlive its holder
}

// patience is how long an experiment waits for something that must happen.
const patience = time.Minute

// Run runs all experiments. Experiments that mostly wait run at the same time. Experiments that use a server's counts have the
// server to themselves.
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

// measured are the systems whose server runs; with inGo, only those with a driver in Go.
func (e *Env) measured(inGo bool) (all []drivers.System) {
	for _, s := range e.Systems {
		if e.runs(s.Server) && (!inGo || s.Driver != nil) {
			all = append(all, s)
		}
	}
	return all
}

// forEach runs an experiment for all systems at the same time. With counted, the systems of one server take turns, because its
// counts are compared.
func forEach[R any, P interface {
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

// command is the command line of the system's process.
func (e *Env) command(s drivers.System, ttl time.Duration) []string {
	return lock.Must(s.Command(e.Self, e.Dir, ttl))
}

// oneMoreLocker makes one more lock for the holder of a lock.
func oneMoreLocker(c lock.Client, of lock.Locker, name string) lock.Locker {
	if of.Also != nil {
		return of.Also(name)
	}
	return c.Locker(name)
}

// ask waits for a lock for a while. Some drivers ignore their context: then the call waits until the client is closed.
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

// Fair is how a lock goes from hand to hand while others always wait for it.
type Fair struct {
	Row
	Sample bench.Sample
}

// held is how long each holder keeps the lock: so long that the load on the machine does not matter.
const held = 10 * time.Millisecond

// Fair lets eight clients of each system contend for a lock.
func (e *Env) Fair(window time.Duration) []Fair {
	return forEach(e, e.measured(false), true, func(s drivers.System, f *Fair) {
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

// Waited is the longest wait, measured as the number of grants to others meanwhile.
func (f *Fair) Waited() float64 { return f.Sample.Longest.Seconds() * f.Sample.PerSecond() }

// handover is the average time from a release to the next grant.
func (f *Fair) handover() time.Duration {
	return max(0, f.Sample.Window/time.Duration(max(1, f.Sample.Cycles))-held)
}

// Pooled is what PostgreSQL's advisory lock does behind a pool of connections.
type Pooled struct {
	Row
	lock.Result
}

// Pool puts a load of four workers, with connections of their own, on that lock, and counts.
func (e *Env) Pool(window time.Duration) []Pooled {
	return forEach(e, []drivers.System{drivers.Pooled}, false, func(s drivers.System, p *Pooled) {
		scope := &server.Scope{}
		defer scope.Close()
		up := lock.Must(server.Start(scope, s.Server, 1))
		clients := lock.Must(lock.Spawn(e.command(s, e.TTL), e.TTL))
		defer clients.Kill()
		// Start fails if the workers have made too few cycles in time. Few cycles are a result too, so Measure counts them.
		_ = clients.Start(up.Addrs, "pooled", lock.Load{Clients: 4, Workers: 4, Locks: 1, Hold: time.Millisecond}, 0)
		p.Result = lock.Must(clients.Measure(window))
	})
}

// Idle is the cost of locks that one program holds and does not use.
type Idle struct {
	Row
	Requests float64 // requests and pings in a second
	Gone     bool    // after a little more than one time to live, another program could take a lock
}

// locks is the number of locks that the program holds.
const locks = 1000

// Idle lets a program hold this many locks of each system.
func (e *Env) Idle() []Idle {
	// On ZooKeeper a client keeps only its session alive. So "all watch the parent" is left out: it uses the client of go-zookeeper,
	// and has the same figure.
	systems := slices.DeleteFunc(e.measured(true), func(s drivers.System) bool { return s.Server == "zookeeper" && !s.Client })
	return forEach(e, systems, true, func(s drivers.System, i *Idle) {
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
				l = oneMoreLocker(keeper, l, fmt.Sprint("idle-", n))
			}
			lock.Check(l.Lock(context.Background()))
		}
		passed := relay.Sent.Pieces.Load
		// A grant's late requests, such as watches, are over when hardly any packet passes.
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

// Release is what one release costs, with so many clients waiting.
type Release struct {
	Row
	Waiters  int
	Woken    int   // waiters that were sent something
	Events   int64 // sent to all clients, the one that releases among them
	Requests int64 // sent to the server, the release among them
	Bytes    int64 // to and from all clients
}

// herds are the ways to wait, and each one's folder of contenders.
var herds = []struct{ name, dir string }{
	{"all watch the parent", "/herd"},
	{"go-zookeeper", "/go-zookeeper"}, // watches the contender before it
	{drivers.Ours, "/locktree"},
}

// A client may behave differently after it has seen a queue of many contenders. So with at least longQueue waiters, there are
// manyReleases before the measured release.
const longQueue, manyReleases = 100, 40

// Herd measures a release with each number of waiters, for each way to wait.
func Herd(ctx context.Context, up *server.Server, waiters []int, tell func(string, ...any)) (all []Release) {
	for _, n := range waiters {
		for _, h := range herds {
			tell("herd: %d waiters, %s", n, h.name)
			r := Release{Row: Row{System: h.name}, Waiters: n}
			r.try(func() { r.measure(ctx, up, h.dir) })
			all = append(all, r)
		}
	}
	return all
}

func (r *Release) measure(ctx context.Context, up *server.Server, dir string) {
	scope := &server.Scope{}
	defer scope.Close()
	relay := lock.Must(server.Away(scope, up.Addrs, 0))
	gate := make(chan struct{})
	driver, before := drivers.Herd(gate), 0 // releases before the one that is measured
	if dir != "/herd" {
		driver = lock.Must(drivers.Find(r.System)).Driver
		if r.Waiters >= longQueue {
			before = manyReleases
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	name, n := fmt.Sprint("queue-", r.Waiters), before+r.Waiters+1
	granted, held := make(chan turn, n), map[int]bool{} // held by client
	var clients []lock.Client
	defer func() { // the sessions end, and with them all waits
		cancel()
		var all sync.WaitGroup
		for _, c := range clients {
			all.Go(func() { _ = c.Close() })
		}
		all.Wait()
	}()
	for i := range n {
		clients = append(clients, driver(relay.Addrs, drivers.TTL))
		l := clients[i].Locker(name)
		go func() {
			if l.Lock(ctx) == nil {
				granted <- turn{l, i}
			}
		}()
	}
	stand(ctx, up.Addrs, dir+"/"+name, n)
	close(gate)
	next := func() (t turn) {
		select {
		case t = <-granted:
		case <-ctx.Done():
			lock.Check(ctx.Err())
		}
		return t
	}
	release := func(t turn) {
		held[t.client] = true
		lock.Check(t.Unlock(ctx))
	}
	for range before {
		release(next())
	}
	holder := next()
	from := settled(ctx, up, relay)
	release(holder)
	next()
	after := settled(ctx, up, relay)
	for i, n := range after.heard {
		if n > from.heard[i] && !held[i] {
			r.Woken++
		}
	}
	counts := up.Between(from.Counts, after.Counts)
	r.Events, r.Requests, r.Bytes = counts.Events, counts.Requests-(after.pings-from.pings)-(after.asked-1)*int64(len(up.Addrs)), after.bytes-from.bytes
}

// turn is the lock in the hand of a client.
type turn struct {
	lock.Locker
	client int
}

// stand waits until all have a place in the queue.
func stand(ctx context.Context, addrs []string, dir string, n int) {
	admin, _, err := zk.Connect(addrs, 30*time.Second, zk.WithLogInfo(false))
	lock.Check(err)
	defer admin.Close()
	for {
		children, _, err := admin.Children(dir)
		if len(children) == n {
			return
		}
		if err != zk.ErrNoNode {
			lock.Check(err)
		}
		lock.Check(ctx.Err())
		time.Sleep(20 * time.Millisecond)
	}
}

type traffic struct {
	server.Counts
	bytes, pings int64
	asked        int64   // how often Counts was called: each call is a request to each server
	heard        []int64 // by client
}

// settled waits until only heartbeats pass, which come seconds apart. Its own requests for the counts are not in the
// counts.
func settled(ctx context.Context, up *server.Server, relay *server.Distance) (t traffic) {
	for still, last := 0, int64(-1); still < 10; still++ {
		if now := relay.Bytes(); now != last {
			still, last = 0, now
		}
		lock.Check(ctx.Err())
		time.Sleep(30 * time.Millisecond)
	}
	for t.pings = -1; t.pings != relay.Sent.Pings.Load() && ctx.Err() == nil; t.asked++ { // until no ping comes during a call of Counts
		t.pings = relay.Sent.Pings.Load()
		t.Counts = up.Counts()
	}
	t.bytes, t.heard = relay.Bytes(), relay.Heard()
	return t
}
