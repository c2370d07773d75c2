package recipes_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// work plays one worker's script.
func (w *simWorld) work(worker int) {
	for _, st := range w.plan.scripts[worker] {
		time.Sleep(st.pause)
		w.once(worker, st)
	}
}

// once makes one acquisition: ask, hold, give back.
func (w *simWorld) once(worker int, st simStep) {
	place := w.clients[worker%len(w.clients)]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch st.how {
	case "try", "timeout":
		// A try normally takes one round trip. Its caller has a limit too, because it can take longer.
		ctx, cancel = context.WithTimeout(ctx, st.wait)
		defer cancel()
	case "cancel":
		timer := time.AfterFunc(st.wait, cancel)
		defer timer.Stop()
	}
	called, asked := w.now(), time.Now()
	w.mu.Lock()
	w.stats.asked++
	w.mu.Unlock()
	if w.plan.recipe == "election" && st.extra == "lead" {
		w.lead(ctx, worker, place, st, called)
		return
	}
	l, err := w.ask(ctx, place, st)
	if late := time.Since(asked) - st.wait; ctx.Err() != nil && late > 0 {
		w.violated("worker %d: %s returned %v after its context had ended: %v", worker, st.how, late, err)
	}
	if err != nil {
		w.told(st, err)
		return
	}
	g := w.granted(worker, st, l, called)
	g = w.use(worker, st, place, g)
	w.give(worker, st, g)
}

// ask calls the recipe.
func (w *simWorld) ask(ctx context.Context, place *simClient, st simStep) (*recipes.Lease, error) {
	c := place.client()
	lock := func(wait, try taking) (*recipes.Lease, error) {
		if st.how == "try" {
			return try(ctx)
		}
		return wait(ctx)
	}
	recipe, at := w.target(st)
	switch recipe {
	case "rwlock":
		m := w.rwmutex(c, at, st)
		if st.shared {
			return lock(m.RLock, m.TryRLock)
		}
		return lock(m.Lock, m.TryLock)
	case "semaphore":
		m := w.semaphore(c, at, st)
		return lock(permits(m, st.n),
			func(ctx context.Context) (*recipes.Lease, error) { return m.TryAcquire(ctx, st.n) })
	case "election":
		return c.Election(w.node(at)).Campaign(ctx)
	case "multi":
		m := c.MultiLock(w.members(c, st)...)
		return lock(m.Lock, m.TryLock)
	}
	m := w.mutex(c, at, st)
	return lock(m.Lock, m.TryLock)
}

// members returns the locks that the bits of a step name, except semaphores. If none is left, it returns a mutex.
func (w *simWorld) members(c *recipes.Client, st simStep) (members []recipes.Member) {
	for i, of := range w.locks {
		if st.members&(1<<i) == 0 || of.recipe == "semaphore" {
			continue
		}
		switch of.recipe {
		case "rwlock":
			if m := w.rwmutex(c, of.path, st); st.shared {
				members = append(members, m.RLocker())
			} else {
				members = append(members, m)
			}
		case "election":
			members = append(members, c.Election(w.node(of.path)))
		default:
			members = append(members, w.mutex(c, of.path, st))
		}
	}
	if len(members) == 0 {
		members = append(members, w.mutex(c, w.locks[0].path, st))
	}
	return members
}

// use holds the lease for as long as the step says, and does something with it.
func (w *simWorld) use(worker int, st simStep, place *simClient, g *simGrant) *simGrant {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(st.patience, w.plan.timeout/4))
	defer cancel()
	switch st.extra {
	case "verify":
		if err := g.lease.Verify(ctx); err == nil {
			w.verified(g)
		}
	case "leader":
		w.leader(ctx, worker, place)
	case "enter":
		w.enterAgain(ctx, st, g)
	case "multi":
		w.guardedWrite(ctx, g)
	case "exchange":
		if len(g.parts) == 1 && g.parts[0].recipe == "rwlock" {
			g = w.exchange(ctx, worker, st, g)
		}
	}
	over := time.NewTimer(st.hold)
	defer over.Stop()
	if st.obedient {
		select {
		case <-over.C:
		case <-g.lease.Context().Done():
		}
	} else {
		<-over.C
	}
	return g
}

