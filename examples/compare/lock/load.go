package lock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Load is what is put on a system: Workers goroutines, spread over Clients clients, lock and unlock.
type Load struct {
	Clients int           // sessions
	Workers int           // goroutines, or threads
	Locks   int           // worker i uses lock i modulo Locks
	Hold    time.Duration // how long the lock is kept
}

// Result is what a load did within a window of time.
type Result struct {
	Window   time.Duration
	Cycles   int64 // acquired and released
	Total    int64 // of them since the load began
	Errors   int64 // calls that failed
	Overlaps int64 // grants while another held the lock, since the load began
	First    string
	Each     []int64       // cycles by worker
	Longest  time.Duration // wait, of those that go on when the window ends, too
}

// Running is a load under way.
type Running struct {
	load    Load
	clients []Client
	stop    chan struct{}
	workers sync.WaitGroup
	inside  []atomic.Int64 // by lock: how many holders it has

	mu       sync.Mutex  // of all below
	sum      Result      // since the load began, but for Each and Longest, which are of the window
	waitsFor []time.Time // by worker: when its wait began; zero while it does not wait
}

// Start dials the clients and lets the workers begin. name sets the locks apart from those of other loads.
func Start(ctx context.Context, d Driver, addrs []string, name string, load Load) (*Running, error) {
	r := &Running{load: load, stop: make(chan struct{}), inside: make([]atomic.Int64, load.Locks), waitsFor: make([]time.Time, load.Workers)}
	r.sum.Each = make([]int64, load.Workers)
	lockers, err := r.open(ctx, d, addrs, name)
	if err != nil {
		_ = r.close() // what failed first is what matters
		return nil, err
	}
	for i, l := range lockers {
		r.workers.Go(func() { r.work(i, l) })
	}
	return r, nil
}

func (r *Running) open(ctx context.Context, d Driver, addrs []string, name string) (all []Locker, err error) {
	for range r.load.Clients {
		c, err := d(ctx, addrs)
		if err != nil {
			return nil, err
		}
		r.clients = append(r.clients, c)
	}
	for i := range r.load.Workers {
		l, err := r.clients[i%len(r.clients)].Locker(ctx, fmt.Sprintf("%s-%d", name, i%r.load.Locks))
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// Warm waits until there have been as many cycles as workers, so that all of them are under way, and then for a while.
func (r *Running) Warm(while, limit time.Duration) error {
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		cycles, first := r.sum.Cycles, r.sum.First
		r.mu.Unlock()
		if cycles >= int64(r.load.Workers) {
			break
		}
		if time.Now().After(end) {
			if first != "" {
				first = "; the first error: " + first
			}
			return fmt.Errorf("%d cycles of %d workers in %v%s", cycles, r.load.Workers, limit, first)
		}
	}
	time.Sleep(while)
	return nil
}

// Measure lets a window of time pass and says what was done in it.
func (r *Running) Measure(window time.Duration) Result {
	r.mu.Lock()
	clear(r.sum.Each)
	r.sum.Longest = 0
	before, begin := r.sum, time.Now()
	r.mu.Unlock()
	time.Sleep(window)
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.sum
	out.Window, out.Total = time.Since(begin), out.Cycles
	out.Cycles, out.Errors, out.Each = out.Cycles-before.Cycles, out.Errors-before.Errors, slices.Clone(out.Each)
	for _, since := range r.waitsFor {
		if !since.IsZero() {
			out.Longest = max(out.Longest, time.Since(since))
		}
	}
	return out
}

// Stop lets every worker finish what it is at, and closes the clients.
func (r *Running) Stop() error {
	close(r.stop)
	r.workers.Wait()
	return r.close()
}

func (r *Running) close() (err error) {
	for _, c := range r.clients {
		err = cmp.Or(err, c.Close())
	}
	return err
}

// work locks and unlocks until the load is stopped.
func (r *Running) work(i int, l Locker) {
	for {
		select {
		case <-r.stop:
			return
		default:
		}
		if err := r.cycle(i, l); err != nil {
			r.mu.Lock()
			r.sum.Errors, r.sum.First = r.sum.Errors+1, cmp.Or(r.sum.First, err.Error())
			r.mu.Unlock()
			time.Sleep(10 * time.Millisecond) // who fails at once must not keep the others from the processor
		}
	}
}

func (r *Running) cycle(i int, l Locker) error {
	ctx, inside := context.Background(), &r.inside[i%r.load.Locks]
	r.mu.Lock()
	r.waitsFor[i] = time.Now()
	r.mu.Unlock()
	err := l.Lock(ctx)
	together := err == nil && inside.Add(1) > 1
	r.mu.Lock()
	r.sum.Longest, r.waitsFor[i] = max(r.sum.Longest, time.Since(r.waitsFor[i])), time.Time{}
	if together {
		r.sum.Overlaps++
	}
	r.mu.Unlock()
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if r.load.Hold > 0 {
		time.Sleep(r.load.Hold)
	}
	inside.Add(-1)
	if err := l.Unlock(ctx); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.Cycles++
	r.sum.Each[i]++
	return nil
}
