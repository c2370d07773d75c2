package recipes_test

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
)

// work plays one worker's script.
func (w *simWorld) work(worker int) {
	for _, st := range w.plan.scripts[worker] {
		time.Sleep(st.pause)
		w.once(worker, st)
	}
}

// once is one acquisition: ask, hold, give back.
func (w *simWorld) once(worker int, st simStep) {
	place := w.clients[worker%len(w.clients)]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch st.how {
	case "try", "timeout":
		// A try is one round trip on a good day; on a bad one its caller has a limit too.
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
	c, opts := place.client(), []recipes.Option(nil)
	lock := func(wait, try taking) (*recipes.Lease, error) {
		if st.how == "try" {
			return try(ctx)
		}
		return wait(ctx)
	}
	recipe, at := w.target(st)
	switch recipe {
	case "rwlock":
		m := w.rwmutex(c, at, st, opts...)
		if st.shared {
			return lock(m.RLock, m.TryRLock)
		}
		return lock(m.Lock, m.TryLock)
	case "semaphore":
		m := w.semaphore(c, at, st, opts...)
		return lock(permits(m, st.n),
			func(ctx context.Context) (*recipes.Lease, error) { return m.TryAcquire(ctx, st.n) })
	case "election":
		return c.Election(w.node(at)).Campaign(ctx)
	case "multi":
		m := c.MultiLock(w.members(c, st)...)
		return lock(m.Lock, m.TryLock)
	}
	m := w.mutex(c, at, st, opts...)
	return lock(m.Lock, m.TryLock)
}

// members are the locks the bits of a step name, without permits; a mutex if it names nothing else.
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
	w.fencedWrite(worker, g)
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
	w.fencedWrite(worker, g)
	return g
}

// verified: Verify said that the lease is held, so it was when the call began, and its context must not have ended
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
	switch p := g.parts[0]; p.recipe { // of a set, any member but permits
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
	unlock := g.lease.Unlock
	if recipe, _ := w.target(st); recipe == "election" {
		unlock = g.lease.Unlock
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
	err := unlock(ctx)
	if late := time.Since(start) - limit; late > 0 {
		w.violated("worker %d: Unlock returned %v late: %v", worker, late, err)
	}
	w.released(worker, g, err, called)
	if again := g.lease.Unlock(ctx); again != nil {
		w.violated("worker %d: the second Unlock answers %v", worker, again)
	}
}

// joined is a context with the values of another.
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