// verified checks a grant after Verify has said that it is held. It was held when the call of Verify began, so its nodes must not have gone
// long ago.
func (w *simWorld) verified(g *simGrant) {
	token := g.lease.Token()
	w.mu.Lock()
	defer w.mu.Unlock()
	if token != 0 && g.token != 0 && token != g.token {
		w.blame("grant %d: its token is %d, its contender's czxid %d", g.id, token, g.token)
	}
	if !g.goneAt.IsZero() && time.Since(g.goneAt) > w.plan.timeout/4 {
		w.blame("grant %d: verified %v after its nodes went", g.id, time.Since(g.goneAt))
	}
}

// enterAgain enters a lock again through its lease's context, and leaves it.
func (w *simWorld) enterAgain(ctx context.Context, st simStep, g *simGrant) {
	c, ctx := g.lease.Client(), joined{ctx, g.lease.Context()}
	var inner *recipes.Lease
	var err error
	switch p := g.parts[0]; p.recipe { // of a set, the first member
	case "mutex":
		inner, err = w.mutex(c, p.lock, st, recipes.WithReentrancy()).Lock(ctx)
	case "rwlock":
		inner, err = w.rwmutex(c, p.lock, st, recipes.WithReentrancy()).RLock(ctx)
	default:
		return
	}
	if err != nil {
		w.told(st, err)
		return
	}
	if !inner.With(g.lease) && g.lease.Ended() == nil {
		w.violated("grant %d: entering again gave another lease while it is held", g.id)
	}
	if err := inner.Unlock(ctx); err == nil && inner.With(g.lease) && g.lease.Context().Err() == nil && g.lease.Ended() != nil {
		w.violated("grant %d: the inner Unlock gave it back", g.id)
	}
}

// guardedWrite makes a transaction that must fail once the lock is gone.
func (w *simWorld) guardedWrite(ctx context.Context, g *simGrant) {
	w.mu.Lock()
	gone := g.goneAt
	w.mu.Unlock()
	_, err := g.lease.Multi(ctx, &zk.SetDataRequest{Path: "/guarded", Data: []byte(g.lease.Node()), Version: -1})
	if err == nil && !gone.IsZero() {
		w.violated("grant %d: a guarded write was applied after its node went", g.id)
	}
}

// exchange turns a write lease into a read lease.
func (w *simWorld) exchange(ctx context.Context, worker int, st simStep, g *simGrant) *simGrant {
	if g.parts[0].shared {
		return g
	}
	w.mu.Lock()
	g.leaving = true
	w.mu.Unlock()
	called := w.now()
	l, err := w.rwmutex(g.lease.Client(), g.parts[0].lock, st).Downgrade(ctx, g.lease)
	if err != nil {
		w.mu.Lock()
		g.leaving = false
		if !g.goneAt.IsZero() && g.spoiledAt.IsZero() && g.lease.Context().Err() == nil {
			w.blame("grant %d is held as before, after %v, and its node is gone", g.id, err)
		}
		w.mu.Unlock()
		if !errors.Is(err, recipes.ErrReleased) && !errors.As(err, new(*direct.OpError)) {
			w.told(st, err)
		}
		return g
	}
	w.mu.Lock()
	g.over = true
	delete(w.believed, g)
	w.mu.Unlock()
	return w.admitted(worker, st, l, event{op: opExchange, old: g.id, call: called})
}

