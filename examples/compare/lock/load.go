package lock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Load is what is put on a system: Workers goroutines, spread over Clients clients, lock and unlock.
type Load struct {
	Kind    string        // as in What; "rw" is one writer among Reads readers and writers
	Clients int           // sessions
	Workers int           // goroutines, or threads
	Locks   int           // worker i uses lock i modulo Locks
	Set     int           // how many locks one acquisition takes; all of Locks in turn
	Permits int           // of a semaphore
	Reads   int           // of so many acquisitions of a read-write lock, one writes
	Hold    time.Duration // how long the lock is kept
	Rate    int           // acquisitions a second of all workers together, on a schedule; 0 is as fast as it goes
	Handoff int           // as in What
}

// Result is what a load did within a window of time.
type Result struct {
	Window   time.Duration
	Cycles   int64 // acquired and released
	Total    int64 // of them since the load began
	Errors   int64 // calls that failed
	Overlaps int64 // grants while others held what excludes them, since the load began
	First    string
	// Waits, in microseconds, from the intended start of an acquisition to its grant.
	Waits *hdrhistogram.Histogram
	// Each has the cycles of every worker.
	Each []int64
	// Longest is the longest wait, of those that go on when the window ends, too.
	Longest time.Duration
}

// Running is a load under way.
type Running struct {
	load     Load
	clients  []Client
	stop     chan struct{}
	workers  sync.WaitGroup
	cycles   atomic.Int64
	errors   atomic.Int64
	overlaps atomic.Int64
	first    atomic.Pointer[string]
	inside   []atomic.Int64 // by lock: what the holders weigh

	mu    sync.Mutex
	waits *hdrhistogram.Histogram
	each  []int64     // cycles by worker
	since []time.Time // by worker: when its wait began; zero while it does not wait
}

// NewHistogram has three digits from a microsecond to ten minutes.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 600_000_000, 3) }

// Start dials the clients and lets the workers begin. name sets the locks apart from those of other loads.
func Start(ctx context.Context, d Driver, addrs []string, name string, load Load) (*Running, error) {
	r := &Running{load: load, stop: make(chan struct{}), inside: make([]atomic.Int64, load.Locks), waits: NewHistogram(),
		each: make([]int64, load.Workers), since: make([]time.Time, load.Workers)}
	for range load.Clients {
		c, err := d.Dial(ctx, addrs)
		if err != nil {
			return nil, errorsOf(r.close(), err)
		}
		r.clients = append(r.clients, c)
	}
	var workers []*worker
	for i := range load.Workers {
		w, err := r.worker(ctx, i, name)
		if err != nil {
			return nil, errorsOf(r.close(), err)
		}
		workers = append(workers, w)
	}
	begin := time.Now()
	for _, w := range workers {
		r.workers.Go(func() { w.run(begin) })
	}
	return r, nil
}

// errorsOf is the error that matters: the first one, not what closing after it said.
func errorsOf(_, err error) error { return err }

// Warm waits until there have been as many cycles as workers, so that all of them are under way, and then for a while.
func (r *Running) Warm(while, limit time.Duration) error {
	end := time.Now().Add(limit)
	for r.cycles.Load() < int64(r.load.Workers) {
		if time.Now().After(end) {
			err := fmt.Errorf("%d cycles of %d workers in %v", r.cycles.Load(), r.load.Workers, limit)
			if first := r.firstError(); first != "" {
				err = fmt.Errorf("%w; the first error: %s", err, first)
			}
			return err
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(while)
	return nil
}

// Measure lets a window of time pass and says what was done in it.
func (r *Running) Measure(window time.Duration) Result {
	r.mu.Lock()
	r.waits.Reset()
	clear(r.each)
	cycles, failed, begin := r.cycles.Load(), r.errors.Load(), time.Now()
	r.mu.Unlock()
	time.Sleep(window)
	r.mu.Lock()
	defer r.mu.Unlock()
	longest := time.Duration(r.waits.Max()) * time.Microsecond
	for _, since := range r.since {
		if !since.IsZero() {
			longest = max(longest, time.Since(since))
		}
	}
	return Result{
		Each: slices.Clone(r.each), Longest: longest, Window: time.Since(begin), Total: r.cycles.Load(), Cycles: r.cycles.Load() - cycles, Errors: r.errors.Load() - failed,
		Overlaps: r.overlaps.Load(), First: r.firstError(), Waits: hdrhistogram.Import(r.waits.Export()),
	}
}

// Stop lets every worker finish what it is at, and closes the clients.
func (r *Running) Stop() error {
	close(r.stop)
	r.workers.Wait()
	return r.close()
}

func (r *Running) close() (err error) {
	for _, c := range r.clients {
		if e := c.Close(); err == nil {
			err = e
		}
	}
	return err
}

func (r *Running) failed(err error) {
	text := err.Error()
	r.first.CompareAndSwap(nil, &text)
	r.errors.Add(1)
	time.Sleep(10 * time.Millisecond) // who fails at once must not keep the others from the processor
}

func (r *Running) firstError() string {
	if s := r.first.Load(); s != nil {
		return *s
	}
	return ""
}
