// Command herd counts the events that one release of a lock sends, for three ways to wait, on the in-memory server. It has no
// configuration and no generated handles. It declares one lock itself, and clients of all three ways queue there.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := showHerd(ctx, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// herdSizes are the numbers of clients that wait. More take longer and show nothing new.
var herdSizes = []int{10, 50, 200}

// herdLock takes the lock at dir and returns a function that releases it. The gate opens when all clients are in the queue.
// A textbook waiter sets its watch only then: otherwise every arrival would wake the clients before it.
type herdLock func(ctx context.Context, c *recipes.Client, dir string, gate <-chan struct{}) (unlock func() error, err error)

var herdWays = []struct {
	name string
	lock herdLock
}{
	{"all watch the parent", textbook(true)},
	{"each watches the one before it", textbook(false)},
	{"locktree", func(ctx context.Context, c *recipes.Client, dir string, _ <-chan struct{}) (func() error, error) {
		l, err := c.Mutex(dir).Lock(ctx)
		if err != nil {
			return nil, err
		}
		return func() error { return l.Unlock(ctx) }, nil
	}},
}

// showHerd counts the events, requests and bytes of one release, for each way to wait.
func showHerd(ctx context.Context, out io.Writer) error {
	fmt.Fprint(out, "One client holds a lock, the others wait for it. It releases the lock once, on an in-memory\n"+
		"ZooKeeper. One waiter can be next; how many events does that send?\n\n"+
		"  waiting  how they wait                      events  requests      bytes\n")
	for _, n := range herdSizes {
		for _, way := range herdWays {
			counts, err := countRelease(ctx, n, way.lock)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "  %7d  %-30s  %8d  %8d  %9d\n", n, way.name, counts.WatchEvents, counts.Total, counts.BytesIn+counts.BytesOut)
		}
	}
	fmt.Fprint(out, "\nA watch on the parent wakes every waiter, and the former holder with them; each of them lists the\n"+
		"whole queue again. That is the herd effect. A contender that watches the one before it wakes\n"+
		"alone. A locktree client also watches its own contender, to learn of a loss. So a release sends\n"+
		"a few events, however many clients wait.\n")
	return nil
}

// countRelease lets n clients queue behind a holder, and returns what the server counted for one release.
func countRelease(ctx context.Context, n int, lock herdLock) (counts zktest.Counts, err error) {
	const dir = "/herd"
	srv := zktest.New()
	defer srv.Close()
	if err := srv.Provision(dir, &kind.Payload{Params: &kind.MutexParams{}, Owner: kind.Owner{Stack: "herd", Addr: "mutex.herd"}}); err != nil {
		return counts, err
	}
	clients, closeAll, err := dial(ctx, srv.Addr(), n+1)
	defer closeAll()
	if err != nil {
		return counts, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	unlocks, gate := make(chan func() error, n+1), make(chan struct{})
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel(nil)
	for _, c := range clients {
		waiting.Go(func() {
			unlock, err := lock(ctx, c, dir, gate)
			if err != nil {
				cancel(err) // do not wait for a client that has failed
				return
			}
			unlocks <- unlock
		})
	}
	inQueue := func() int {
		node, _ := srv.Get(dir)
		return len(node.Children)
	}
	if err := lookUntil(ctx, func() bool { return inQueue() == n+1 }); err != nil {
		return counts, err
	}
	close(gate)
	unlock, err := nextHolder(ctx, srv, unlocks)
	if err != nil {
		return counts, err
	}
	srv.ResetCounts()
	if err := unlock(); err != nil {
		return counts, err
	}
	_, err = nextHolder(ctx, srv, unlocks)
	return srv.Counts(), err
}

// dial returns n clients, each with a session of its own, and how to close them.
func dial(ctx context.Context, addr string, n int) (clients []*recipes.Client, closeAll func(), err error) {
	for len(clients) < n && err == nil {
		var c *recipes.Client
		c, err = recipes.Dial(ctx, recipes.Config{Servers: []string{addr}, SessionTimeout: 30 * time.Second, ConnectTimeout: 30 * time.Second})
		if err == nil {
			clients = append(clients, c)
		}
	}
	return clients, func() {
		var all sync.WaitGroup
		for _, c := range clients {
			all.Go(func() { c.Close() })
		}
		all.Wait()
	}, err
}

// nextHolder waits for the next grant, and then until the server has had nothing to do for a while.
func nextHolder(ctx context.Context, srv *zktest.Server, unlocks <-chan func() error) (unlock func() error, err error) {
	select {
	case unlock = <-unlocks:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	last, still := -1, 0
	return unlock, lookUntil(ctx, func() bool {
		c := srv.Counts()
		if now := c.Total + c.WatchEvents; now != last {
			last, still = now, 0
		}
		still++
		return still > 20
	})
}

// lookUntil looks every few milliseconds.
func lookUntil(ctx context.Context, done func() bool) error {
	for !done() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// textbook is the lock of the articles: each client creates a sequential node, and the lowest node has the lock.
func textbook(parent bool) herdLock {
	return func(ctx context.Context, c *recipes.Client, dir string, gate <-chan struct{}) (func() error, error) {
		s, err := c.Session(ctx)
		if err != nil {
			return nil, err
		}
		node, err := s.Create(ctx, dir+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		if err != nil {
			return nil, err
		}
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return func() error { return s.Delete(ctx, node, -1) }, waitFirst(ctx, s, dir, path.Base(node), parent)
	}
}

// waitFirst waits until the node is the first in the queue. It watches the parent, or the node before it.
func waitFirst(ctx context.Context, s *direct.Session, dir, node string, parent bool) error {
	for {
		var queue []string
		var changed <-chan struct{}
		var err error
		if parent {
			queue, _, changed, err = s.ChildrenW(ctx, dir)
		} else {
			queue, _, err = s.Children(ctx, dir)
		}
		slices.Sort(queue)
		place := slices.Index(queue, node)
		if err == nil && place > 0 && !parent {
			_, _, changed, err = s.GetW(ctx, dir+"/"+queue[place-1])
		}
		if err == nil && place > 0 {
			<-changed
			err = ctx.Err()
		}
		if place <= 0 || err != nil && !errors.Is(err, zk.ErrNoNode) { // the node before has left since the list was read
			return err
		}
	}
}
