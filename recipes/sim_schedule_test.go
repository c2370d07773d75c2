package recipes_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// A schedule is everything that a seed decides: the servers, the clients, the steps of each worker, and what befalls them when. Go decides
// which of the goroutines that are ready runs first: see TestSimulation for replaying.
type schedule struct {
	seed    uint64
	recipe  simRecipe
	tick    time.Duration
	timeout time.Duration // of the sessions, T
	latency time.Duration // each way
	clients []simConfig
	replica bool // a second server, which may lag
	waiters int  // max_waiters; 0 = any number
	scripts [][]simStep
	crowd   []simCrowd // of "world": workers that poll and overload during the scripts, and after them
	faults  []simFault
	keyed   bool // the locks are those of keys, in families with the fanout keyedBy
	keyedBy string
	quiet   time.Duration // a wait at the end, beyond the time that sessions take to expire
}

type simConfig struct {
	suspect  bool   // LoseOnSuspect
	releases bool   // calls Release instead of Unlock
	server   string // the only server it knows, if there are two; "" is both
}

type simRecipe string

// simRecipes has each recipe as often as it is to be drawn.
var simRecipes = []simRecipe{
	"mutex", "mutex", "mutex", "rwlock", "rwlock", "semaphore", "semaphore", "election", "multi", "election", "multi", "multi",
}

// simPermits is the semaphore's limit; a step asks for some of these permits.
const simPermits = 3

// simStep is one acquisition by one worker.
type simStep struct {
	recipe   simRecipe     // in "world"; otherwise that of the schedule
	pause    time.Duration // before the call
	how      string        // "lock", "try", "timeout", "cancel"
	wait     time.Duration // of timeout and cancel
	shared   bool          // rwlock: read
	n        int           // permits
	members  int           // multi: which of simMembers, as bits
	hold     time.Duration
	patience time.Duration // bounds what is done with the lease; 0 is a quarter of a session timeout
	obedient bool          // gives back when the lease's context ends, as it should
	release  string        // "unlock", "cancelled", "brief"
	byKey    bool          // names the lock by its key, if the locks are those of keys
	extra    string        // "", "verify", "enter", "multi", "exchange", "leader", "lead"
}

// simFault is one thing that happens to one client or to the servers.
type simFault struct {
	at, lasts time.Duration
	what      string
	client    int
	op        string // for faults on requests
	n         int    // bytes, or which contender
	dir       zktest.Direction
}

// simKinds has the name of each fault as often as it is to be drawn. The names say what zktest does. In addition, "cut" cuts the cable
// after n bytes, and "pause" stops a client's network both ways. "restart" is a Close and a new Dial. "drain" and "resize" change the
// declaration and change it back later; "lower" does not change it back.
var simKinds = strings.Fields(`drop-reply drop-reply drop-request lose-reply cut-before cut-after cut-at cut cut cut
	delay-reply delay-reply hold-reply throttle disconnect disconnect expire expire swap partition partition pause freeze refuse
	refuse-one delete delete revoke restart restart lag drain drain resize lower`)

var simOps = []string{"create", "delete", "multi", "setData", "getData", "getChildren2", "setWatches", "exists", "ping", "connect"}

// newSchedule derives everything from the seed. It draws durations in session timeouts. So as much happens in one hour of long sessions as
// in five minutes of short ones.
func newSchedule(seed uint64) *schedule {
	r := rand.New(rand.NewPCG(seed, 0x10c4))
	s := &schedule{seed: seed, recipe: simRecipes[seed%uint64(len(simRecipes))]}
	s.tick = []time.Duration{2 * time.Second, 6 * time.Second, 20 * time.Second, 20 * time.Second}[r.IntN(4)]
	s.timeout = s.tick * time.Duration(4+r.IntN(17)) // 4 to 20 ticks: what the servers grant and our rule allows
	s.latency = []time.Duration{0, time.Millisecond, 20 * time.Millisecond, min(s.timeout/100, 300*time.Millisecond)}[r.IntN(4)]
	s.replica = r.IntN(3) == 0
	s.staff(r)
	s.faults = s.series(r, r.IntN(20), simKinds)
	return s
}

// staff draws the clients, and what their workers do.
func (s *schedule) staff(r *rand.Rand) {
	s.waiters = max(0, r.IntN(8)-4)
	for i := range 2 + r.IntN(3) {
		s.clients = append(s.clients, simConfig{suspect: r.IntN(4) == 3, releases: (s.seed/5+uint64(i))%3 == 0})
	}
	for range len(s.clients) + r.IntN(2*len(s.clients)) {
		var script []simStep
		for range 4 + r.IntN(5) {
			script = append(script, s.step(r))
		}
		s.scripts = append(s.scripts, script)
	}
}

// series draws n faults of these kinds, one after another or overlapping.
func (s *schedule) series(r *rand.Rand, n int, kinds []string) (faults []simFault) {
	var at time.Duration
	for range n {
		at += s.some(r, 1.5)
		f := simFault{
			at: at, what: kinds[r.IntN(len(kinds))], client: r.IntN(len(s.clients)), op: simOps[r.IntN(len(simOps))],
			dir: zktest.Direction(1 + r.IntN(3)), n: r.IntN(400),
		}
		// Most are short; one in three lasts long enough to cost a session.
		f.lasts = s.some(r, []float64{0.2, 0.6, 2}[r.IntN(3)])
		faults = append(faults, f)
	}
	return faults
}

