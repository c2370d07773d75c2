package recipes_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// TestSimulationOfKeys plays the schedules of the other simulations with locks that are those of keys (an election has none): all
// that befalls clients and servers there befalls them here. Programs of Curator and of kazoo, and of helpers like those of
// testdata/interop, contend for the same keys. The invariants and the models are those of declared locks, with these rivals as
// holders. At the end, when the servers' collector has had its time, nothing is left in a family but what a stock library made.
func TestSimulationOfKeys(t *testing.T) {
	effort.Proof(t)
	total := playSeeds(t, effort.Of(400, 60), newKeyed)
	if *simSeed < 0 {
		require.GreaterOrEqual(t, total.grants, total.seeds*5, "the schedules leave too little to happen")
		for habit, n := range total.rivals {
			require.Greater(t, n, total.seeds/4, "hardly a rival of the habit %d had a lock", habit)
		}
	}
}

// newKeyed is the schedule of a seed of another simulation.
func newKeyed(seed uint64) *schedule {
	s := newSchedule(seed)
	if seed%4 == 2 {
		s = newLate(seed)
	}
	if seed%16 == 3 { // one world costs as much as forty of the others, and TestSimulationOfAllRecipesTogether plays many
		s = newWorld(seed)
	}
	if s.recipe == "election" {
		s.recipe = []simRecipe{"mutex", "semaphore"}[seed/12%2]
	}
	r := rand.New(rand.NewPCG(seed, 0x4e75))
	s.keyed, s.keyedBy = true, []string{"", "16"}[r.IntN(2)]
	s.quiet = max(s.quiet, 4*s.timeout)
	for _, script := range s.scripts {
		for j := range script {
			script[j].byKey = r.IntN(2) == 0
		}
	}
	var at time.Duration
	for range 2 + r.IntN(6) {
		at += s.some(r, 1)
		s.faults = append(s.faults, simFault{at: at, what: "found", client: 0, n: r.IntN(1 << 20), lasts: s.some(r, []float64{0.1, 0.5, 1.5}[r.IntN(3)])})
	}
	slices.SortStableFunc(s.faults, func(a, b simFault) int { return cmp.Compare(a.at, b.at) })
	return s
}

// keyed reports whether a lock is that of a key.
func (w *simWorld) keyed(lock string) bool {
	return w.plan.keyed && w.declared[lock] != nil && w.declared[lock].recipe != "election"
}

// family is where a lock is declared, and key its key there; a lock that is no key's is declared where it is.
func (w *simWorld) family(lock string) (path, key string) { return lock + "-keys", "of " + lock + "%" }

// node is where the contenders of a lock stand.
func (w *simWorld) node(lock string) string {
	if !w.keyed(lock) {
		return lock
	}
	family, key := w.family(lock)
	path, err := (&kind.KeyedParams{Fanout: w.plan.keyedBy}).Path(family, key)
	require.NoError(w.T, err)
	return path
}

// familyOf are the parameters of a family whose locks have these.
func (w *simWorld) familyOf(of kind.Params) kind.Params {
	p := &kind.KeyedParams{Of: of.Kind().Name, Fanout: w.plan.keyedBy, Foreign: "true", Common: kind.Common{Wire: kind.WireCurator}}
	switch of := of.(type) {
	case *kind.RWLockParams:
		p.MaxWaiters = of.MaxWaiters
	case *kind.SemaphoreParams:
		p.Permits, p.MaxWaiters = of.Permits, of.MaxWaiters
	case *kind.MutexParams:
		p.MaxWaiters = of.MaxWaiters
	}
	return p
}

// declareAt writes what is declared of a lock.
func (w *simWorld) declareAt(lock string, p kind.Params, change ...func(*kind.Payload)) {
	if w.keyed(lock) {
		lock, _ = w.family(lock)
		p = w.familyOf(p)
	}
	w.lab.Declare(lock, p, change...)
}

// mutex is a handle on a lock, on the node of its key or by its key.
func (w *simWorld) mutex(c *recipes.Client, lock string, st simStep, opts ...recipes.Option) *recipes.Mutex {
	if family, key := w.family(lock); w.keyed(lock) && st.byKey {
		return c.Keyed(family, opts...).Mutex(key)
	}
	return c.Mutex(w.node(lock), opts...)
}

func (w *simWorld) rwmutex(c *recipes.Client, lock string, st simStep, opts ...recipes.Option) *recipes.RWMutex {
	if family, key := w.family(lock); w.keyed(lock) && st.byKey {
		return c.Keyed(family, opts...).RWMutex(key)
	}
	return c.RWMutex(w.node(lock), opts...)
}

func (w *simWorld) semaphore(c *recipes.Client, lock string, st simStep, opts ...recipes.Option) *recipes.Semaphore {
	if family, key := w.family(lock); w.keyed(lock) && st.byKey {
		return c.Keyed(family, opts...).Semaphore(key)
	}
	return c.Semaphore(w.node(lock), opts...)
}

// keysAtRest requires that nothing is left of keys, but the nodes that other programs have made.
func (w *simWorld) keysAtRest() {
	if !w.plan.keyed {
		return
	}
	for _, of := range w.locks {
		if w.keyed(of.path) {
			w.keyAtRest(w.node(of.path))
		}
	}
}

func (w *simWorld) keyAtRest(path string) {
	n, there := w.Srv.Get(path)
	if !there {
		return
	}
	if !w.foreign[n.Stat.Czxid] {
		w.violated("left of a key: %s\n%s", path, w.Srv.Dump())
	}
	for _, child := range n.Children {
		w.keyAtRest(path + "/" + child)
	}
}
