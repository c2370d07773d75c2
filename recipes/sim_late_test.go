package recipes_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// TestSimulationOfLateRequests looks for what single requests do that are executed late: a thread of a server stands still with
// one, the connection is cut, on the client's side or the server's, and the client goes on before the thread does. All recipes
// are in one world, with sets, several permits and exchanges. Callers give up at every moment.
func TestSimulationOfLateRequests(t *testing.T) {
	effort.Proof(t)
	total := playSeeds(t, effort.Of(500, 20), newLate)
	if *simSeed < 0 {
		require.GreaterOrEqual(t, total.grants, total.seeds*20, "the schedules leave too little to happen")
		require.Greater(t, total.late, total.seeds/2, "hardly a request was executed late")
	}
}

// simLate are the faults by name, as often as they are to be drawn. "stall" is a thread that stands still with a request,
// "stall-look" one that goes on in the middle of a later look at several queues, "delay" a slow disk, "hang-up" the end of a
// connection on the client's side.
var simLate = strings.Fields(`stall stall stall stall stall-look stall-look stall-look delay delay hang-up disconnect drop-reply lose-reply
	cut partition expire swap restart drain drain revoke delete refuse`)

var simLateOps = strings.Fields(`multi multi multi multi create create create delete delete setData getData getChildren2 setWatches exists`)

// newLate derives everything from the seed.
func newLate(seed uint64) *schedule {
	r := rand.New(rand.NewPCG(seed, 0x1a7e))
	s := &schedule{seed: seed, recipe: "world", tick: 2 * time.Second, timeout: time.Duration(8+r.IntN(8)) * time.Second,
		latency: []time.Duration{time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond}[r.IntN(3)], replica: r.IntN(4) == 0}
	s.quiet = 6 * s.timeout // as long as a late node may stay: see txn.recheck
	for range 3 {
		s.clients = append(s.clients, simConfig{})
	}
	for range 6 {
		var script []simStep
		for range 14 {
			st := s.together(r)
			if st.recipe == "rwlock" && r.IntN(2) == 0 {
				st.shared, st.extra = false, "exchange"
			}
			st.how = []string{"lock", "lock", "try", "timeout", "cancel", "cancel"}[r.IntN(6)]
			st.pause, st.hold = s.some(r, 0.15), s.some(r, []float64{0, 0.02, 0.1}[r.IntN(3)])
			st.wait, st.patience = s.moment(r), s.moment(r)
			script = append(script, st)
		}
		s.scripts = append(s.scripts, script)
	}
	var at time.Duration
	for range 3 + r.IntN(6) {
		at += s.some(r, 0.4)
		s.faults = append(s.faults, simFault{at: at, what: simLate[r.IntN(len(simLate))], client: r.IntN(3), n: r.IntN(400),
			op: simLateOps[r.IntN(len(simLateOps))], dir: zktest.Direction(1 + r.IntN(3)), lasts: s.some(r, []float64{0.1, 0.5, 1.5}[r.IntN(3)])})
	}
	slices.SortStableFunc(s.faults, func(a, b simFault) int { return cmp.Compare(a.at, b.at) })
	return s
}

// moment is when a caller gives up: at any moment of a call that goes well, of one that is cut, or of a long wait.
func (s *schedule) moment(r *rand.Rand) time.Duration {
	most := []time.Duration{8 * s.latency, 40*s.latency + 400*time.Millisecond, s.timeout}[r.IntN(3)]
	return time.Duration(r.Int64N(int64(most)))
}

// stall lets a thread of a server stand still with a request that it has read.
func (w *simWorld) stall(f simFault, c *simClient, id int64) {
	fits := func(r zktest.Request) bool {
		return r.Session == id && r.Op == f.op && (r.Op != "multi" || len(r.Paths) > f.n%2)
	}
	thread := w.Srv.Inject(zktest.Once(fits), zktest.HoldReader)
	defer thread.Release()
	select {
	case <-thread.Hit():
	case <-time.After(w.plan.timeout / 2):
		return
	}
	w.mu.Lock()
	w.stats.late++
	w.mu.Unlock()
	switch f.n % 3 {
	case 0:
		c.HangUp()
	case 1:
		w.Srv.Disconnect(id)
	} // else the client waits until it thinks that the connection is dead
	if f.what == "stall" {
		time.Sleep(f.lasts)
		return
	}
	// A later listing stands still too, in a look at several queues, perhaps. The request is executed before it goes on.
	nth := 1 + f.n%7
	look := w.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Session == id && r.Op == "getChildren2" && r.N >= nth }), zktest.HoldReader)
	defer look.Release()
	select {
	case <-look.Hit():
	case <-time.After(2 * w.plan.timeout):
		return
	}
	thread.Release()
	time.Sleep(w.plan.latency + time.Millisecond)
}
