package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// TestOfACircleOfWaitsExactlyOneEnds draws circles of two to six goroutines over all kinds of locks, of one program or of several, with
// others that wait beside them, and lets some calls give up, try, or be asked to step back.
func TestOfACircleOfWaitsExactlyOneEnds(t *testing.T) {
	for seed := range 25 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { inCircle(t, uint64(seed)) })
	}
}

func TestOfAThousandCirclesOfWaitsExactlyOneEnds(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	for seed := range 1000 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { inCircle(t, uint64(seed)) })
	}
}

// circleWorld is one circle: goroutine i holds lock i and waits for the next one.
type circleWorld struct {
	*lab
	rnd      *rand.Rand
	clients  []*recipes.Client // of each goroutine
	holds    []taking
	waits    []taking
	programs int
	disturbs bool
}

func inCircle(t *testing.T, seed uint64) {
	harness.Bubble(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 32))
		w := &circleWorld{rnd: rnd, programs: 1 + rnd.IntN(3), disturbs: rnd.IntN(3) == 0,
			lab: &lab{t: t, srv: zktest.Start(t, zktest.WithLatency(time.Duration(rnd.IntN(10))*time.Millisecond))}}
		w.build(2 + rnd.IntN(5))
		w.run()
	})
}

// build declares the locks, and decides how each is held and waited for, so that one excludes the other.
func (w *circleWorld) build(n int) {
	var programs []*recipes.Client
	for i := range w.programs {
		programs = append(programs, w.client(fmt.Sprint("program", i)))
	}
	recipes.Programs(programs...)
	for range n {
		w.clients = append(w.clients, programs[w.rnd.IntN(w.programs)])
	}
	w.declare("/keys", &kind.KeyedParams{Of: "mutex", Foreign: "false"})
	for i := range n {
		path, holder, waiter := fmt.Sprint("/lock", i), w.clients[i], w.clients[(i+n-1)%n]
		switch choice := w.rnd.IntN(8); {
		case choice == 0:
			w.declare(path, kind.RWLock.New())
			w.holds, w.waits = append(w.holds, holder.RWMutex(path).RLock), append(w.waits, waiter.RWMutex(path).Lock)
		case choice == 1:
			w.declare(path, kind.RWLock.New())
			w.holds, w.waits = append(w.holds, holder.RWMutex(path).Lock), append(w.waits, waiter.RWMutex(path).RLock)
		case choice == 2:
			w.declare(path, kind.RWLock.New())
			w.holds, w.waits = append(w.holds, holder.RWMutex(path).Lock), append(w.waits, waiter.RWMutex(path).Lock)
		case choice == 3:
			permits := 1 + w.rnd.IntN(3)
			wants := 1 + w.rnd.IntN(permits)
			w.declare(path, &kind.SemaphoreParams{Permits: permits})
			w.holds = append(w.holds, func(ctx context.Context) (*recipes.Lease, error) { return holder.Semaphore(path).Acquire(ctx, permits) })
			w.waits = append(w.waits, func(ctx context.Context) (*recipes.Lease, error) {
				return waiter.Semaphore(path).Acquire(ctx, wants)
			})
		case choice == 4:
			key := fmt.Sprint("key", i)
			w.holds = append(w.holds, func(ctx context.Context) (*recipes.Lease, error) { return holder.Keyed("/keys").Lock(ctx, key) })
			w.waits = append(w.waits, func(ctx context.Context) (*recipes.Lease, error) { return waiter.Keyed("/keys").Lock(ctx, key) })
		case choice == 5 && w.programs == 1:
			w.declare(path, kind.Election.New())
			w.holds, w.waits = append(w.holds, holder.Election(path).Campaign), append(w.waits, waiter.Election(path).Campaign)
		case choice == 6:
			w.declare(path, kind.Mutex.New())
			w.declare(path+"-free", kind.Mutex.New())
			w.holds = append(w.holds, holder.Mutex(path).Lock)
			w.waits = append(w.waits, waiter.MultiLock(waiter.Mutex(path+"-free"), waiter.Mutex(path)).Lock)
		default:
			w.declare(path, kind.Mutex.New())
			w.holds, w.waits = append(w.holds, holder.Mutex(path).Lock), append(w.waits, waiter.Mutex(path).Lock)
		}
	}
}

func (w *circleWorld) run() {
	n := len(w.holds)
	leases := make([]*recipes.Lease, n)
	for i, hold := range w.holds {
		var err error
		leases[i], err = hold(w.t.Context())
		require.NoError(w.t, err)
	}
	errs, ended := make([]error, n), make([]time.Time, n)
	var closed time.Time
	var all sync.WaitGroup
	for i := range leases {
		pause := time.Duration(w.rnd.IntN(2000)) * time.Millisecond
		if w.rnd.IntN(2) == 0 {
			pause = 0
		}
		bound := time.Minute
		if w.disturbs && w.rnd.IntN(4) == 0 {
			bound = time.Duration(w.rnd.IntN(4000)) * time.Millisecond
		}
		if last := time.Now().Add(pause); last.After(closed) {
			closed = last
		}
		wait := w.waits[(i+1)%n]
		all.Go(func() {
			time.Sleep(pause)
			ctx, cancel := context.WithTimeout(leases[i].Context(), bound)
			defer cancel()
			var inner *recipes.Lease
			inner, errs[i] = wait(ctx)
			ended[i] = time.Now()
			if errs[i] == nil {
				require.NoError(w.t, inner.Unlock(context.Background()))
			}
			require.NoError(w.t, leases[i].Unlock(context.Background()))
		})
	}
	all.Wait()
	victims := 0
	for i, err := range errs {
		switch {
		case errors.Is(err, recipes.ErrDeadlock):
			victims++
			require.Less(w.t, ended[i].Sub(closed), 2*time.Second, "%v", err)
		case err != nil:
			require.True(w.t, w.disturbs, "goroutine %d: %v", i, err)
			require.ErrorIs(w.t, err, context.DeadlineExceeded)
		}
	}
	if w.disturbs {
		require.LessOrEqual(w.t, victims, 1)
	} else {
		require.Equal(w.t, 1, victims, "%v", errs)
	}
}

