package recipes_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// TestSimulationOfKeeper plays all recipes on ClickHouse Keepers, as zktest has them. A lost connection is a lost session there.
// Keepers are stopped in good order too, with which they end the sessions of their clients before these can know: only such leases
// are excused, and only until their client has seen its connection end.
func TestSimulationOfKeeper(t *testing.T) {
	effort.Proof(t)
	total := playSeeds(t, effort.Of(300, 60), newKeeper)
	if *simSeed < 0 {
		require.GreaterOrEqual(t, total.grants, total.seeds*5, "the schedules leave too little to happen")
		require.Greater(t, total.losses, total.seeds, "hardly a session was lost")
		require.Greater(t, total.stopped, total.seeds/10, "hardly a Keeper ended a lease")
		require.LessOrEqual(t, total.window, 50, "a lease was believed for longer than its clock allows")
		t.Logf("%d leases were ended by Keepers that stopped, and believed for %d hundredths of a session timeout at most", total.stopped, total.window)
	}
}

// simKeeper are the faults by name, as often as they are to be drawn. "stop" is a graceful stop of a server.
var simKeeper = strings.Fields(`stop stop stop stop stop stop drop-reply drop-request lose-reply cut-before cut-after cut-at cut cut
	delay-reply hold-reply delay throttle disconnect disconnect disconnect expire partition pause freeze refuse refuse-one delete revoke
	restart lag drain move resize`)

// newKeeper derives everything from the seed. Timeouts are what Keepers grant.
func newKeeper(seed uint64) *schedule {
	if seed%8 == 7 { // all recipes in one world, and requests that are executed late
		s := newLate(seed)
		s.keeper, s.timeout = true, max(s.timeout, 10*time.Second)
		for i := range s.faults {
			if s.faults[i].what == "swap" { // nobody needs that to be given another session
				s.faults[i].what = "stop"
			}
		}
		return s
	}
	r := rand.New(rand.NewPCG(seed, 0x4ee9e4))
	s := &schedule{seed: seed, keeper: true, recipe: simRecipes[seed%uint64(len(simRecipes))], tick: 500 * time.Millisecond,
		timeout: time.Duration(10+r.IntN(31)) * time.Second, replica: r.IntN(2) == 0,
		latency: []time.Duration{time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond}[r.IntN(3)]}
	s.quiet = s.timeout // for as long a lost session is not forgotten
	s.staff(r)
	s.faults = s.series(r, 2+r.IntN(12), simKeeper)
	return s
}

// stop stops a Keeper in good order. The connections of its clients stay for as long as the fault lasts.
func (w *simWorld) stop(f simFault) {
	name, stop, restart := "leader", w.srv.Stop, w.srv.Restart
	if w.follower != nil && f.n%2 == 1 {
		name, stop, restart = "follower", w.follower.Stop, w.follower.Restart
	}
	var ended []int64
	for _, c := range w.clients {
		if s := c.client().Newest(); s.State() != session.StateLost && strings.HasPrefix(s.Stats().Server, name) {
			ended = append(ended, s.ID())
			w.spoil(sessionName(s.ID()))
		}
	}
	w.mu.Lock()
	for g := range w.believed {
		if slices.Contains(ended, g.session) && g.lease.Context().Err() == nil {
			w.stats.stopped++
			w.measure(g)
		}
	}
	w.mu.Unlock()
	stop()
	time.Sleep(f.lasts)
	restart()
}

// measure notes for how long a lease is believed from now on.
func (w *simWorld) measure(g *simGrant) {
	began := time.Now()
	context.AfterFunc(g.lease.Context(), func() {
		window := int(time.Since(began) * 100 / w.plan.timeout)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stats.window = max(w.stats.window, window)
	})
}
