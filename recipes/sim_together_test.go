package recipes_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// One world with all recipes at once: single locks, sets of them, several clients, several series of faults, limits that
// are lowered for good, and a crowd, of which some poll without a pause and some give up before the network can answer.
// What holds for each recipe alone holds here. And while the crowd is there, whoever waits is granted; when it has gone,
// a fresh client is granted every lock at once.
func TestSimulationOfAllRecipesTogether(t *testing.T) {
	effort.Proof(t)
	total := playSeeds(t, effort.Of(80, 5), newWorld)
	if *simSeed < 0 {
		require.GreaterOrEqual(t, total.grants, total.seeds*50, "the schedules leave too little to happen")
		require.Greater(t, total.faults, total.seeds*5)
	}
}

// simCrowd is one who does not wait.
type simCrowd struct {
	how    string    // "try", or "timeout": one below the round trip
	recipe simRecipe // always this; "" is any
	seed   uint64
}

// newWorld derives everything from the seed. A session is short and the network slow, so that not too much of what does
// not pause fits into a world.
func newWorld(seed uint64) *schedule {
	r := rand.New(rand.NewPCG(seed, 0xa11))
	s := &schedule{seed: seed, recipe: "world", tick: 2 * time.Second, timeout: time.Duration(8+r.IntN(8)) * time.Second,
		latency: []time.Duration{30 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond}[r.IntN(3)], replica: r.IntN(3) == 0}
	for i := range 3 + r.IntN(2) {
		s.clients = append(s.clients, simConfig{suspect: r.IntN(4) == 3, releases: (seed/2+uint64(i))%3 == 0})
	}
	for range 2 * len(s.clients) {
		var script []simStep
		for range 3 + r.IntN(3) {
			script = append(script, s.together(r))
		}
		s.scripts = append(s.scripts, script)
	}
	for i := range 4 + r.IntN(3) {
		recipe := []simRecipe{"", "", "mutex", "semaphore", "semaphore", "multi"}[r.IntN(6)]
		s.crowd = append(s.crowd, simCrowd{[]string{"try", "timeout"}[i%2], recipe, r.Uint64()})
	}
	for range 1 + r.IntN(3) {
		s.faults = append(s.faults, s.series(r, 1+r.IntN(6), simKinds)...)
	}
	if r.IntN(2) == 0 {
		s.faults = append(s.faults, simFault{at: s.some(r, 4), what: "lower", n: r.IntN(400)})
	}
	slices.SortStableFunc(s.faults, func(a, b simFault) int { return cmp.Compare(a.at, b.at) })
	return s
}

// together is a step with any of the recipes.
func (s *schedule) together(r *rand.Rand) simStep {
	st := s.step(r)
	st.recipe = []simRecipe{"mutex", "rwlock", "semaphore", "semaphore", "election", "multi", "multi"}[r.IntN(7)]
	st.hold = min(st.hold, s.timeout)
	if !slices.Contains([]string{"verify", "enter", "multi"}, st.extra) {
		st.extra = ""
	}
	return st
}

// hasty is a step of one of the crowd.
func (s *schedule) hasty(r *rand.Rand, c simCrowd) simStep {
	st := s.together(r)
	st.how, st.recipe, st.hold, st.extra, st.release = c.how, cmp.Or(c.recipe, st.recipe), 0, "", "unlock"
	if c.how == "try" && st.recipe == "election" { // which has none
		st.recipe = "multi"
	}
	st.pause, st.wait = s.latency/4, s.timeout
	if c.how == "timeout" {
		st.pause, st.wait = 2*s.latency/5, time.Duration(r.Int64N(int64(5*s.latency/2)))
	}
	return st
}

// target is the recipe a step takes, and the lock's path where it is no set.
func (w *simWorld) target(st simStep) (simRecipe, string) {
	if w.plan.recipe != "world" {
		return w.plan.recipe, "/l"
	}
	i := slices.IndexFunc(w.locks, func(of simMember) bool { return of.recipe == st.recipe })
	if st.recipe == "multi" {
		return "multi", ""
	}
	return st.recipe, w.locks[i].path
}

// crowded lets the crowd loose and returns how to end it: then it is seen whether anybody who waits is granted, before and
// after.
func (w *simWorld) crowded() (end func()) {
	if len(w.plan.crowd) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var crowd sync.WaitGroup
	for i, c := range w.plan.crowd {
		crowd.Go(func() {
			r := rand.New(rand.NewPCG(w.plan.seed, c.seed))
			for ctx.Err() == nil {
				st := w.plan.hasty(r, c)
				time.Sleep(st.pause)
				w.once(len(w.plan.scripts)+i, st)
			}
		})
	}
	return func() {
		defer cancel()
		w.mu.Lock()
		stuck := len(w.wrong) > 0
		w.mu.Unlock()
		if stuck { // await has closed the clients
			cancel()
			crowd.Wait()
			return
		}
		time.Sleep(w.plan.timeout + 3*w.plan.tick) // what befell sessions is over
		for i := range w.clients {
			w.everyLock(i, 10*w.plan.timeout, "while others poll")
		}
		cancel()
		crowd.Wait()
		w.restart(w.clients[0])
		w.everyLock(0, time.Second+20*w.plan.latency, "after others have polled")
	}
}

// everyLock requires that somebody who waits is granted every lock, and all together, in time.
func (w *simWorld) everyLock(client int, within time.Duration, when string) {
	worker := 100*len(w.clients) + client // nobody else's number, and of this client
	for _, recipe := range []simRecipe{"mutex", "rwlock", "semaphore", "election", "multi"} {
		for _, shared := range []bool{false, true} {
			st := simStep{recipe: recipe, how: "lock", shared: shared, n: w.declared["/l2"].lowered, members: 1<<len(simMembers) - 1}
			if shared && (recipe == "mutex" || recipe == "election" || recipe == "semaphore") {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), within)
			called, asked := w.now(), time.Now()
			l, err := w.ask(ctx, w.clients[client], st)
			cancel()
			if err != nil {
				w.violated("%s client %d was not granted the %s (shared: %v) in %v: %v\n%s", when, client, recipe, shared, time.Since(asked), err, w.Srv.Dump())
				continue
			}
			w.give(worker, st, w.granted(worker, st, l, called))
		}
	}
}

// oneEach requires that each client has one contender in the queue of a mutex, however many of its callers came and went;
// mu is held.
func (w *simWorld) oneEach() {
	if len(w.plan.crowd) == 0 {
		return
	}
	for _, of := range w.locks {
		if of.recipe != "mutex" {
			continue
		}
		n, _ := w.Srv.Get(w.node(of.path))
		mine := map[int64]string{}
		for _, child := range n.Children {
			if _, contends := kind.ParseContender(child); !contends { // an anchor of a key's node
				continue
			}
			k, there := w.Srv.Get(w.node(of.path) + "/" + child)
			if owner := k.Stat.EphemeralOwner; there && mine[owner] != "" {
				w.blame("session %#x has %s and %s in %s", owner, mine[owner], child, of.path)
			} else if there {
				mine[owner] = child
			}
		}
	}
}
