package recipes_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// TestSimulationOfAServerThatIsBehind looks for a hole in the proof of a grant, by its effect. Some clients know only the
// leader, the others only a follower, and the follower falls behind: it gets the log late, all at once or in steps, and what
// it sends does not arrive. So it tells its clients of a release, shows them first in the queue, answers their pings and
// reads, and does not know that their sessions have expired and that a client of the leader has been granted since. Nobody
// has agreed to that or is excused for it: two believed holders are two too many.
func TestSimulationOfAServerThatIsBehind(t *testing.T) {
	effort.Proof(t)
	total := playSeeds(t, effort.Of(200, 60), newBehind)
	if *simSeed < 0 {
		require.GreaterOrEqual(t, total.grants, total.seeds*5, "the schedules leave too little to happen")
		require.Greater(t, total.losses, total.seeds/4, "hardly a session of a holder expired")
		require.Greater(t, total.kinds["behind"], total.seeds)
	}
}

// newBehind derives everything from the seed. Waits and holds are long compared with a session, so that what was proven when
// a waiter queued proves nothing when its turn comes.
func newBehind(seed uint64) *schedule {
	r := rand.New(rand.NewPCG(seed, 0xbe41d))
	recipe := []simRecipe{"mutex", "mutex", "rwlock", "election", "semaphore", "multi"}[seed%6]
	s := &schedule{seed: seed, recipe: recipe, tick: 2 * time.Second, timeout: time.Duration(4+r.IntN(5)) * 2 * time.Second, replica: true,
		latency: []time.Duration{time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond}[r.IntN(3)]}
	for i := range 4 {
		s.clients = append(s.clients, simConfig{server: []string{"leader", "follower"}[i%2], releases: (seed/6+uint64(i))%2 == 0})
	}
	for range 4 + r.IntN(3) {
		var script []simStep
		for range 4 + r.IntN(3) {
			st := s.step(r)
			st.how, st.obedient, st.extra, st.shared = "lock", true, []string{"", "", "verify"}[r.IntN(3)], r.IntN(4) == 0
			st.pause, st.hold = s.some(r, 0.3), s.some(r, []float64{0.05, 0.3, 1.2}[r.IntN(3)])
			script = append(script, st)
		}
		s.scripts = append(s.scripts, script)
	}
	var at time.Duration
	for range 4 + r.IntN(4) {
		at += s.some(r, 1)
		f := simFault{at: at, what: "behind", n: r.IntN(400), lasts: s.timeout/2 + s.some(r, 2)}
		s.faults = append(s.faults, f)
		if r.IntN(3) == 0 {
			other := []string{"disconnect", "swap", "lag", "hold-reply", "partition"}[r.IntN(5)]
			s.faults = append(s.faults, simFault{at: at + f.lasts/2, what: other, client: r.IntN(4), op: simOps[r.IntN(len(simOps))],
				lasts: s.some(r, 0.5), dir: zktest.ToClient})
		}
		at += f.lasts
	}
	return s
}

// behind lets the follower fall behind, one way: in three of four cases it gets the log every now and then.
func (w *simWorld) behind(f simFault) {
	w.follower.CutOff()
	for end := time.Now().Add(f.lasts); time.Now().Before(end); {
		time.Sleep(min(time.Until(end), max(time.Millisecond, w.plan.timeout*time.Duration(1+f.n%20)/40)))
		if f.n%4 > 0 {
			w.follower.Advance()
		}
	}
	w.follower.CatchUp()
}
