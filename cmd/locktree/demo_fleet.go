package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
)

// The locks of examples/quickstart.
const (
	demoLedger    = "/locks/payments/ledger"
	demoCatalog   = "/locks/payments/catalog"
	demoWorkers   = "/locks/payments/workers"
	demoScheduler = "/locks/payments/scheduler"
)

// demoWork is how long a holder of the demo keeps a lock: long enough that the
// others queue, short enough that nobody waits for the demo.
const demoWork = 40 * time.Millisecond

// demoSession is the programs' session timeout: as long as the server grants, so that the demo goes on after a machine
// that slept or swapped. Nothing of it waits for a session to end.
const demoSession = 40 * time.Second

// fleet is a few programs, each with a session of its own, and the paper they write on.
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
	for _, c := range f.clients {
		c.Close()
	}
}

func (f *fleet) print(lock string, program int, what string, token uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.out, "  %-10s program-%d  %-18s token %d\n", lock, program+1, what, token)
}

// contend lets every program take every lock once, all at the same time for each lock.
func (f *fleet) contend(ctx context.Context) error {
	for _, round := range []func(context.Context, int, *recipes.Client) error{f.mutex, f.rwlock, f.semaphore, f.election} {
		fmt.Fprintln(f.out)
		errs := make([]error, len(f.clients))
		var wg sync.WaitGroup
		for i, c := range f.clients {
			wg.Go(func() { errs[i] = round(ctx, i, c) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) mutex(ctx context.Context, i int, c *recipes.Client) error {
	for range 2 {
		err := c.Mutex(demoLedger).Do(ctx, func(ctx context.Context, l *recipes.Lease) error {
			f.print("mutex", i, "holds the lock", l.Token())
			return work(ctx)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) rwlock(ctx context.Context, i int, c *recipes.Client) error {
	rw := c.RWMutex(demoCatalog)
	lock, what := rw.RLock, "reads"
	if i == 0 {
		lock, what = rw.Lock, "writes, alone"
	}
	l, err := lock(ctx)
	if err != nil {
		return err
	}
	f.print("rwlock", i, what, l.Token())
	return errors.Join(work(l.Context()), l.Unlock(ctx))
}

func (f *fleet) semaphore(ctx context.Context, i int, c *recipes.Client) error {
	n := 1
	if i == 0 {
		n = 2
	}
	l, err := c.Semaphore(demoWorkers).Acquire(ctx, n)
	if err != nil {
		return err
	}
	f.print("semaphore", i, fmt.Sprintf("has %d of 3", n), l.Token())
	return errors.Join(work(l.Context()), l.Unlock(ctx))
}

func (f *fleet) election(ctx context.Context, i int, c *recipes.Client) error {
	l, err := c.Election(demoScheduler).Campaign(ctx)
	if err != nil {
		return err
	}
	f.print("election", i, "leads", l.Token())
	return errors.Join(work(l.Context()), l.Resign(ctx))
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

// holdEverything: the first program takes one of each, the second queues behind
// its mutex. It returns when the queue stands; release lets go of all of it and
// waits for the one in the queue.
func (f *fleet) holdEverything(ctx context.Context) (release func(), err error) {
	c := f.clients[0]
	var held []*recipes.Lease
	for _, take := range []func() (*recipes.Lease, error){
		func() (*recipes.Lease, error) { return c.Mutex(demoLedger).Lock(ctx) },
		func() (*recipes.Lease, error) { return c.RWMutex(demoCatalog).RLock(ctx) },
		func() (*recipes.Lease, error) { return c.Semaphore(demoWorkers).Acquire(ctx, 2) },
		func() (*recipes.Lease, error) {
			l, err := c.Election(demoScheduler).Campaign(ctx)
			if err != nil {
				return nil, err
			}
			return l.Lease, nil
		},
	} {
		l, err := take()
		if err != nil {
			return nil, err
		}
		held = append(held, l)
	}
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		if l, err := f.clients[1].Mutex(demoLedger).Lock(ctx); err == nil {
			l.Unlock(ctx)
		}
	}()
	if err := f.awaitWaiter(ctx); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() {
		for _, l := range held {
			l.Unlock(ctx)
		}
		<-waiting
	}), nil
}

// awaitWaiter returns once somebody queues for the ledger.
func (f *fleet) awaitWaiter(ctx context.Context) error {
	for {
		view, err := inspect.Lock(ctx, f.clients[2], demoLedger)
		if err != nil {
			return err
		}
		if len(view.Waiters) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
