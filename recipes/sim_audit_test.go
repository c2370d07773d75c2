package recipes_test

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// The invariants. A client believes that it holds while the context of its lease has not ended. The stated conditions are: servers keep a
// session for as long as they granted it, and no person deletes a contender by hand. If a condition was broken for a grant, the grant is
// excused from the first invariant, for half a session timeout.
//
//   - A client that believes that it holds has its nodes in the servers' tree, and they belong to its session.
//   - A lease that is granted has not ended yet: its session was proven. But with LoseOnSuspect the end of a connection may end it at once.
//   - A client that is granted has no contender in conflict ahead in the queue, in the servers' own order (no conditions).
//   - No client is granted while the nodes of a grant in conflict exist, and exclusive tokens grow from grant to grant. The models of
//     the history check both (no conditions). So, by the first invariant, two clients never believe at the same time that they hold.

// granted enters a new lease into the history, and checks it. called is the stamp of the call that led to it.
func (w *simWorld) granted(worker int, st simStep, l *recipes.Lease, called int64) *simGrant {
	return w.admitted(worker, st, l, event{op: opAcquire, call: called})
}

// admitted enters a new lease as the result of e.
func (w *simWorld) admitted(worker int, st simStep, l *recipes.Lease, e event) *simGrant {
	g := &simGrant{client: worker % len(w.clients), lease: l, session: l.SessionID()}
	for _, of := range w.locks {
		p := w.part(of, l.Nodes(), of.recipe == "rwlock" && w.reads(st, l, e.op))
		if len(p.nodes) > 0 {
			g.parts = append(g.parts, p)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	w.stats.grants++
	g.id = w.ids
	w.excuse(g)
	cause := context.Cause(l.Context())
	if cause != nil && g.spoiledAt.IsZero() && !errors.Is(cause, recipes.ErrClosed) && !strings.Contains(cause.Error(), "LoseOnSuspect") {
		w.blame("grant %d to client %d was over when it was given: %v", g.id, g.client, cause)
	}
	w.foremost(g)
	w.numbered(g)
	e.client, e.grant, e.token, e.passed, e.ret = worker, g.id, g.token, false, w.stamp()
	g.at = e.ret
	w.enter(e, g.parts...)
	w.believed[g], w.standing[g] = true, true
	for _, p := range g.parts {
		p.seen = e.call
	}
	w.look()
	return g
}

// reads reports whether the lease is for reading. A set's member reads if its step says so, until it is exchanged.
func (w *simWorld) reads(st simStep, l *recipes.Lease, op operation) bool {
	if recipe, _ := w.target(st); recipe == "multi" && op != opExchange {
		return st.shared
	}
	return l.Reads()
}

// enter puts what happened to these parts into the history. For sets, one event has all parts. Otherwise each part is an event of its lock.
// So in a world of all recipes each lock has a history that can be checked by itself.
func (w *simWorld) enter(e event, parts ...*simPart) {
	for _, p := range parts {
		of := e
		of.lock, of.shared, of.n = p.lock, p.shared, p.n
		if len(p.nodes) > 0 {
			of.node = p.nodes[0]
		}
		if w.plan.recipe != "multi" {
			w.history = append(w.history, of)
			continue
		}
		e.set = append(e.set, of)
	}
	if w.plan.recipe == "multi" {
		w.history = append(w.history, e)
	}
}

// foremost checks by the servers' own order that no contender in conflict is ahead.
func (w *simWorld) foremost(g *simGrant) {
	for _, p := range g.parts {
		if p.recipe == "semaphore" {
			continue // permits are not granted in their order
		}
		dir, own := path.Split(p.nodes[0])
		dir = path.Clean(dir)
		n, _ := w.Srv.Get(dir)
		if !slices.Contains(n.Children, own) {
			n.Children = append(n.Children, own) // deleted since; a contender ahead of it is still wrong
		}
		line, _ := kind.SortContenders(n.Children)
		for _, ahead := range line {
			if ahead.Name == own {
				break
			}
			if p.shared && ahead.Shared {
				continue
			}
			w.blame("grant %d of %s to client %d while %s is ahead", g.id, p.nodes[0], g.client, ahead.Name)
		}
	}
}

// numbered reads the token from the servers' tree, and checks the session of each node.
func (w *simWorld) numbered(g *simGrant) {
	for _, node := range g.nodes() {
		n, there := w.Srv.Get(node)
		if there && n.Stat.EphemeralOwner != g.session {
			w.blame("grant %d: %s belongs to %#x, the lease to %#x", g.id, node, n.Stat.EphemeralOwner, g.session)
		}
		if there && node == g.lease.Node() {
			g.token = uint64(n.Stat.Czxid)
		}
	}
}

// inspect looks at all grants in the servers' tree.
func (w *simWorld) inspect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look()
}

// look is inspect for a caller that holds mu.
func (w *simWorld) look() {
	for g := range w.standing {
		left := 0
		for _, p := range g.parts {
			switch {
			case p.gone:
			case w.stands(p):
				p.seen = w.stamp()
				left++
			default:
				w.ends(g, p)
			}
		}
		if g.over || left == 0 {
			delete(w.standing, g)
		}
	}
	w.oneEach()
	for g := range w.believed {
		if g.lease.Context().Err() != nil {
			delete(w.believed, g)
			continue
		}
		// No write of the session was committed after that, so its holder's deadline is at most T/2 later.
		if at := g.goneAt; !at.IsZero() && !g.leaving && time.Since(at) > w.plan.timeout/2 {
			w.blame("grant %d: client %d still believes to hold %v, %v after it was taken away", g.id, g.client, g.nodes(), time.Since(at))
			delete(w.believed, g)
		}
	}
}

func (w *simWorld) stands(p *simPart) bool {
	for _, node := range p.nodes {
		if _, there := w.Srv.Get(node); !there {
			return false
		}
	}
	return true
}

// ends records that a part's nodes are gone. They went at some moment since they were last seen.
func (w *simWorld) ends(g *simGrant, p *simPart) {
	p.gone = true
	if g.over {
		return // it was given back
	}
	if g.goneAt.IsZero() {
		g.goneAt = time.Now()
	}
	if g.lease.Context().Err() == nil && g.spoiledAt.IsZero() && !g.leaving {
		w.blame("grant %d: client %d believes to hold %v, of which %v is gone", g.id, g.client, g.nodes(), p.nodes)
	}
	w.enter(event{op: opGone, client: g.client, grant: g.id, call: p.seen, ret: w.stamp()}, p)
}

// released enters the result of an Unlock.
func (w *simWorld) released(worker int, g *simGrant, err error, called int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pending := errors.Is(err, recipes.ErrReleasePending)
	switch {
	case err == nil, pending:
		w.enter(event{op: opRelease, client: worker, grant: g.id, unknown: pending, call: called, ret: w.stamp()}, g.parts...)
		g.over = g.over || err == nil
	case errors.Is(err, recipes.ErrLost):
		w.stats.losses++
	default:
		w.blame("Unlock of grant %d: %v", g.id, err)
	}
	if g.lease.Context().Err() == nil {
		w.blame("grant %d is given back and its context lives", g.id)
	}
	delete(w.believed, g)
	w.look()
}

// told checks that an error is one that a caller can act on.
func (w *simWorld) told(st simStep, err error) {
	w.mu.Lock()
	w.stats.refused++
	w.mu.Unlock()
	for _, known := range []error{
		recipes.ErrHeld, recipes.ErrLost, recipes.ErrSessionLost, recipes.ErrClosed, recipes.ErrRevoked, recipes.ErrUnreachable, recipes.ErrThrottled,
		recipes.ErrDraining, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return
		}
	}
	if w.plan.waiters > 0 && errors.Is(err, recipes.ErrQueueFull) || errors.Is(err, recipes.ErrTooManyPermits) {
		return // the queue is full, or a semaphore was resized
	}
	w.violated("%s answers %v", st.how, err)
}

