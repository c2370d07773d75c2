package recipes_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/effort"
)

var (
	simSeeds    = flag.Int("sim.seeds", envInt("SIM_SEEDS", 0), "how many seeds to simulate; 0: 700, or 120 under the race detector")
	simSeed     = flag.Int("sim.seed", envInt("SIM_SEED", -1), "the one seed to replay, with its schedule printed")
	simFrom     = flag.Int("sim.from", envInt("SIM_FROM", 0), "the first seed")
	simFailures = flag.Int("sim.failures", envInt("SIM_FAILURES", 3), "how many failing seeds to show before giving up")
	simTrace    = flag.Bool("sim.trace", os.Getenv("SIM_TRACE") != "", "print every request that reaches the servers")
	simRepeat   = flag.Int("sim.repeat", envInt("SIM_REPEAT", 1), "how often to replay it: Go orders goroutines anew each time")
)

func envInt(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// TestSimulation plays the schedules of many seeds. A seed decides the whole schedule, which a failure prints; what it
// cannot decide is the order in which Go runs goroutines that are ready at the same moment. So a failure is replayed
// with SIM_SEED=n SIM_REPEAT=100 go test -run TestSimulation ./recipes. Whatever kills the process instead of failing is
// found with SIM_TRACE=1, which names the seed of every request.
func TestSimulation(t *testing.T) {
	effort.Proof(t)
	total := playSeeds(t, effort.Of(700, 120), newSchedule) // SIM_SEEDS=1600 are a little more than 1,000 virtual hours
	if *simSeed < 0 {
		require.GreaterOrEqual(t, total.grants, total.seeds*5, "the schedules leave too little to happen")
		require.Greater(t, total.faults, total.seeds*5)
		if total.seeds >= 1600 {
			require.GreaterOrEqual(t, total.virtual, 1000*time.Hour)
		}
	}
}

// playSeeds plays the schedules of so many seeds, unless flags say how many or which.
func playSeeds(t *testing.T, seeds int, plan func(seed uint64) *schedule) *simTotal {
	if *simSeeds > 0 {
		seeds = *simSeeds
	}
	var next, failed atomic.Int64
	next.Store(int64(*simFrom))
	end := int64(*simFrom + seeds)
	if *simSeed >= 0 {
		next.Store(0)
		end = int64(*simRepeat)
	}
	var mu sync.Mutex
	var total simTotal
	start, name := time.Now(), t.Name()
	t.Run("seeds", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1) - 1; i < end && failed.Load() < int64(*simFailures); i = next.Add(1) - 1 {
					seed := uint64(i)
					if *simSeed >= 0 {
						seed = uint64(*simSeed)
					}
					w := simulate(t, plan(seed))
					mu.Lock()
					total.add(w)
					mu.Unlock()
					if len(w.wrong) > 0 {
						failed.Add(1)
						t.Errorf("%s%v\nreplay: SIM_SEED=%d SIM_REPEAT=100 go test -run '^%s$' ./recipes",
							strings.Join(w.wrong, "\n")+"\n", w.plan, seed, name)
					}
				}
			})
		}
	})
	total.report(t, time.Since(start))
	return &total
}

// simTotal adds up the worlds.
type simTotal struct {
	simStats
	seeds, events int
	recipes       map[simRecipe]int
	kinds         map[string]int
}

func (s *simTotal) add(w *simWorld) {
	if s.recipes == nil {
		s.recipes, s.kinds = map[simRecipe]int{}, map[string]int{}
	}
	for _, f := range w.plan.faults {
		s.kinds[f.what]++
	}
	s.seeds++
	s.recipes[w.plan.recipe]++
	s.events += len(w.history)
	s.virtual += w.stats.virtual
	s.asked += w.stats.asked
	s.grants += w.stats.grants
	s.losses += w.stats.losses
	s.faults += w.stats.faults
	s.refused += w.stats.refused
	s.stale += w.stats.stale
	s.late += w.stats.late
	s.seen += w.stats.seen
	for habit, n := range w.stats.rivals {
		s.rivals[habit] += n
	}
}