// some draws a duration of at most this number of session timeouts.
func (s *schedule) some(r *rand.Rand, most float64) time.Duration {
	return time.Duration(r.Float64() * most * float64(s.timeout)).Round(time.Millisecond)
}

func (s *schedule) step(r *rand.Rand) simStep {
	st := simStep{
		how:      []string{"lock", "lock", "lock", "try", "timeout", "timeout", "cancel"}[r.IntN(7)],
		shared:   r.IntN(3) > 0,
		obedient: r.IntN(3) > 0,
		release:  []string{"unlock", "unlock", "unlock", "cancelled", "brief"}[r.IntN(5)],
		extra:    []string{"", "", "verify", "enter", "multi", "exchange", "exchange", "leader", "lead"}[r.IntN(9)],
		n:        1 + r.IntN(simPermits),
		members:  1 + r.IntN(1<<len(simMembers)-1),
	}
	short := []float64{0.01, 0.1, 1}[r.IntN(3)]
	st.pause, st.wait = s.some(r, 3*short), s.some(r, short)
	st.hold = s.some(r, []float64{0, 0.05, 0.5, 0.5, 6}[r.IntN(5)])
	return st
}

// String describes the schedule for people: a failing seed prints it.
func (s *schedule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s, T %v, tick %v, latency %v, replica %v, max_waiters %d, clients %+v\n",
		s.seed, s.recipe, s.timeout, s.tick, s.latency, s.replica, s.waiters, s.clients)
	for i, script := range s.scripts {
		fmt.Fprintf(&b, "  worker %d of client %d:", i, i%len(s.clients))
		for _, st := range script {
			fmt.Fprintf(&b, " (pause %v; %s %s %v shared=%v n=%d of %b; hold %v obedient=%v %s %v; %s)",
				st.pause, st.how, st.recipe, st.wait, st.shared, st.n, st.members, st.hold, st.obedient, st.extra, st.patience, st.release)
		}
		b.WriteByte('\n')
	}
	for _, f := range s.faults {
		fmt.Fprintf(&b, "  at %v: %s, client %d, %v, op %s, n %d, dir %d\n", f.at, f.what, f.client, f.lasts, f.op, f.n, f.dir)
	}
	for i, c := range s.crowd {
		fmt.Fprintf(&b, "  worker %d of client %d: %s %s without a pause\n", len(s.scripts)+i, (len(s.scripts)+i)%len(s.clients), c.how, c.recipe)
	}
	return b.String()
}

