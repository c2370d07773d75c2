package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// use is how a program uses a lock in the demo, and what is printed of it.
type use struct {
	recipes.Want
	what string
}

// demoLocks are those of examples/quickstart.
var demoLocks = []struct {
	kind        *kind.Kind
	path        string
	first, rest use // of the first program, and of the others
	times       int
}{
	{kind.Mutex, "/locks/payments/ledger", use{what: "holds the lock"}, use{what: "holds the lock"}, 2},
	{kind.RWLock, "/locks/payments/catalog", use{what: "writes, alone"}, use{recipes.Want{Shared: true}, "reads"}, 1},
	{kind.Semaphore, "/locks/payments/workers", use{recipes.Want{Permits: 2}, "has 2 of 3"}, use{recipes.Want{Permits: 1}, "has 1 of 3"}, 1},
	{kind.Election, "/locks/payments/scheduler", use{what: "leads"}, use{what: "leads"}, 1},
}

// demoWork is how long a holder of the demo keeps a lock: long enough that the
// others queue, short enough that nobody waits for the demo.
const demoWork = 40 * time.Millisecond

// demoSession is the programs' session timeout: as long as the server grants, so that the demo goes on after a machine
// that slept or swapped. Nothing in it waits for a session to end.
const demoSession = 40 * time.Second

// fleet is a few programs, each with a session of its own, and the output they share.
type fleet struct {
	mu      sync.Mutex
	out     io.Writer
	clients []*recipes.Client
}

func newFleet(ctx context.Context, out io.Writer, addr string, n int) (*fleet, error) {
	f := &fleet{out: out}
	for i := range n {
		c, err := recipes.Dial(ctx, recipes.Config{
			Servers: []string{addr}, SessionTimeout: demoSession, ConnectTimeout: 30 * time.Second, ID: fmt.Sprintf("program-%d", i+1),
		})
		if err != nil {
			f.close()
			return nil, err
		}
		f.clients = append(f.clients, c)
	}
	return f, nil
}

func (f *fleet) close() {
	var all sync.WaitGroup
	for _, c := range f.clients {
		all.Go(func() { c.Close() })
	}
	all.Wait()
}

// contend lets all programs take each lock, all at the same time.
func (f *fleet) contend(ctx context.Context) error {
	for _, lock := range demoLocks {
		fmt.Fprintln(f.out)
		errs := make([]error, len(f.clients))
		var wg sync.WaitGroup
		for i, c := range f.clients {
			u := lock.rest
			if i == 0 {
				u = lock.first
			}
			wg.Go(func() {
				for range lock.times {
					l, err := c.Take(ctx, lock.kind, lock.path, u.Want)
					if err != nil {
						errs[i] = err
						return
					}
					f.print(lock.kind.Name, i, u.what, l.Token())
					errs[i] = errors.Join(errs[i], work(l.Context()), l.Unlock(ctx))
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) print(lock string, program int, what string, token uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.out, "  %-10s program-%d  %-18s token %d\n", lock, program+1, what, token)
}

// work is cut short when the lock is lost.
func work(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(demoWork):
		return nil
	}
}

// live lets the programs take one lock after the other, each for some seconds, until ctx ends.
func (f *fleet) live(ctx context.Context) {
	var wg sync.WaitGroup
	for i, c := range f.clients {
		wg.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				lock := demoLocks[n%len(demoLocks)]
				l, err := c.Take(ctx, lock.kind, lock.path, lock.rest.Want)
				if err != nil {
					continue // ctx has ended, or the machine slept
				}
				select {
				case <-l.Context().Done():
				case <-ctx.Done():
				case <-time.After(time.Second + rand.N(5*time.Second)):
				}
				_ = l.Unlock(ctx) // which deletes the node also when ctx has ended
			}
		})
	}
	wg.Wait()
}

// holdEverything lets the first program take one of each, and the second queue behind
// its mutex. It returns when the queue has formed; release gives everything back and
// waits for the one in the queue.
func (f *fleet) holdEverything(ctx context.Context) (release func(), err error) {
	var held []*recipes.Lease
	for _, lock := range demoLocks {
		l, err := f.clients[0].Take(ctx, lock.kind, lock.path, lock.rest.Want)
		if err != nil {
			return nil, err
		}
		held = append(held, l)
	}
	mutex := demoLocks[0].path
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		if l, err := f.clients[1].Mutex(mutex).Lock(ctx); err == nil {
			l.Unlock(ctx)
		}
	}()
	if err := awaitWaiter(ctx, f.clients[2], mutex); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() {
		for _, l := range held {
			l.Unlock(ctx)
		}
		<-waiting
	}), nil
}

// awaitWaiter returns once somebody queues for the lock.
func awaitWaiter(ctx context.Context, c *recipes.Client, path string) (err error) {
	var in *inspect.Report
	return cmp.Or(lookUntil(ctx, func() bool {
		in, err = inspect.Lock(ctx, c, path)
		return err != nil || len(in.Waiters) > 0
	}), err)
}