func (s *simTotal) report(t *testing.T, took time.Duration) {
	t.Logf("%d seeds %v, %.0f virtual hours in %v (%.0f virtual hours a second)", s.seeds, s.recipes, s.virtual.Hours(),
		took.Round(time.Millisecond), s.virtual.Hours()/took.Seconds())
	t.Logf("%d acquisitions asked for, %d granted, %d refused or given up; %d leases lost, %d stale writes refused; %d times told who leads; %d faults, %d of them requests that stood still; %d events checked by porcupine",
		s.asked, s.grants, s.refused, s.losses, s.stale, s.simStats.seen, s.faults, s.late, s.events)
	t.Logf("%v grants of rivals; faults: %v", s.rivals, s.kinds)
}

// simulate plays one schedule in a bubble of its own. That the bubble ends proves that no goroutine is left.
func simulate(t *testing.T, plan *schedule) (w *simWorld) { return simulated(t, plan, true) }

// simulateStrictly is simulate without any excuse.
func simulateStrictly(t *testing.T, plan *schedule) *simWorld { return simulated(t, plan, false) }

func simulated(t *testing.T, plan *schedule, excused bool) (w *simWorld) {
	synctest.Test(t, func(t *testing.T) {
		w = newSimWorld(t, plan)
		w.excused = excused
		w.play()
		w.stats.virtual = time.Since(w.born)
	})
	if r := linearizable(modelFor(plan.recipe), w.history); r != porcupine.Ok {
		var b strings.Builder
		for _, e := range w.history {
			fmt.Fprintf(&b, "\n  %v", e)
		}
		w.violated("the history is no %s's: porcupine says %s%s", plan.recipe, r, b.String())
	}
	return w
}

// play lets the clients work while the faults befall them, heals everything, and requires that all ends well.
func (w *simWorld) play() {
	if w.plan.recipe != "" {
		require.NoError(w.T, w.Srv.Create("/guarded", nil))
	}
	var workers sync.WaitGroup
	for i := range w.plan.scripts {
		workers.Go(func() { w.work(i) })
	}
	observed, crowd := w.observing(), w.crowded()
	w.befall()
	w.heal()
	w.inUse()
	w.await(&workers)
	crowd()
	time.Sleep(w.plan.timeout + 3*w.plan.tick + w.plan.quiet)
	synctest.Wait()
	observed()
	w.atRest()
	for _, c := range w.clients {
		_ = c.client().Close()
	}
	time.Sleep(w.plan.timeout + 3*w.plan.tick)
	for _, c := range w.clients {
		for _, b := range c.books {
			for _, wrong := range b.atRest() {
				w.violated("client %d: the events tell otherwise: %s", c.number, wrong)
			}
		}
	}
	if left := w.Srv.Sessions(); len(left) > 0 {
		w.violated("sessions are left when all clients are closed: %+v", left)
	}
}

// await waits until every worker has come to the end of its script. Who waits in a queue must be granted or told: all
// faults are over, and all others give back what they hold.
func (w *simWorld) await(workers *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()
	longest := 10 * w.plan.timeout
	for _, script := range w.plan.scripts {
		for _, st := range script {
			longest += st.pause + st.hold + st.wait
		}
	}
	select {
	case <-done:
		return
	case <-time.After(longest):
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	w.violated("somebody still waits %v after the last fault\n%s\n%s", longest, w.Srv.Dump(), simStacks(string(stacks)))
	for _, c := range w.clients {
		_ = c.client().Close() // ends all waiting
	}
	<-done
}

// simStacks are the goroutines that are in the middle of a worker's call.
func simStacks(all string) string {
	var kept []string
	for _, g := range strings.Split(all, "\n\n") {
		if strings.Contains(g, "simWorld).once") {
			kept = append(kept, g)
		}
	}
	return strings.Join(kept, "\n\n")
}

// atRest requires that nothing is left of all that: no contender, no turn, no booked byte, no watch.
func (w *simWorld) atRest() {
	for _, dir := range w.dirs {
		if n, _ := w.Srv.Get(dir); len(n.Children) > 0 {
			w.violated("left in %s: %v", dir, n.Children)
		}
	}
	w.keysAtRest()
	for i, c := range w.clients {
		left := c.client().Leftovers()
		for range 20 { // a look for what a server may have done late (see txn.recheck) is under way for a round trip
			if len(left) == 0 {
				break
			}
			time.Sleep(3*w.plan.latency + time.Millisecond)
			left = c.client().Leftovers()
		}
		for _, what := range left {
			w.violated("client %d keeps %s", i, what)
		}
	}
	w.inspect()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.believed) > 0 || len(w.standing) > 0 {
		w.blame("%d leases are still believed, %d still stand", len(w.believed), len(w.standing))
	}
}
