//go:build linux

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
	Row
	Waiters  int
	Woken    int   // waiters that were sent something
	Events   int64 // sent to all clients, the one that releases among them
	Requests int64 // sent to the server, the release among them
	Bytes    int64 // to and from all clients
}

// herds are the ways to wait, with the folder in which each keeps its contenders.
var herds = []struct{ name, dir string }{
	{"all watch the parent", "/herd"},
	{"go-zookeeper", "/go-zookeeper"}, // watches the contender before it
	{drivers.Ours, "/locktree"},
}

// A client that has seen a queue of crowd contenders may behave in another way than one that has not, so that many releases come first.
const crowd, handed = 100, 40

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
		if r.Waiters >= crowd {
			before = handed
		}
	}
	q := &queue{granted: make(chan turn, 2), held: map[int]bool{}}
	q.ctx, q.cancel = context.WithCancel(ctx)
	defer q.close()
	q.join(driver, relay.Addrs, fmt.Sprint("queue-", r.Waiters), before+r.Waiters+1)
	q.stand(up.Addrs, fmt.Sprint(dir, "/queue-", r.Waiters), before+r.Waiters+1)
	close(gate)
	for range before {
		q.release(q.next())
	}
	holder := q.next()
	from := settled(ctx, up, relay)
	q.release(holder)
	q.next()
	after := settled(ctx, up, relay)
	for i, n := range after.heard {
		if n > from.heard[i] && !q.held[i] {
			r.Woken++
		}
	}
	counts := up.Between(from.Counts, after.Counts)
	r.Events, r.Requests, r.Bytes = counts.Events, counts.Requests-(after.pings-from.pings)-(after.asked-1)*int64(len(up.Addrs)), after.bytes-from.bytes
}

// turn is that of a client.
type turn struct {
	lock.Locker
	client int
}

// queue is clients that each wait for the one lock.
type queue struct {
	ctx     context.Context
	cancel  context.CancelFunc
	granted chan turn
	held    map[int]bool // by client
	clients []lock.Client
	waiting sync.WaitGroup
}

func (q *queue) join(driver lock.Driver, addrs []string, name string, n int) {
	for i := range n {
		q.clients = append(q.clients, driver(addrs, drivers.TTL))
		l := q.clients[i].Locker(name)
		q.waiting.Go(func() {
			if err := l.Lock(q.ctx); err == nil {
				select {
				case q.granted <- turn{l, i}:
				case <-q.ctx.Done(): // a second holder that no one expected
				}
			}
		})
	}
}

// stand waits until all have a place in the queue.
func (q *queue) stand(addrs []string, dir string, n int) {
	admin, _, err := zk.Connect(addrs, 30*time.Second, zk.WithLogInfo(false))
	lock.Check(err)
	defer admin.Close()
	for {
		children, _, err := admin.Children(dir)
		if len(children) == n {
			return
		}
		if !errors.Is(err, zk.ErrNoNode) {
			lock.Check(err)
		}
		lock.Check(q.ctx.Err())
		time.Sleep(20 * time.Millisecond)
	}
}

// next is the next holder.
func (q *queue) next() (t turn) {
	select {
	case t = <-q.granted:
	case <-q.ctx.Done():
		lock.Check(q.ctx.Err())
	}
	return t
}

func (q *queue) release(t turn) {
	q.held[t.client] = true
	lock.Check(t.Unlock(q.ctx))
}

// close ends the sessions, and with them all waits.
func (q *queue) close() {
	q.cancel()
	var all sync.WaitGroup
	for _, c := range q.clients {
		all.Go(func() { _ = c.Close() })
	}
	all.Wait()
	q.waiting.Wait()
}

type traffic struct {
	server.Counts
	bytes, pings int64
	asked        int64   // how often the server was asked for its counts: each is a request to each server
	heard        []int64 // by client
}

// settled waits until nothing goes to and fro any more, but for heartbeats, which come seconds apart. The questions it asks
// of the server are not in the counts.
func settled(ctx context.Context, up *server.Server, relay *server.Distance) (t traffic) {
	for still, last := 0, int64(-1); still < 10; still++ {
		if now := relay.Bytes(); now != last {
			still, last = 0, now
		}
		lock.Check(ctx.Err())
		time.Sleep(30 * time.Millisecond)
	}
	for t.pings = -1; t.pings != relay.Sent.Pings.Load() && ctx.Err() == nil; t.asked++ { // none came while the server was asked
		t.pings = relay.Sent.Pings.Load()
		t.Counts = up.Counts()
	}
	t.bytes, t.heard = relay.Bytes(), relay.Heard()
	return t
}
