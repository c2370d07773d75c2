package recipes_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// TestSimulationOfOwnLocks is about a client that has a lock nearly for itself: its places pass from one of its goroutines to the
// next, and turn from a writer's into a reader's, while others come now and then. Meanwhile the declaration changes, and new
// leaders count from where they like.
func TestSimulationOfOwnLocks(t *testing.T) {
	effort.Proof(t)
	total := playSeeds(t, effort.Of(80, 40), newOwn)
	if *simSeed < 0 {
		require.GreaterOrEqual(t, total.grants, total.seeds*20, "the schedules leave too little to happen")
		require.Greater(t, total.kinds["refuse"], total.seeds)
	}
}

// newOwn derives everything from the seed.
func newOwn(seed uint64) *schedule {
	r := rand.New(rand.NewPCG(seed, 0x0317))
	recipe := []simRecipe{"mutex", "mutex", "rwlock", "election", "multi"}[seed%5]
	s := &schedule{seed: seed, recipe: recipe, tick: 2 * time.Second, timeout: time.Duration(4+r.IntN(5)) * 2 * time.Second,
		latency: []time.Duration{time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond}[r.IntN(3)]}
	for range 3 {
		s.clients = append(s.clients, simConfig{})
	}
	rare := 0.1 + r.Float64()
	for worker := range 6 { // those of the first client are 0 and 3
		var script []simStep
		n, often := 20, 0.05
		if worker%3 > 0 {
			n, often = 5, rare
		}
		for range n {
			st := s.step(r)
			st.how, st.extra, st.shared = []string{"lock", "lock", "lock", "try", "cancel"}[r.IntN(5)], []string{"", "", "exchange"}[r.IntN(3)], r.IntN(3) == 0
			st.pause, st.hold = s.some(r, often), s.some(r, 0.02)
			script = append(script, st)
		}
		s.scripts = append(s.scripts, script)
	}
	var at time.Duration
	for range 4 + r.IntN(8) {
		at += s.some(r, 0.4)
		f := simFault{at: at, n: r.IntN(400), client: r.IntN(3), op: simOps[r.IntN(len(simOps))], dir: zktest.ToClient, lasts: s.some(r, 0.05)}
		f.what = []string{"refuse", "refuse", "refuse", "drain", "drain", "disconnect", "drop-reply", "cut-after", "delete"}[r.IntN(9)]
		s.faults = append(s.faults, f)
		at += f.lasts
	}
	return s
}
