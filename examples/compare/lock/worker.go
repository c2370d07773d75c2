package lock

import (
	"context"
	"fmt"
	"slices"
	"time"
)

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