// give gives the lease back.
func (w *simWorld) give(worker int, st simStep, g *simGrant) {
	ctx, cancel := context.WithTimeout(context.Background(), w.plan.timeout)
	defer cancel()
	limit := w.plan.timeout
	switch st.release {
	case "cancelled":
		cancel()
		limit = 0
	case "brief":
		limit = w.plan.timeout / 50
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	called, start := w.now(), time.Now()
	if st.release == "unlock" && w.plan.clients[worker%len(w.clients)].releases {
		g.lease.Release()
		if took := time.Since(start); took > 0 {
			w.violated("worker %d: Release took %v", worker, took)
		}
		w.left(worker, g, called)
		return
	}
	err := g.lease.Unlock(ctx)
	if late := time.Since(start) - limit; late > 0 {
		w.violated("worker %d: Unlock returned %v late: %v", worker, late, err)
	}
	w.released(worker, g, err, called)
	if again := g.lease.Unlock(ctx); again != nil {
		w.violated("worker %d: the second Unlock answers %v", worker, again)
	}
}

// joined is a context that also has the values of another.
type joined struct {
	context.Context
	values context.Context
}

func (j joined) Value(key any) any {
	if v := j.Context.Value(key); v != nil {
		return v
	}
	return j.values.Value(key)
}

// leader asks who leads, and enters the answer. While a client leads, the answer must be that client.
func (w *simWorld) leader(ctx context.Context, worker int, place *simClient) {
	if w.plan.recipe != "election" {
		return
	}
	called := w.now()
	c, _, err := place.client().Election("/l").Leader(ctx)
	if err == nil {
		w.see(worker, c, called)
	}
}

// see enters that a caller was told who leads. A follower may lag, and so may its answers: in a world with a follower nothing is entered.
func (w *simWorld) see(worker int, c recipes.Contender, called int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.seen++
	if w.follower != nil {
		return
	}
	w.enter(event{op: opSee, client: worker, token: c.Token, call: called, ret: w.stamp()},
		&simPart{lock: "/l", nodes: []string{c.Path}})
}

// observe follows who leads until ctx ends. When the place gets a new client, it goes on with that client.
func (w *simWorld) observe(ctx context.Context, place *simClient) {
	for ctx.Err() == nil {
		called := w.now()
		for c, err := range place.client().Election("/l").Observe(ctx) {
			if err != nil {
				continue // the loop goes on if it can
			}
			w.see(len(w.plan.scripts), c, called)
			w.mu.Lock()
			w.observed = c.Path
			called = w.stamp()
			w.mu.Unlock()
		}
		_ = harness.Pause(ctx, time.Second)
	}
}

// observing starts observe, and returns a function that ends it. The function requires that the last state was seen: no client leads.
func (w *simWorld) observing() (end func()) {
	if w.plan.recipe != "election" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { w.observe(ctx, w.clients[0]) })
	return func() {
		w.mu.Lock()
		if w.observed != "" {
			w.blame("nobody leads any more, and the last observation was %s", w.observed)
		}
		w.mu.Unlock()
		cancel()
		watching.Wait()
	}
}

// lead lets a worker lead by Lead, which stands again after a loss. Between two terms the leadership may or may not have been given up. The
// same is true after the last term, unless Lead returns nil.
func (w *simWorld) lead(ctx context.Context, worker int, place *simClient, st simStep, called int64) {
	var last *simGrant
	var ended int64
	over := func(err error) {
		if last != nil {
			w.released(worker, last, err, ended)
		}
	}
	terms := 0
	err := place.client().Election("/l").Lead(ctx, func(ctx context.Context, l *recipes.Lease) error {
		over(recipes.ErrReleasePending)
		last = w.granted(worker, st, l, called)
		terms++
		step := st
		step.extra = "verify"
		w.use(worker, step, place, last)
		called = w.now()
		ended = called
		return nil
	})
	if err == nil {
		over(nil)
		return
	}
	over(recipes.ErrReleasePending)
	if terms == 0 {
		w.told(st, err)
	}
}

// TestSimulationOfKeys plays the schedules of the other simulations with the locks of keys (an election has none). The same faults befall
// clients and servers here. Programs of Curator and of kazoo, and of helpers like those of testdata/interop, contend for the same keys. The
// invariants and the models are those of declared locks, with these rivals as holders. At the end, when the servers' collector has had its
// time, only nodes that a stock library created are left in a family.
func TestSimulationOfKeys(t *testing.T) {
	effort.Proof(t)
	playSeeds(t, effort.Of(400, 60), 5, newKeyed, func(all *simTotal) {
		for habit, n := range all.rivals {
			require.Greater(t, n, all.seeds/4, "hardly a rival of the habit %d had a lock", habit)
		}
	})
}

