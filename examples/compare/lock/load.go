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

// worker locks and unlocks until the load is stopped.
type worker struct {
	r     *Running
	i     int
	locks []int // indexes into r.inside
	ways  []way
}

// way is a locker and what its holder counts for: no more than limit may be inside.
type way struct {
	locker        Locker
	weight, limit int64
}

func (r *Running) worker(ctx context.Context, i int, name string) (*worker, error) {
	l := r.load
	w := &worker{r: r, i: i}
	var names []string
	for k := range max(1, l.Set) {
		w.locks = append(w.locks, (i+k)%l.Locks)
	}
	slices.Sort(w.locks) // for drivers that take them one after the other
	for _, k := range w.locks {
		names = append(names, fmt.Sprintf("%s-%d", name, k))
	}
	kinds := map[string]way{l.Kind: {weight: 1, limit: 1}}
	switch l.Kind {
	case Semaphore:
		kinds = map[string]way{Semaphore: {weight: 1, limit: int64(l.Permits)}}
	case "rw":
		all := int64(l.Workers)
		kinds = map[string]way{Write: {weight: all, limit: all}, Read: {weight: 1, limit: all}}
	}
	for _, kind := range []string{Write, Read, Mutex, Semaphore, Set} { // a writer first
		way, ok := kinds[kind]
		if !ok {
			continue
		}
		var err error
		way.locker, err = r.clients[i%len(r.clients)].Locker(ctx, What{Kind: kind, Names: names, Permits: l.Permits, Handoff: l.Handoff})
		if err != nil {
			return nil, err
		}
		w.ways = append(w.ways, way)
	}
	return w, nil
}

func (w *worker) run(begin time.Time) {
	r, ctx := w.r, context.Background()
	for n := 0; ; n++ {
		intended := time.Now()
		if r.load.Rate > 0 {
			// Worker i has every Workers-th arrival of the schedule, and the wait of one who is late counts from there.
			arrival := n*r.load.Workers + w.i
			intended = begin.Add(time.Duration(arrival) * time.Second / time.Duration(r.load.Rate))
			time.Sleep(time.Until(intended))
		}
		select {
		case <-r.stop:
			return
		default:
		}
		turn := w.ways[0]
		if len(w.ways) > 1 && (n+w.i)%r.load.Reads != 0 {
			turn = w.ways[1]
		}
		w.waits(intended)
		err := turn.locker.Lock(ctx)
		w.waits(time.Time{})
		if err != nil {
			r.failed(fmt.Errorf("lock: %w", err))
			continue
		}
		wait := time.Since(intended)
		w.enter(turn)
		if r.load.Hold > 0 {
			time.Sleep(r.load.Hold)
		}
		w.leave(turn)
		if err := turn.locker.Unlock(ctx); err != nil {
			r.failed(fmt.Errorf("unlock: %w", err))
			continue
		}
		r.mu.Lock()
		_ = r.waits.RecordValue(min(wait.Microseconds(), r.waits.HighestTrackableValue()))
		r.cycles.Add(1)
		r.each[w.i]++
		r.mu.Unlock()
	}
}

func (w *worker) waits(since time.Time) {
	w.r.mu.Lock()
	w.r.since[w.i] = since
	w.r.mu.Unlock()
}

// enter notices who else is inside.
func (w *worker) enter(t way) {
	for _, k := range w.locks {
		if w.r.inside[k].Add(t.weight) > t.limit {
			w.r.overlaps.Add(1)
		}
	}
}

func (w *worker) leave(t way) {
	for _, k := range w.locks {
		w.r.inside[k].Add(-t.weight)
	}
}
