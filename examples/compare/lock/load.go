package lock

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Load is what is put on a system: Workers goroutines, spread over Clients clients, lock and unlock.
type Load struct {
	Kind    string        // as in What; "rw" is one writer among Reads readers and writers
	Clients int           // sessions
	Workers int           // goroutines, or threads
	Locks   int           // worker i uses lock i modulo Locks
	Set     int           // how many locks one acquisition takes; all of Locks in turn
	Stream  int           // so many locks of its own are what a worker goes through, again and again; 0: it stays with one
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
	Waits    Waits         // from the intended start of an acquisition to its grant
	Each     []int64       // cycles by worker
	Longest  time.Duration // wait, of those that go on when the window ends, too
}

// Waits are waits in microseconds, in which only the first eleven bits may be set, and how often each was; the shortest first.
type Waits [][2]int64

// Percentile is the shortest wait that so many percent of all do not exceed.
func (w Waits) Percentile(percent int64) (wait int64) {
	var all, seen int64
	for _, each := range w {
		all += each[1]
	}
	for _, each := range w {
		if seen*100 < all*percent {
			seen, wait = seen+each[1], each[0]
		}
	}
	return wait
}

// Running is a load under way.
type Running struct {
	load    Load
	clients []Client
	stop    chan struct{}
	workers sync.WaitGroup
	inside  []atomic.Int64 // by lock: what the holders weigh

	mu                       sync.Mutex // of all below
	cycles, errors, overlaps int64
	first                    string // error
	waits                    map[int64]int64
	each                     []int64     // cycles by worker
	since                    []time.Time // by worker: when its wait began; zero while it does not wait
}

// Start dials the clients and lets the workers begin. name sets the locks apart from those of other loads.
func Start(ctx context.Context, d Driver, addrs []string, name string, load Load) (*Running, error) {
	r := &Running{load: load, stop: make(chan struct{}), inside: make([]atomic.Int64, load.Locks), waits: map[int64]int64{},
		each: make([]int64, load.Workers), since: make([]time.Time, load.Workers)}
	for range load.Clients {
		c, err := d(ctx, addrs)
		if err != nil {
			_ = r.close() // what failed first is what matters
			return nil, err
		}
		r.clients = append(r.clients, c)
	}
	var workers []*worker
	for i := range load.Workers {
		w, err := r.worker(ctx, i, name)
		if err != nil {
			_ = r.close()
			return nil, err
		}
		workers = append(workers, w)
	}
	begin := time.Now()
	for _, w := range workers {
		r.workers.Go(func() { w.run(begin) })
	}
	return r, nil
}

// Warm waits until there have been as many cycles as workers, so that all of them are under way, and then for a while.
func (r *Running) Warm(while, limit time.Duration) error {
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		cycles, first := r.cycles, r.first
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
	clear(r.waits)
	clear(r.each)
	cycles, failed, begin := r.cycles, r.errors, time.Now()
	r.mu.Unlock()
	time.Sleep(window)
	r.mu.Lock()
	defer r.mu.Unlock()
	window = time.Since(begin) // what follows keeps the workers waiting
	var waits Waits
	for _, wait := range slices.Sorted(maps.Keys(r.waits)) {
		waits = append(waits, [2]int64{wait, r.waits[wait]})
	}
	longest := time.Duration(waits.Percentile(100)) * time.Microsecond
	for _, since := range r.since {
		if !since.IsZero() {
			longest = max(longest, time.Since(since))
		}
	}
	return Result{Window: window, Cycles: r.cycles - cycles, Total: r.cycles, Errors: r.errors - failed, Overlaps: r.overlaps,
		First: r.first, Waits: waits, Each: slices.Clone(r.each), Longest: longest}
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

func (r *Running) failed(err error) {
	r.mu.Lock()
	r.errors, r.first = r.errors+1, cmp.Or(r.first, err.Error())
	r.mu.Unlock()
	time.Sleep(10 * time.Millisecond) // who fails at once must not keep the others from the processor
}

// worker locks and unlocks until the load is stopped.
type worker struct {
	r        *Running
	i        int
	stations []station // one, or those of a stream, by turns
}

// station is what a worker locks at one time.
type station struct {
	locks []int // indexes into Running.inside
	ways  []way
}

// way is a kind of lock, and what its holder counts for: no more than limit may be inside.
type way struct {
	kind          string
	weight, limit int64
	locker        Locker
}

func (r *Running) worker(ctx context.Context, i int, name string) (*worker, error) {
	w := &worker{r: r, i: i}
	for n := range max(1, r.load.Stream) {
		s, err := r.station(ctx, i, n, name)
		if err != nil {
			return nil, err
		}
		w.stations = append(w.stations, s)
	}
	return w, nil
}

// station is the nth of worker i.
func (r *Running) station(ctx context.Context, i, n int, name string) (station, error) {
	l := r.load
	s := station{ways: []way{{kind: l.Kind, weight: 1, limit: 1}}}
	switch all := int64(l.Workers); l.Kind {
	case Semaphore:
		s.ways[0].limit = int64(l.Permits)
	case "rw":
		s.ways = []way{{kind: Write, weight: all, limit: all}, {kind: Read, weight: 1, limit: all}} // a writer first
	}
	for k := range max(1, l.Set) {
		s.locks = append(s.locks, (i+n*l.Workers+k)%l.Locks)
	}
	slices.Sort(s.locks) // for drivers that take them one after the other
	var names []string
	for _, k := range s.locks {
		names = append(names, fmt.Sprintf("%s-%d", name, k))
	}
	for k, way := range s.ways {
		var err error
		s.ways[k].locker, err = r.clients[i%len(r.clients)].Locker(ctx, What{Kind: way.kind, Names: names, Worker: i, Own: l.Locks >= l.Workers && l.Set == 0, Permits: l.Permits, Handoff: l.Handoff})
		if err != nil {
			return s, err
		}
	}
	return s, nil
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
		at := w.stations[n%len(w.stations)]
		turn := at.ways[0]
		if len(at.ways) > 1 && (n+w.i)%r.load.Reads != 0 {
			turn = at.ways[1]
		}
		w.waits(intended)
		err := turn.locker.Lock(ctx)
		w.waits(time.Time{})
		if err != nil {
			r.failed(fmt.Errorf("lock: %w", err))
			continue
		}
		wait := time.Since(intended)
		r.enter(at.locks, turn)
		if r.load.Hold > 0 {
			time.Sleep(r.load.Hold)
		}
		r.leave(at.locks, turn)
		if err := turn.locker.Unlock(ctx); err != nil {
			r.failed(fmt.Errorf("unlock: %w", err))
			continue
		}
		r.mu.Lock()
		shift := max(0, bits.Len64(uint64(wait.Microseconds()))-11)
		r.waits[wait.Microseconds()>>shift<<shift]++
		r.cycles++
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
func (r *Running) enter(locks []int, t way) {
	for _, k := range locks {
		if r.inside[k].Add(t.weight) > t.limit {
			r.mu.Lock()
			r.overlaps++
			r.mu.Unlock()
		}
	}
}

func (r *Running) leave(locks []int, t way) {
	for _, k := range locks {
		r.inside[k].Add(-t.weight)
	}
}