// simDeclaration is the declaration in a lock's node. Draining and resizing change it, and change it back after a while.
type simDeclaration struct {
	recipe  simRecipe
	params  kind.Params
	shut    int   // how many faults keep it drained
	permits []int // limits in force, one for each fault that set one
	lowered int   // the limit that stays
}

// declareLock declares a lock for the first time.
func (w *simWorld) declareLock(of simMember) {
	common := kind.Common{MaxWaiters: w.plan.waiters}
	d := &simDeclaration{recipe: of.recipe, lowered: simPermits}
	switch of.recipe {
	case "rwlock":
		d.params = &kind.RWLockParams{Common: common}
	case "semaphore":
		d.params = &kind.SemaphoreParams{Common: common, Permits: simPermits}
	case "election":
		d.params = &kind.ElectionParams{Common: common}
	default:
		d.params = &kind.MutexParams{Common: common}
	}
	w.declared[of.path] = d
	w.declareAt(of.path, d.params)
}

// publish writes the present declaration, and enters the change into the history. mu is held, so the entries have the order of the writes.
func (w *simWorld) publish(lock string, op operation, n int) {
	d := w.declared[lock]
	called := w.stamp()
	w.declareAt(lock, d.params, func(p *kind.Payload) {
		if d.shut > 0 {
			p.State = kind.StateDraining
		}
	})
	w.enter(event{op: op, call: called, ret: w.stamp()}, &simPart{lock: lock, n: n})
}

