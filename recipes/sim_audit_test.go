package recipes_test

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// The invariants. "Believes" means: the lease's context has not ended. The stated conditions are that servers keep a
// session for as long as they granted it and that nobody deletes a contender by hand; grants for which they were broken
// are excused from the first two, for half a session timeout.
//
//   - who believes to hold has its nodes in the tree of the servers, and they are its session's;
//   - nobody is granted while somebody in conflict believes to hold;
//   - a lease that is granted has not ended yet: it would if nothing had proven its session lately;
//   - whoever is granted has nobody ahead in the queue, in the servers' own order (no conditions);
//   - exclusive tokens grow from grant to grant, and the store they guard never obeys an old one (no conditions).

// granted enters a new lease and checks it. called is the stamp of the call that led to it.
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
	if cause := context.Cause(l.Context()); l.Context().Err() != nil && g.spoiledAt.IsZero() && !errors.Is(cause, recipes.ErrClosed) {
		w.blame("grant %d to client %d was over when it was given: %v", g.id, g.client, cause)
	}
	w.foremost(g)
	w.alone(g)
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

// reads reports whether the lease is a reader's: a set's member reads if its step says so, until it is exchanged.
func (w *simWorld) reads(st simStep, l *recipes.Lease, op operation) bool {
	if recipe, _ := w.target(st); recipe == "multi" && op != opExchange {
		return st.shared
	}
	return l.Reads()
}

// enter puts what happened to these parts into the history: of a lock alone as itself, of a set as one event. In a world
// of all recipes each part is an event of its lock's history, which can be checked by itself.
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

// foremost checks the servers' own order.
func (w *simWorld) foremost(g *simGrant) {
	for _, p := range g.parts {
		if p.recipe == "semaphore" {
			continue // the order of permits is not that of their grants
		}
		dir, own := path.Split(p.nodes[0])
		dir = path.Clean(dir)
		n, _ := w.Srv.Get(dir)
		if !slices.Contains(n.Children, own) {
			n.Children = append(n.Children, own) // deleted since: what was ahead is still wrong
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

// alone checks the belief of all others at this moment.
func (w *simWorld) alone(g *simGrant) {
	if g.lease.Context().Err() != nil || !g.spoiledAt.IsZero() {
		return
	}
	permits := 0
	for _, p := range g.parts {
		if p.recipe == "semaphore" {
			permits = p.n
		}
		w.besides(p, g.nodes())
		for other := range w.believed {
			if other.lease.Context().Err() != nil || !other.spoiledAt.IsZero() || other.leaving || other.lease.With(g.lease) {
				continue
			}
			for _, theirs := range other.parts {
				switch {
				case theirs.lock != p.lock:
				case p.recipe == "semaphore":
					permits += theirs.n
				case !p.shared || !theirs.shared:
					w.blame("grants %d (client %d, %v) and %d (client %d, %v) are believed at once",
						other.id, other.client, other.nodes(), g.id, g.client, g.nodes())
				}
			}
		}
	}
	if permits > simPermits {
		w.blame("grant %d makes %d permits of %d", g.id, permits, simPermits)
	}
}

// numbered reads the token from the servers' tree and compares it with those before.
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
	if g.token == 0 || !g.spoiledAt.IsZero() {
		return
	}
	for _, p := range g.fenced() {
		if g.token <= w.highest[p.lock] {
			w.blame("grant %d of %s: token %d after %d", g.id, p.lock, g.token, w.highest[p.lock])
		}
		w.highest[p.lock] = max(w.highest[p.lock], g.token)
	}
}

// fenced are the parts whose token orders holders.
func (g *simGrant) fenced() []*simPart {
	return slices.DeleteFunc(slices.Clone(g.parts), func(p *simPart) bool { return p.shared || p.recipe == "semaphore" })
}

// inspect looks at all grants in the servers' tree.
func (w *simWorld) inspect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look()
}

// look is inspect for who holds mu.
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

// ends records that a part's nodes are gone: at some moment since they were last seen.
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

// fencedWrite is a write to a store that remembers the highest token: late writers are refused.
func (w *simWorld) fencedWrite(worker int, g *simGrant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g.token == 0 {
		return
	}
	for _, p := range g.fenced() {
		call := w.stamp()
		ok := g.token >= w.store[p.lock]
		if ok {
			w.store[p.lock] = g.token
		} else {
			w.stats.stale++
		}
		w.enter(event{op: opWrite, client: worker, grant: g.id, token: g.token, ok: ok, call: call, ret: w.stamp()}, p)
	}
}

// released enters the answer to an Unlock.
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

// told checks that an error is one of those a caller can act on.
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
		return // of a semaphore that was resized
	}
	w.violated("%s answers %v", st.how, err)
}
