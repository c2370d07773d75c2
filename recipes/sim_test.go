package recipes_test

import (
	"context"
	"flag"
	"fmt"
	"net"
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

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

var (
	simSeeds    = flag.Int("sim.seeds", envInt("SIM_SEEDS", 0), "how many seeds to simulate; 0: 700, or 120 under the race detector")
	simSeed     = flag.Int("sim.seed", envInt("SIM_SEED", -1), "the one seed to replay, with its schedule printed")
	simFrom     = flag.Int("sim.from", envInt("SIM_FROM", 0), "the first seed")
	simFailures = flag.Int("sim.failures", envInt("SIM_FAILURES", 3), "how many failing seeds to show before giving up")
	simTrace    = flag.Bool("sim.trace", os.Getenv("SIM_TRACE") != "", "print every request that reaches the servers")
	simRepeat   = flag.Int("sim.repeat", envInt("SIM_REPEAT", 1), "how often to replay it: Go orders goroutines differently each time")
)

func envInt(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// TestSimulation plays the schedules of many seeds. A seed decides the whole schedule, which a failure prints. It cannot decide the order
// of goroutines that are ready at the same moment: Go decides that. So replay a failure with SIM_SEED=n SIM_REPEAT=100 go test -run
// TestSimulation ./recipes. If a seed kills the process instead of failing, find it with SIM_TRACE=1, which names the seed of every
// request.
func TestSimulation(t *testing.T) {
	effort.Proof(t)
	playSeeds(t, effort.Of(700, 120), 5, newSchedule, func(all *simTotal) { // SIM_SEEDS=1600 are a little more than 1,000 virtual hours
		require.Greater(t, all.faults, all.seeds*5)
		require.True(t, all.seeds < 1600 || all.virtual >= 1000*time.Hour, all.virtual)
	})
}

// playSeeds plays the schedules of the given number of seeds, unless flags say how many or which. A seed must have the given number of
// grants on average. The function enough checks the totals.
func playSeeds(t *testing.T, seeds, grants int, plan func(seed uint64) *schedule, enough func(all *simTotal)) {
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
					w := simulate(t, plan(seed), true)
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
	if *simSeed < 0 {
		require.GreaterOrEqual(t, total.grants, total.seeds*grants, "the schedules leave too little to happen")
		enough(&total)
	}
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
	s.late += w.stats.late
	s.seen += w.stats.seen
	for habit, n := range w.stats.rivals {
		s.rivals[habit] += n
	}
}

func (s *simTotal) report(t *testing.T, took time.Duration) {
	t.Logf("%d seeds %v, %.0f virtual hours in %v (%.0f virtual hours a second)", s.seeds, s.recipes, s.virtual.Hours(),
		took.Round(time.Millisecond), s.virtual.Hours()/took.Seconds())
	t.Logf("%d acquisitions asked for, %d granted, %d refused or given up; %d leases lost; %d times told who leads; %d faults, %d of them requests that stood still; %d events checked by porcupine",
		s.asked, s.grants, s.refused, s.losses, s.simStats.seen, s.faults, s.late, s.events)
	t.Logf("%v grants of rivals; faults: %v", s.rivals, s.kinds)
}

// simulate plays one schedule in a bubble of its own. The end of the bubble proves that no goroutine is left.
func simulate(t *testing.T, plan *schedule, excused bool) (w *simWorld) {
	synctest.Test(t, func(t *testing.T) {
		w = newSimWorld(t, plan)
		w.excused = excused
		w.play()
		w.stats.virtual = time.Since(w.born)
	})
	if r := linearizable(models[plan.recipe], w.history); r != porcupine.Ok {
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

// await waits until every worker has come to the end of its script. All faults are over, and all others give back what they hold. So every
// waiter must be granted, or get an error.
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

// simStacks returns the stacks of the goroutines that are in the middle of a worker's call.
func simStacks(all string) string {
	var kept []string
	for _, g := range strings.Split(all, "\n\n") {
		if strings.Contains(g, "simWorld).once") {
			kept = append(kept, g)
		}
	}
	return strings.Join(kept, "\n\n")
}

// atRest requires that nothing is left: no contender, no turn, no booked byte, no watch.
func (w *simWorld) atRest() {
	for _, dir := range w.dirs {
		if n, _ := w.Srv.Get(dir); len(n.Children) > 0 {
			w.violated("left in %s: %v", dir, n.Children)
		}
	}
	w.keysAtRest()
	for i, c := range w.clients {
		left := c.client().Leftovers()
		for range 20 { // a look for nodes that a server may have created late (see Txn.recheck) takes a round trip
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

// The schedule is a function of the seed alone, or a failing seed could not be replayed.
func TestASeedDecidesItsWholeSchedule(t *testing.T) {
	for seed := range uint64(50) {
		require.Equal(t, newSchedule(seed).String(), newSchedule(seed).String())
		require.NotEqual(t, newSchedule(seed).String(), newSchedule(seed+1).String())
	}
}

// If servers end a session early, or a person deletes a node, no client can know that in time. So the simulation excuses such grants.
// Without the excuse its invariants must fail; otherwise they would not look.
func TestTheInvariantsFindWhatIsExcused(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	for seed := range uint64(120) {
		if w := simulate(t, newSchedule(seed), false); strings.Contains(strings.Join(w.wrong, "\n"), "is gone") {
			return
		}
	}
	require.Fail(t, "holders of deleted nodes were not noticed")
}

// simWorld is one schedule being played in one bubble of fake time.
type simWorld struct {
	*lab
	plan     *schedule
	born     time.Time
	follower *zktest.Replica
	clients  []*simClient
	locks    []simMember
	dirs     []string // where contenders stand

	mu       sync.Mutex
	believed map[*simGrant]bool // granted, not known to be over
	standing map[*simGrant]bool // their nodes were there at the last look
	spoiled  map[string]time.Time
	stamps   int64
	history  []event
	wrong    []string
	ids      int
	excused  bool // false only to prove that the checks find something
	declared map[string]*simDeclaration
	observed string // the leader in the newest observation
	stats    simStats
	foreign  map[int64]bool // the czxids of nodes of keys that stock libraries have made
}

type simStats struct {
	virtual                                time.Duration
	asked, grants, losses, faults, refused int
	seen                                   int    // answers that said who leads
	late                                   int    // requests with which a thread of a server stood still
	rivals                                 [3]int // grants of rivals, by habit
}

// simClient is the place of a client. A goroutine that closes the client dials the next one.
type simClient struct {
	harness.Cutter
	w      *simWorld
	number int

	mu  sync.Mutex
	now *recipes.Client

	books []*tally // one for each client of the place

	restarting chan struct{} // full during a restart; a mutex would stop fake time for the next restart
}

// simGrant is one lease, with what is known about it.
type simGrant struct {
	id      int
	client  int
	lease   *recipes.Lease
	parts   []*simPart // one; for a multi-lock, one for each member
	session int64
	token   uint64 // for permits, the token of the first
	at      int64  // the stamp of the grant

	spoiledAt time.Time // when an administrator, or a server that broke its promise, ended it behind its holder's back
	leaving   bool      // its holder is exchanging it, and so has agreed to its end
	over      bool      // given back
	goneAt    time.Time // when one of its nodes was first found gone
}

// simPart is what a lease has of one lock.
type simPart struct {
	lock   string
	recipe simRecipe
	nodes  []string
	shared bool
	n      int   // permits
	seen   int64 // the newest stamp at which its nodes were there
	gone   bool
}

// nodes returns the nodes of all parts.
func (g *simGrant) nodes() (all []string) {
	for _, p := range g.parts {
		all = append(all, p.nodes...)
	}
	return all
}

// part returns the part of a lease in one lock: those of the nodes that are in that lock.
func (w *simWorld) part(of simMember, nodes []string, shared bool) *simPart {
	p := &simPart{lock: of.path, recipe: of.recipe, shared: shared}
	for _, node := range nodes {
		if strings.HasPrefix(node, w.node(of.path)+"/") {
			p.nodes = append(p.nodes, node)
		}
	}
	p.n = len(p.nodes)
	return p
}

// declareAll declares the locks of the plan's recipe.
func (w *simWorld) declareAll() {
	w.locks = []simMember{{path: "/l", recipe: w.plan.recipe}}
	if w.plan.recipe == "multi" || w.plan.recipe == "world" {
		w.locks = simMembers[:]
	}
	for _, of := range w.locks {
		w.declareLock(of)
		if path := w.node(of.path); of.recipe == "semaphore" {
			w.dirs = append(w.dirs, path+"/leases", path+"/locks")
		} else {
			w.dirs = append(w.dirs, path)
		}
	}
}

// newSimWorld starts the servers and dials the clients.
func newSimWorld(t *testing.T, plan *schedule) *simWorld {
	var brand []zktest.Option
	if plan.keyed {
		brand = append(brand, zktest.WithReapInterval(plan.timeout/2))
	}
	w := &simWorld{
		lab: &lab{harness.NewLab(t, append(brand, zktest.WithTickTime(plan.tick), zktest.WithLatency(plan.latency))...)}, plan: plan,
		born: time.Now(), believed: map[*simGrant]bool{}, standing: map[*simGrant]bool{}, spoiled: map[string]time.Time{},
		excused:  true,
		declared: map[string]*simDeclaration{}, foreign: map[int64]bool{},
	}
	if plan.replica {
		w.follower = w.Srv.Replica()
	}
	w.declareAll()
	// Look at the world at every request of any client. Before each grant that waited there is such a request.
	w.Srv.Inject(func(r zktest.Request) bool {
		if *simTrace {
			fmt.Printf("seed %d, %v, session %x: %s %s (%d)\n", plan.seed, time.Since(w.born), r.Session&0xff, r.Op, r.Path, r.Xid)
		}
		if r.Op != "ping" {
			w.inspect()
		}
		return false
	}, zktest.Fault{})
	for i := range plan.clients {
		c := &simClient{w: w, number: i, restarting: make(chan struct{}, 1)}
		c.Next = w.wire
		require.NoError(t, c.redial(t.Context()))
		w.clients = append(w.clients, c)
	}
	return w
}

// wire dials the server or its follower, by name.
func (w *simWorld) wire(ctx context.Context, network, address string) (net.Conn, error) {
	if w.follower != nil && strings.HasPrefix(address, "follower") {
		return w.follower.DialContext(ctx, network, address)
	}
	return w.Srv.DialContext(ctx, network, address)
}

// redial gives the place a new client.
func (c *simClient) redial(ctx context.Context) error {
	cfg := recipes.Config{
		Servers: []string{"leader"}, Dialer: c.Dial, SessionTimeout: c.w.plan.timeout, ID: fmt.Sprint(c.number),
		ConnectTimeout: c.w.plan.timeout, LoseOnSuspect: c.w.plan.clients[c.number].suspect,
	}
	if only := c.w.plan.clients[c.number].server; only != "" {
		cfg.Servers = []string{only}
	} else if c.w.follower != nil {
		cfg.Servers = append(cfg.Servers, "follower")
	}
	books := newTally()
	if c.number%2 == 0 { // the others have no Observer, like most programs
		cfg.Observer = books.Observe
	}
	// No system calls: the bubble's machine never sleeps.
	next, err := recipes.Dial(seam.With(ctx, seam.Seams{Slept: func() time.Duration { return 0 }}), cfg)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.books = next, append(c.books, books)
	return nil
}

func (c *simClient) client() *recipes.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// session returns the id of the client's newest session, which may be lost.
func (c *simClient) session() int64 {
	return c.client().Newest().ID()
}

func (c *simClient) lost() bool {
	return c.client().Newest().State() == session.StateLost
}

// violated notes that an invariant does not hold.
func (w *simWorld) violated(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blame(format, args...)
}

// blame is violated for a caller that holds mu.
func (w *simWorld) blame(format string, args ...any) {
	if len(w.wrong) < 20 {
		w.wrong = append(w.wrong, fmt.Sprintf("at %v: ", time.Since(w.born))+fmt.Sprintf(format, args...))
	}
}

// stamp orders events within the process; mu is held.
func (w *simWorld) stamp() int64 {
	w.stamps++
	return w.stamps
}

func (w *simWorld) now() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stamp()
}

// spoil notes that others end the nodes or sessions with these names. Their holders cannot know that before they are told. Call spoil
// before that happens.
func (w *simWorld) spoil(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		if _, known := w.spoiled[name]; !known {
			w.spoiled[name] = time.Now()
		}
	}
	for g := range w.believed {
		w.excuse(g)
	}
}

// excuse excuses a grant if one of its nodes, or its session, is spoiled. mu is held.
func (w *simWorld) excuse(g *simGrant) {
	if !w.excused || !g.spoiledAt.IsZero() {
		return
	}
	for _, name := range append(g.nodes(), sessionName(g.session)) {
		if at, ok := w.spoiled[name]; ok {
			g.spoiledAt = at
		}
	}
}

func sessionName(id int64) string { return fmt.Sprintf("session %#x", uint64(id)) }