// shut drains a lock for a while. Its waiters are sent away, its holders stay.
func (w *simWorld) shut(f simFault) {
	lock := w.locks[f.n%len(w.locks)].path
	d := w.declared[lock]
	w.mu.Lock()
	d.shut++
	w.publish(lock, opShut, 0)
	w.mu.Unlock()
	time.Sleep(f.lasts)
	w.mu.Lock()
	defer w.mu.Unlock()
	op := opShut
	if d.shut--; d.shut == 0 {
		op = opOpen
	}
	w.publish(lock, op, 0)
}

// resize gives a semaphore fewer permits, for a while or for good. Permits that are held stay.
func (w *simWorld) resize(f simFault) {
	for lock, d := range w.declared {
		p, ok := d.params.(*kind.SemaphoreParams)
		if !ok {
			continue // there is one semaphore at most
		}
		limit := func(change func()) {
			w.mu.Lock()
			defer w.mu.Unlock()
			change()
			next := *p
			next.Permits = d.lowered
			if len(d.permits) > 0 {
				next.Permits = min(d.lowered, d.permits[0])
			}
			d.params = &next
			w.publish(lock, opLimit, next.Permits)
		}
		if f.what == "lower" {
			limit(func() { d.lowered = min(d.lowered, 1+f.n%simPermits) })
			continue
		}
		limit(func() { d.permits = append(d.permits, 1+f.n%simPermits) })
		time.Sleep(f.lasts)
		limit(func() { d.permits = d.permits[1:] })
	}
}

// inUse requires that every lock is declared as at first, except for limits that were lowered for good.
func (w *simWorld) inUse() {
	for lock, d := range w.declared {
		require.Zero(w.T, d.shut, lock)
		require.Empty(w.T, d.permits, lock)
	}
}

// befall plays the faults, each at its time, and returns when all of them are over.
func (w *simWorld) befall() {
	var wg sync.WaitGroup
	for _, f := range w.plan.faults {
		time.Sleep(time.Until(w.born.Add(f.at)))
		w.mu.Lock()
		w.stats.faults++
		w.mu.Unlock()
		wg.Go(func() { w.strike(f) })
		w.inspect()
	}
	wg.Wait()
}

// strike plays one fault from its beginning to its end.
func (w *simWorld) strike(f simFault) {
	c := w.clients[f.client]
	id := c.session()
	switch f.what {
	case "cut":
		c.Arm(harness.Cut{Dir: harness.Direction(f.n % 2), After: f.n})
		time.Sleep(f.lasts)
		c.Disarm()
	case "refuse-one":
		c.SetRefuse(true)
		w.Srv.Disconnect(id)
		time.Sleep(f.lasts)
		c.SetRefuse(false)
	case "refuse":
		w.Srv.RefuseDials(true)
		w.Srv.Disconnect(0)
		w.recount(int32(f.n % 4))
		time.Sleep(f.lasts)
		w.Srv.RefuseDials(false)
	case "disconnect":
		w.Srv.Disconnect(id)
	case "expire":
		w.spoil(sessionName(id))
		w.Srv.Expire(id)
	case "swap":
		w.spoil(sessionName(id))
		w.Srv.SwapSessionID(id)
		w.Srv.Disconnect(id)
	case "partition", "pause":
		if f.what == "pause" {
			f.dir = zktest.Both
		}
		w.Srv.Partition(id, f.dir)
		time.Sleep(f.lasts)
		w.Srv.Heal(id)
	case "freeze":
		w.Srv.Freeze()
		time.Sleep(f.lasts)
		w.Srv.Thaw()
	case "lag":
		if w.follower != nil {
			w.follower.Lag()
			time.Sleep(f.lasts)
			w.follower.CatchUp()
		}
	case "behind":
		w.behind(f)
	case "delete", "revoke":
		w.meddle(f)
	case "drain":
		w.shut(f)
	case "found":
		w.found(f)
	case "resize", "lower":
		w.resize(f)
	case "stall", "stall-look":
		w.stall(f, c, id)
	case "hang-up":
		c.HangUp()
	case "restart":
		w.restart(c)
	default:
		w.inject(f, id)
	}
}

