package recipes_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// TestSimulationOfStreams has clients that go from lock to lock, mostly by releases that they do not wait for. The locks are of all
// kinds, and sets of them are taken beside.
func TestSimulationOfStreams(t *testing.T) {
	effort.Proof(t)
	total := playSeeds(t, effort.Of(250, 40), newStream)
	if *simSeed < 0 {
		require.GreaterOrEqual(t, total.grants, total.seeds*20, "the schedules leave too little to happen")
		require.Greater(t, total.faults, total.seeds*3)
	}
}

// newStream derives everything from the seed.
func newStream(seed uint64) *schedule {
	r := rand.New(rand.NewPCG(seed, 0x57e4))
	s := &schedule{seed: seed, recipe: "world", tick: 2 * time.Second, timeout: time.Duration(8+r.IntN(8)) * time.Second,
		latency: []time.Duration{time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond}[r.IntN(3)], replica: r.IntN(3) == 0}
	for range 2 + r.IntN(3) {
		s.clients = append(s.clients, simConfig{suspect: r.IntN(4) == 3, releases: r.IntN(4) > 0})
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

// left enters the end of a lease whose nodes nobody waits for.
func (w *simWorld) left(worker int, g *simGrant, called int64) {
	err := recipes.ErrReleasePending
	if why := context.Cause(g.lease.Context()); errors.Is(why, recipes.ErrLost) {
		err = why
	}
	w.released(worker, g, err, called)
}
