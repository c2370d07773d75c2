package recipes_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/zktest"
)

// A schedule is everything a seed decides: the servers, the clients, what each worker does and what befalls them when.
// Which goroutine runs first among those that are ready is Go's to decide: see TestSimulation for replaying.
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
	crowd   []simCrowd // of "world": who polls and overloads while all that happens, and after it
	faults  []simFault
	keyed   bool // locks are those of keys, in families with these directories
	keyedBy string
	quiet   time.Duration // after all that, beyond the time that sessions take to expire
}

type simConfig struct {
	suspect  bool   // LoseOnSuspect
	releases bool   // by Release, where it would unlock
	server   string // the only one it knows, where there are two; "" is both
}

type simRecipe string

// The recipes, as often as they are to be drawn.
var simRecipes = []simRecipe{
	"mutex", "mutex", "mutex", "rwlock", "rwlock", "semaphore", "semaphore", "election", "multi", "election", "multi", "multi",
}

// simPermits is the semaphore's limit; a step asks for some of them.
const simPermits = 3

// simStep is one acquisition by one worker.
type simStep struct {
	recipe   simRecipe     // in "world"; elsewhere it is the schedule's
	pause    time.Duration // before
	how      string        // "lock", "try", "timeout", "cancel"
	wait     time.Duration // of timeout and cancel
	shared   bool          // rwlock: read
	n        int           // permits
	members  int           // multi: which of simMembers, as bits
	hold     time.Duration
	patience time.Duration // of what is done with the lease; 0: a quarter of a session timeout
	obedient bool          // gives back when the lease's context ends, as it should
	release  string        // "unlock", "cancelled", "brief"
	byKey    bool          // where locks are those of keys: by its key
	extra    string        // "", "verify", "enter", "multi", "exchange", "leader", "lead"
}

// simFault is one thing that happens to one client or to the servers.
type simFault struct {
	at, lasts time.Duration
	what      string
	client    int
	op        string // of the faults on requests
	n         int    // bytes, or which contender
	dir       zktest.Direction
}

// simKinds are the faults by name, as often as they are to be drawn. The names say what zktest does; "cut" is a cable
// cut behind n bytes, "pause" a client whose network stands still both ways, "restart" a Close and a new Dial, "drain"
// and "resize" a change of the declaration that is taken back later, "lower" one that is not.
var simKinds = strings.Fields(`drop-reply drop-reply drop-request lose-reply cut-before cut-after cut-at cut cut cut
	delay-reply delay-reply hold-reply throttle disconnect disconnect expire expire swap partition partition pause freeze refuse
	refuse-one delete delete revoke restart restart lag drain drain resize lower`)

var simOps = []string{"create", "delete", "multi", "setData", "getData", "getChildren2", "setWatches", "exists", "ping", "connect"}

// newSchedule derives everything from the seed. Durations are drawn in session timeouts, so that what happens in one
// hour of long sessions is as dense as in five minutes of short ones.
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

// series is n faults of these kinds, one after another or overlapping.
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

// some is a duration up to most session timeouts.
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

// String is the schedule for people: what a failing seed prints.
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