// inject lets a fault strike the next request that fits, or for a while all that fit.
func (w *simWorld) inject(f simFault, id int64) {
	fits := func(r zktest.Request) bool { return r.Session == id && r.Op == f.op }
	var rule *zktest.Injection
	switch f.what {
	case "drop-request", "lose-reply":
		// A hole in a stream cannot last: after a lost packet the connection soon ends.
		kind := zktest.DropRequest
		if f.what == "lose-reply" {
			kind = zktest.LoseReply
		}
		rule = w.Srv.Inject(zktest.Once(fits), kind)
		select {
		case <-rule.Hit():
		case <-time.After(f.lasts):
		}
		rule.Remove()
		time.Sleep(w.plan.timeout / 10)
		w.Srv.Disconnect(id)
		return
	case "throttle":
		rule = w.Srv.Inject(fits, zktest.Fail(zktest.CodeThrottled))
	default:
		fault, known := map[string]zktest.Fault{
			"drop-reply": zktest.DropReply, "cut-before": zktest.CutBefore, "cut-after": zktest.CutAfter, "cut-at": zktest.CutAt(f.n % 64),
			"delay-reply": zktest.DelayReply(f.lasts), "hold-reply": zktest.HoldReply, "delay": zktest.Hold,
		}[f.what]
		if !known {
			panic("no fault is called " + f.what)
		}
		rule = w.Srv.Inject(zktest.Once(fits), fault)
	}
	time.Sleep(f.lasts)
	rule.Release()
}

// recount plays a new leader whose count of the children created lags by n (ZOOKEEPER-3249), or is right. The count stays above the
// sequence numbers of all contenders: new numbers are larger. It stays above 0, because a server never deletes a container of count 0.
func (w *simWorld) recount(n int32) {
	for _, dir := range w.dirs {
		queue, there := w.Srv.Get(dir)
		if !there { // a key without contenders has no node
			continue
		}
		count := (queue.Stat.Cversion+int32(len(queue.Children)))/2 - n
		for _, name := range queue.Children {
			if k, ok := kind.ParseContender(name); ok {
				count = max(count, k.Seq+1)
			}
		}
		require.NoError(w.T, w.Srv.SetCreateCount(dir, max(1, count)))
	}
}

// meddle plays an administrator who revokes or deletes a contender by hand.
func (w *simWorld) meddle(f simFault) {
	dir := w.dirs[f.n%len(w.dirs)]
	n, _ := w.Srv.Get(dir)
	line, _ := kind.SortContenders(n.Children)
	if len(line) == 0 {
		return
	}
	node := kind.JoinPath(dir, line[f.n/3%len(line)].Name)
	if f.what == "revoke" {
		_ = w.Srv.Set(node, []byte(kind.RevokeMessage)) // the node may have gone
		return
	}
	w.spoil(node)
	_ = w.Srv.Delete(node) // the node may have gone
}

// restart closes the client under its workers and dials another.
func (w *simWorld) restart(c *simClient) {
	c.restarting <- struct{}{} // one restart at a time
	defer func() { <-c.restarting }()
	id, start := c.session(), time.Now()
	lost := c.lost() // then no server confirms anything, and its nodes go when the servers expire the session
	err := c.client().Close()
	if took := time.Since(start); took > recipes.ObserverGrace+w.plan.timeout+4*w.plan.latency { // Close waits for a server that is connected
		w.violated("Close of client %d took %v", c.number, took)
	}
	if err == nil && !lost {
		w.departed(c.number, id)
	}
	for c.redial(context.Background()) != nil {
		time.Sleep(time.Second)
	}
}

// departed requires that a client whose Close was confirmed has left nothing.
func (w *simWorld) departed(client int, id int64) {
	for _, s := range w.Srv.Sessions() {
		if s.ID == id && len(s.Ephemerals) > 0 && !w.swapped(id) {
			w.violated("client %d is closed and %v are left", client, s.Ephemerals)
		}
	}
}

func (w *simWorld) swapped(id int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.spoiled[sessionName(id)]
	return ok
}

// heal ends every fault there may be.
func (w *simWorld) heal() {
	w.Srv.Heal(0)
	w.Srv.Thaw()
	w.Srv.RefuseDials(false)
	if w.follower != nil {
		w.follower.CatchUp()
	}
	for _, c := range w.clients {
		c.SetRefuse(false)
		c.Disarm()
	}
}
