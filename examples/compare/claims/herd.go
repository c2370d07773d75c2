//go:build linux

// Package claims measures what is said of lock services.
package claims

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Release is what one release costs, with so many clients waiting.
type Release struct {
	System   string `json:"system"`
	Waiters  int    `json:"waiters"`
	Events   int64  `json:"events"`   // sent to clients that watch: wake-ups
	Requests int64  `json:"requests"` // sent to the server, the release among them
	Bytes    int64  `json:"bytes"`    // to and from all clients
	Missing  string `json:"missing,omitempty"`
}

// herds are the ways to wait, with the folder in which each keeps its contenders.
var herds = []struct{ name, dir string }{
	{"all watch the parent", "/herd"},
	{"go-zookeeper", "/go-zookeeper"}, // watches the contender before it
	{drivers.Ours, "/locktree"},
}

// Herd measures a release with each number of waiters, for who waits in each way.
func Herd(ctx context.Context, up server.Server, waiters []int, tell func(string, ...any)) (all []Release) {
	for _, n := range waiters {
		for _, h := range herds {
			tell("herd: %d waiters, %s", n, h.name)
			r := Release{System: h.name, Waiters: n}
			if err := r.measure(ctx, up, h.dir); err != nil {
				r.Missing = err.Error()
			}
			all = append(all, r)
		}
	}
	return all
}

func (r *Release) measure(ctx context.Context, up server.Server, dir string) error {
	scope := &server.Scope{}
	defer scope.Close()
	relay, err := server.Away(scope, up.Addrs(), 0)
	if err != nil {
		return err
	}
	gate := make(chan struct{})
	driver := drivers.Herd(gate)
	if s, err := drivers.Find(r.System); err == nil && r.System != "all watch the parent" {
		driver = s.Driver()
	}
	q := &queue{driver: driver, addrs: relay.Addrs, name: fmt.Sprintf("queue-%d", r.Waiters), granted: make(chan lock.Locker, 2)}
	defer q.close()
	admin, _, err := zk.Connect(up.Addrs(), 30*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := q.join(ctx, r.Waiters+1); err != nil {
		return err
	}
	if err := q.stand(ctx, admin, dir+"/"+q.name, r.Waiters+1); err != nil {
		return err
	}
	close(gate)
	var holder lock.Locker
	select {
	case holder = <-q.granted:
	case <-ctx.Done():
		return ctx.Err()
	}
	before, err := settled(ctx, up, relay)
	if err != nil {
		return err
	}
	if err := holder.Unlock(ctx); err != nil {
		return err
	}
	select {
	case <-q.granted:
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := settled(ctx, up, relay)
	if err != nil {
		return err
	}
	counts := server.Between(up, before.Counts, after.Counts)
	r.Events, r.Requests, r.Bytes = counts.Events, counts.Requests-(after.pings-before.pings), after.bytes-before.bytes
	return nil
}

// queue is clients of which each waits for the one lock.
type queue struct {
	driver  lock.Driver
	addrs   []string
	name    string
	granted chan lock.Locker

	cancel  context.CancelFunc
	clients []lock.Client
	waiting sync.WaitGroup
}

func (q *queue) join(ctx context.Context, n int) error {
	ctx, q.cancel = context.WithCancel(ctx)
	for range n {
		c, err := q.driver.Dial(ctx, q.addrs)
		if err != nil {
			return err
		}
		q.clients = append(q.clients, c)
		l, err := c.Locker(ctx, lock.What{Kind: lock.Mutex, Names: []string{q.name}})
		if err != nil {
			return err
		}
		q.waiting.Go(func() {
			if err := l.Lock(ctx); err == nil {
				q.granted <- l
			}
		})
	}
	return nil
}

// stand waits until all have a place in the queue.
func (q *queue) stand(ctx context.Context, admin *zk.Conn, dir string, n int) error {
	for {
		children, _, err := admin.Children(dir)
		if len(children) == n {
			return nil
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d have a place in %s: %w", len(children), n, dir, ctx.Err())
		}
	}
}

// close ends the sessions, and with them all waits.
func (q *queue) close() {
	if q.cancel != nil {
		q.cancel()
	}
	var all sync.WaitGroup
	for _, c := range q.clients {
		all.Go(func() { _ = c.Close() })
	}
	all.Wait()
	go func() { // a second holder whom nobody expected
		for range q.granted {
		}
	}()
	q.waiting.Wait()
	close(q.granted)
}

type traffic struct {
	server.Counts
	bytes, pings int64
}

// settled waits until nothing goes to and fro any more, but for heartbeats, which come seconds apart. The questions it asks
// of the server are not in the counts.
func settled(ctx context.Context, up server.Server, relay *server.Distance) (t traffic, err error) {
	seen := func() int64 { return relay.ToClient.Load() + relay.ToServer.Load() }
	for still, last := 0, int64(-1); still < 10; {
		now := seen()
		if still++; now != last {
			still, last = 0, now
		}
		select {
		case <-time.After(30 * time.Millisecond):
		case <-ctx.Done():
			return t, ctx.Err()
		}
	}
	t.Counts, err = up.Counts()
	t.bytes, t.pings = seen(), relay.Pings.Load()/2 // each is answered
	return t, err
}
