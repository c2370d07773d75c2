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
	Woken    int    `json:"woken"`    // waiters that were sent an event
	Events   int64  `json:"events"`   // sent to all clients, the one that releases among them
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

// Whoever has seen a queue of crowd contenders may behave in another way than who has not, so that many releases come first.
const crowd, handed = 100, 40

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
	before := 0 // releases
	if r.Waiters >= crowd && dir != "/herd" {
		before = handed
	}
	q := &queue{driver: driver, addrs: relay.Addrs, name: fmt.Sprintf("queue-%d", r.Waiters), granted: make(chan turn, 2)}
	defer q.close()
	admin, _, err := zk.Connect(up.Addrs(), 30*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := q.join(ctx, before+r.Waiters+1); err != nil {
		return err
	}
	if err := q.stand(ctx, admin, dir+"/"+q.name, before+r.Waiters+1); err != nil {
		return err
	}
	close(gate)
	for range before {
		if err := q.handOn(ctx, nil); err != nil {
			return err
		}
	}
	var from traffic
	err = q.handOn(ctx, func() error { from, err = settled(ctx, up, relay); return err })
	if err == nil {
		_, err = q.next(ctx)
	}
	if err != nil {
		return err
	}
	after, err := settled(ctx, up, relay)
	if err != nil {
		return err
	}
	counts := server.Between(up, from.Counts, after.Counts)
	for i, n := range after.events {
		if n > from.events[i] && !q.held[i] {
			r.Woken++
		}
	}
	r.Events, r.Requests, r.Bytes = counts.Events, counts.Requests-(after.pings-from.pings)-(after.asked-1)*int64(len(up.Addrs())), after.bytes-from.bytes
	return nil
}

// turn is that of a client.
type turn struct {
	lock.Locker
	client int
}

// queue is clients of which each waits for the one lock.
type queue struct {
	driver  lock.Driver
	addrs   []string
	name    string
	granted chan turn
	held    map[int]bool // by client

	cancel  context.CancelFunc
	clients []lock.Client
	waiting sync.WaitGroup
}

func (q *queue) join(ctx context.Context, n int) error {
	ctx, q.cancel = context.WithCancel(ctx)
	q.held = map[int]bool{}
	for i := range n {
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
				q.granted <- turn{l, i}
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

// next is who holds next.
func (q *queue) next(ctx context.Context) (turn, error) {
	select {
	case t := <-q.granted:
		return t, nil
	case <-ctx.Done():
		return turn{}, ctx.Err()
	}
}

// handOn lets the next holder give the lock back, after something else if that is not nil.
func (q *queue) handOn(ctx context.Context, first func() error) error {
	t, err := q.next(ctx)
	if err == nil && first != nil {
		err = first()
	}
	if err != nil {
		return err
	}
	q.held[t.client] = true
	return t.Unlock(ctx)
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
	asked        int64   // how often the server was asked for its counts: each is a request to each server
	events       []int64 // by client
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
	for t.pings = -1; err == nil && t.pings != relay.Pings.Load() && ctx.Err() == nil; { // none came while the server was asked
		t.pings = relay.Pings.Load()
		t.Counts, err = up.Counts()
		t.asked++
	}
	t.bytes = seen()
	t.events = relay.Events()
	return t, err
}