// newKeyed takes the schedule of a seed of another simulation, and adds keys and rivals.
func newKeyed(seed uint64) *schedule {
	s := newSchedule(seed)
	if seed%4 == 2 {
		s = newLate(seed)
	}
	if seed%16 == 3 { // one world costs as much as forty of the others, and TestSimulationOfAllRecipesTogether plays many
		s = newWorld(seed)
	}
	if s.recipe == "election" {
		s.recipe = []simRecipe{"mutex", "semaphore"}[seed/12%2]
	}
	r := rand.New(rand.NewPCG(seed, 0x4e75))
	s.keyed, s.keyedBy = true, []string{"", "16"}[r.IntN(2)]
	s.quiet = max(s.quiet, 4*s.timeout)
	for _, script := range s.scripts {
		for j := range script {
			script[j].byKey = r.IntN(2) == 0
		}
	}
	var at time.Duration
	for range 2 + r.IntN(6) {
		at += s.some(r, 1)
		s.faults = append(s.faults, simFault{at: at, what: "found", client: 0, n: r.IntN(1 << 20), lasts: s.some(r, []float64{0.1, 0.5, 1.5}[r.IntN(3)])})
	}
	slices.SortStableFunc(s.faults, func(a, b simFault) int { return cmp.Compare(a.at, b.at) })
	return s
}

// keyed reports whether a lock is that of a key.
func (w *simWorld) keyed(lock string) bool {
	return w.plan.keyed && w.declared[lock] != nil && w.declared[lock].recipe != "election"
}

// family returns the path of the family that declares a lock, and the lock's key there. Only a key's lock is declared there; any other is
// declared at its own path.
func (w *simWorld) family(lock string) (path, key string) { return lock + "-keys", "of " + lock + "%" }

// node returns the node that has the contenders of a lock.
func (w *simWorld) node(lock string) string {
	if !w.keyed(lock) {
		return lock
	}
	family, key := w.family(lock)
	path := must((&kind.KeyedParams{Fanout: w.plan.keyedBy}).Path(family, key))(w.T)
	return path
}

// familyOf returns the parameters of a family of locks that have the given parameters.
func (w *simWorld) familyOf(of kind.Params) kind.Params {
	p := &kind.KeyedParams{Of: of.Kind().Name, Fanout: w.plan.keyedBy, Foreign: "true", Common: kind.Common{Wire: kind.WireCurator}}
	switch of := of.(type) {
	case *kind.RWLockParams:
		p.MaxWaiters = of.MaxWaiters
	case *kind.SemaphoreParams:
		p.Permits, p.MaxWaiters = of.Permits, of.MaxWaiters
	case *kind.MutexParams:
		p.MaxWaiters = of.MaxWaiters
	}
	return p
}

// declareAt writes the declaration of a lock.
func (w *simWorld) declareAt(lock string, p kind.Params, change ...func(*kind.Payload)) {
	if w.keyed(lock) {
		lock, _ = w.family(lock)
		p = w.familyOf(p)
	}
	w.lab.Declare(lock, p, change...)
}

// mutex returns a handle on a lock, by its key or by the path of the key's node.
func (w *simWorld) mutex(c *recipes.Client, lock string, st simStep, opts ...recipes.Option) *recipes.Mutex {
	if family, key := w.family(lock); w.keyed(lock) && st.byKey {
		return c.Keyed(family, opts...).Mutex(key)
	}
	return c.Mutex(w.node(lock), opts...)
}

func (w *simWorld) rwmutex(c *recipes.Client, lock string, st simStep, opts ...recipes.Option) *recipes.RWMutex {
	if family, key := w.family(lock); w.keyed(lock) && st.byKey {
		return c.Keyed(family, opts...).RWMutex(key)
	}
	return c.RWMutex(w.node(lock), opts...)
}

func (w *simWorld) semaphore(c *recipes.Client, lock string, st simStep) *recipes.Semaphore {
	if family, key := w.family(lock); w.keyed(lock) && st.byKey {
		return c.Keyed(family).Semaphore(key)
	}
	return c.Semaphore(w.node(lock))
}

// keysAtRest requires that nothing is left of keys, except the nodes that other programs have created.
func (w *simWorld) keysAtRest() {
	if !w.plan.keyed {
		return
	}
	for _, of := range w.locks {
		if w.keyed(of.path) {
			w.keyAtRest(w.node(of.path))
		}
	}
}

func (w *simWorld) keyAtRest(path string) {
	n, there := w.Srv.Get(path)
	if !there {
		return
	}
	if !w.foreign[n.Stat.Czxid] {
		w.violated("left of a key: %s\n%s", path, w.Srv.Dump())
	}
	for _, child := range n.Children {
		w.keyAtRest(path + "/" + child)
	}
}