// TestSimulationOfOwnLocks is about a client that has a lock nearly for itself. Its places pass from one of its goroutines to the next, and
// from a writer to a reader, while others come now and then. Meanwhile the declaration changes, and the counts of new leaders may lag.
func TestSimulationOfOwnLocks(t *testing.T) {
	effort.Proof(t)
	playSeeds(t, effort.Of(80, 40), 20, newOwn, func(all *simTotal) { require.Greater(t, all.kinds["refuse"], all.seeds) })
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

// TestSimulationOfStreams has clients that go from lock to lock, mostly with Release, which does not wait. The locks are of all kinds, and
// some steps take sets of them.
func TestSimulationOfStreams(t *testing.T) {
	effort.Proof(t)
	playSeeds(t, effort.Of(250, 40), 20, newStream, func(all *simTotal) { require.Greater(t, all.faults, all.seeds*3) })
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

// left enters the end of a lease if its holder does not wait for the deletion of its nodes.
func (w *simWorld) left(worker int, g *simGrant, called int64) {
	err := recipes.ErrReleasePending
	if why := context.Cause(g.lease.Context()); errors.Is(why, recipes.ErrLost) {
		err = why
	}
	w.released(worker, g, err, called)
}

// TestSimulationOfAServerThatIsBehind looks for the effect of a hole in the proof of a grant. Some clients know only the leader, the others
// only a follower, and the follower falls behind. It gets the log late, all at once or in steps, and its own messages do not arrive. So it
// tells its clients of a release, shows them first in the queue, and answers their pings and reads. It does not know that their sessions
// have expired, and that a client of the leader has been granted the lock since. No client has agreed to that, and no grant is excused for
// it: two clients that believe at once that they hold the lock are a failure.
func TestSimulationOfAServerThatIsBehind(t *testing.T) {
	effort.Proof(t)
	playSeeds(t, effort.Of(200, 60), 5, newBehind, func(all *simTotal) {
		require.Greater(t, all.losses, all.seeds/4, "hardly a session of a holder expired")
		require.Greater(t, all.kinds["behind"], all.seeds)
	})
}

// newBehind derives everything from the seed. Waits and holds are long compared with a session. So a proof from the time when a waiter
// queued proves nothing when its turn comes.
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

// behind makes the follower fall behind: its messages do not arrive. In three of four cases it gets the log now and then.
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

// TestSimulationOfLateRequests looks for the effects of single requests that are executed late. A thread of a server stands still with a
// request, and the connection is cut, on the client's side or the server's. The client goes on before the thread does. All recipes are in
// one world, with sets, several permits and exchanges. Callers may give up at any moment.
func TestSimulationOfLateRequests(t *testing.T) {
	effort.Proof(t)
	playSeeds(t, effort.Of(500, 20), 20, newLate, func(all *simTotal) {
		require.Greater(t, all.late, all.seeds/2, "hardly a request was executed late")
	})
}

// simLate has the name of each fault as often as it is to be drawn. "stall" is a thread that stands still with a request. "stall-look" is
// such a thread that goes on in the middle of a later look at several queues. "delay" is a slow disk. "hang-up" ends a connection on the
// client's side.
var simLate = strings.Fields(`stall stall stall stall stall-look stall-look stall-look delay delay hang-up disconnect drop-reply lose-reply
	cut partition expire swap restart drain drain revoke delete refuse`)

var simLateOps = strings.Fields(`multi multi multi multi create create create delete delete setData getData getChildren2 setWatches exists`)

// newLate derives everything from the seed.
func newLate(seed uint64) *schedule {
	r := rand.New(rand.NewPCG(seed, 0x1a7e))
	s := &schedule{seed: seed, recipe: "world", tick: 2 * time.Second, timeout: time.Duration(8+r.IntN(8)) * time.Second,
		latency: []time.Duration{time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond}[r.IntN(3)], replica: r.IntN(4) == 0}
	s.quiet = 6 * s.timeout // as long as a late node may stay: see Txn.recheck
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

// moment draws the time after which a caller gives up. It comes within a call that goes well, within one that is cut, or within a long
// wait.
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
	} // otherwise the client waits until it thinks that the connection is dead
	if f.what == "stall" {
		time.Sleep(f.lasts)
		return
	}
	// A later listing stands still too, perhaps in a look at several queues. The request is executed before that listing goes on.
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

// One world has all recipes at once: single locks, sets of them, several clients, and several series of faults. Some limits are lowered for
// good. In a crowd some workers poll without a pause, and some give up before the network can answer. All invariants of the single recipes
// hold here too. While the crowd is there, every waiter is granted. When it has gone, a fresh client is granted every lock at once.
func TestSimulationOfAllRecipesTogether(t *testing.T) {
	effort.Proof(t)
	playSeeds(t, effort.Of(80, 5), 50, newWorld, func(all *simTotal) { require.Greater(t, all.faults, all.seeds*5) })
}

// simCrowd is a worker of the crowd, which does not wait.
type simCrowd struct {
	how    string    // "try", or "timeout": one of at most 1.25 round trips
	recipe simRecipe // always this recipe; "" is any
	seed   uint64
}

// newWorld derives everything from the seed. Sessions are short and the network is slow, to limit the calls that workers without a pause
// make in a world.
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

// together draws a step with any of the recipes.
func (s *schedule) together(r *rand.Rand) simStep {
	st := s.step(r)
	st.recipe = []simRecipe{"mutex", "rwlock", "semaphore", "semaphore", "election", "multi", "multi"}[r.IntN(7)]
	st.hold = min(st.hold, s.timeout)
	if !slices.Contains([]string{"verify", "enter", "multi"}, st.extra) {
		st.extra = ""
	}
	return st
}

// hasty draws a step of a worker of the crowd.
func (s *schedule) hasty(r *rand.Rand, c simCrowd) simStep {
	st := s.together(r)
	st.how, st.recipe, st.hold, st.extra, st.release = c.how, cmp.Or(c.recipe, st.recipe), 0, "", "unlock"
	if c.how == "try" && st.recipe == "election" { // an election has no Try
		st.recipe = "multi"
	}
	st.pause, st.wait = s.latency/4, s.timeout
	if c.how == "timeout" {
		st.pause, st.wait = 2*s.latency/5, time.Duration(r.Int64N(int64(5*s.latency/2)))
	}
	return st
}

// target returns the recipe that a step takes, and the lock's path unless the step takes a set.
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

// crowded starts the crowd, and returns a function that ends it. Before and after the end, the function checks that waiters are granted.
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
		time.Sleep(w.plan.timeout + 3*w.plan.tick) // the effects of faults on sessions are over
		for i := range w.clients {
			w.everyLock(i, 10*w.plan.timeout, "while others poll")
		}
		cancel()
		crowd.Wait()
		w.restart(w.clients[0])
		w.everyLock(0, time.Second+20*w.plan.latency, "after others have polled")
	}
}

// everyLock requires that a client that waits is granted each lock, and all of them together, in time.
func (w *simWorld) everyLock(client int, within time.Duration, when string) {
	worker := 100*len(w.clients) + client // a number that no other worker has; modulo the number of clients it is the client
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

// oneEach requires that no client has two contenders in the queue of a mutex, however many of its callers came and went. mu is held.
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
			if _, contends := kind.ParseContender(child); !contends { // an anchor: it only keeps a key's node in place
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
