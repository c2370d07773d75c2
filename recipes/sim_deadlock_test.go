package recipes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

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