// TestNobodyIsAVictimWithoutACircle has goroutines of several programs take locks one after another, always in the same order, and hold
// them for seconds, so that they look. Some give up, some hand on what they have. A program with Curator does the same.
func TestNobodyIsAVictimWithoutACircle(t *testing.T) {
	inOrderOfLocks(t, 1, 40, &contended{})
}

// SIM_SEEDS=220 are more than 1,000,000 grants to calls that had to wait.
func TestNobodyIsAVictimWithoutACircleInManyGrants(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	seen, seeds := &contended{}, max(*simSeeds, 5)
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { inOrderOfLocks(t, uint64(seed), 500, seen) })
	}
	t.Logf("%d calls had to wait and got the lock; %d of them had looked for a circle; %d gave up; none was a victim", seen.grants, seen.looked, seen.gaveUp)
	require.Greater(t, seen.grants, seeds*4000)
	require.Greater(t, seen.looked, seeds*1000)
}

// contended counts what became of calls.
type contended struct {
	mu     sync.Mutex
	queued map[uint64]bool // the calls that had to wait
	grants int             // to those
	looked int             // of these grants, those to nested calls that waited so long that they looked for a circle
	gaveUp int
}

func (n *contended) observe(e recipes.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case e.Type == recipes.EventQueued:
		n.queued[e.Call] = true
	case e.Type == recipes.EventAcquired && n.queued[e.Call]:
		n.grants++
	}
	if e.Type == recipes.EventAcquired || e.Type == recipes.EventRefused {
		delete(n.queued, e.Call)
	}
}

// returned notes a call that began at a time.
func (n *contended) returned(begun time.Time, nested bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case err != nil:
		n.gaveUp++
	case nested && time.Since(begun) >= time.Second:
		n.looked++
	}
}

func inOrderOfLocks(t *testing.T, seed uint64, rounds int, seen *contended) {
	inLab(t, func(t *testing.T, l *lab) {
		const locks, programs, workers = 5, 3, 9
		seen.queued = map[uint64]bool{}
		for i := range locks {
			switch path := fmt.Sprint("/lock", i); i % 3 {
			case 0:
				l.declare(path, kind.Mutex.New())
			case 1:
				l.declare(path, kind.RWLock.New())
			case 2:
				l.declare(path, &kind.SemaphoreParams{Permits: 2})
			}
		}
		var clients []*recipes.Client
		for i := range programs {
			clients = append(clients, l.client(fmt.Sprint("program", i), func(cfg *recipes.Config) { cfg.Observer = seen.observe }))
		}
		recipes.Programs(clients...)
		java := l.guest("java")
		var all sync.WaitGroup
		for worker := range workers {
			rnd := rand.New(rand.NewPCG(seed, uint64(worker)))
			c := clients[worker%programs]
			take := func(ctx context.Context, i int) (*recipes.Lease, error) {
				path := fmt.Sprint("/lock", i)
				switch {
				case i%3 == 2:
					return c.Semaphore(path).Acquire(ctx, 1)
				case i%3 == 1 && rnd.IntN(2) == 0:
					return c.RWMutex(path).RLock(ctx)
				case i%3 == 1:
					return c.RWMutex(path).Lock(ctx)
				}
				return c.Mutex(path, recipes.WithLocalHandoff(3)).Lock(ctx)
			}
			all.Go(func() {
				for range rounds {
					ctx := t.Context()
					var held []*recipes.Lease
					for i := range locks {
						if rnd.IntN(locks+2) > i+1 { // the first is a bottleneck for the others
							continue
						}
						limit := time.Hour
						if rnd.IntN(4) == 0 {
							limit = time.Duration(rnd.IntN(5000)) * time.Millisecond
						}
						bounded, cancel := context.WithTimeout(ctx, limit)
						begun := time.Now()
						x, err := take(bounded, i)
						cancel()
						seen.returned(begun, len(held) > 0, err)
						if err != nil {
							require.ErrorIs(t, err, context.DeadlineExceeded)
							break
						}
						held, ctx = append(held, x), x.Context()
						time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
					}
					rnd.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
					for _, x := range held {
						require.NoError(t, x.Unlock(context.Background()))
					}
				}
			})
		}
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, workers))
			for range rounds {
				var held []string
				for i, marker := range []string{"-lock-", "__WRIT__", "", "-lock-", "__READ__"} {
					if marker == "" || rnd.IntN(locks+2) > i+1 {
						continue
					}
					node, err := java.first(t.Context(), fmt.Sprint("/lock", i), marker)
					require.NoError(t, err)
					held = append(held, node)
					time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
				}
				for _, node := range held {
					require.NoError(t, java.s.Delete(t.Context(), node, -1))
				}
			}
		})
		all.Wait()
	})
}
