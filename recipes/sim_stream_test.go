package recipes_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// TestSimulationOfStreams has clients that go from lock to lock: by releases that they do not wait for, and by exchanges. The locks
// are of all kinds, and sets of them are taken beside.
func TestSimulationOfStreams(t *testing.T) {
	effort.Proof(t)
	total := playSeeds(t, effort.Of(250, 40), newStream)
	if *simSeed < 0 {
		require.GreaterOrEqual(t, total.grants, total.seeds*20, "the schedules leave too little to happen")
		require.Greater(t, total.faults, total.seeds*3)
		require.Greater(t, total.exchanged, total.seeds*3)
	}
}

// newStream derives everything from the seed.
func newStream(seed uint64) *schedule {
	r := rand.New(rand.NewPCG(seed, 0x57e4))
	s := &schedule{seed: seed, recipe: "world", tick: 2 * time.Second, timeout: time.Duration(8+r.IntN(8)) * time.Second,
		latency: []time.Duration{time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond}[r.IntN(3)], replica: r.IntN(3) == 0}
	for range 2 + r.IntN(3) {
		s.clients = append(s.clients, simConfig{suspect: r.IntN(4) == 3, handoffs: max(0, r.IntN(6)-3), releases: r.IntN(4) > 0, exchanges: r.IntN(4) > 0})
	}
	for range 2 * len(s.clients) {
		var script []simStep
		for range 3 + r.IntN(4) {
			st := s.together(r)
			st.pause, st.hold = min(st.pause, s.timeout/4), s.some(r, []float64{0, 0.05, 0.5}[r.IntN(3)])
			script = append(script, st)
		}
		s.scripts = append(s.scripts, script)
	}
	for range 1 + r.IntN(2) {
		s.faults = append(s.faults, s.series(r, r.IntN(8), simKinds)...)
	}
	slices.SortStableFunc(s.faults, func(a, b simFault) int { return cmp.Compare(a.at, b.at) })
	return s
}

// goesOn exchanges the lease for that of another lock, and again, if the client does so. It returns what is left to be given back;
// nil if that is nothing.
func (w *simWorld) goesOn(worker int, st simStep, g *simGrant) *simGrant {
	place := w.clients[worker%len(w.clients)]
	for i := range 2 {
		if !w.plan.clients[place.number].exchanges || slices.Contains([]simRecipe{"semaphore", "election", "multi"}, w.plan.recipe) {
			return g
		}
		next := st
		next.shared, next.how = false, "lock"
		path := w.spelled(w.locks[0].path, st)
		if next.recipe = w.plan.recipe; next.recipe == "world" {
			of := w.locks[[]int{0, 1, 4}[(g.id+i)%3]]
			next.recipe, path = of.recipe, w.spelled(of.path, st)
		}
		patience := w.plan.timeout / time.Duration(2+10*(g.id%2))
		g = w.swaps(worker, next, g, path, patience)
		if g == nil {
			return nil
		}
		time.Sleep(st.hold / 8)
		w.fencedWrite(worker, g)
	}
	return g
}

// swaps is one exchange. Not a lease of its own client's next incarnation: that is for LockFrom to refuse.
func (w *simWorld) swaps(worker int, st simStep, g *simGrant, path string, patience time.Duration) *simGrant {
	c := w.clients[worker%len(w.clients)].client()
	lockFrom := c.Mutex(path).LockFrom
	if st.recipe == "rwlock" {
		lockFrom = c.RWMutex(path).LockFrom
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	called, asked := w.now(), time.Now()
	l, err := lockFrom(ctx, g.lease)
	if late := time.Since(asked) - patience; late > 0 {
		w.violated("worker %d: LockFrom returned %v after its context had ended: %v", worker, late, err)
	}
	if l == g.lease {
		for _, refusal := range []string{"cannot be exchanged", "another Client"} {
			if strings.Contains(err.Error(), refusal) {
				return g
			}
		}
		w.told(st, err)
		return g
	}
	w.left(worker, g, called)
	if err != nil {
		w.told(st, err)
		return nil
	}
	w.mu.Lock()
	w.stats.exchanged++
	w.mu.Unlock()
	return w.granted(worker, st, l, called)
}

// left enters the end of a lease whose nodes nobody waits for.
func (w *simWorld) left(worker int, g *simGrant, called int64) {
	err := recipes.ErrReleasePending
	if why := context.Cause(g.lease.Context()); errors.Is(why, recipes.ErrLost) {
		err = why
	}
	w.released(worker, g, err, called)
}
