package recipes

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/locktree/locktree/recipes/kind"
)

// The invariants. "Believes" means: the lease's context has not ended. The stated conditions are that servers keep a
// session for as long as they granted it and that nobody deletes a contender by hand; grants for which they were broken
// are excused from the first two, for half a session timeout.
//
//   - who believes to hold has its nodes in the tree of the servers, and they are its session's;
//   - nobody is granted while somebody in conflict believes to hold;
//   - whoever is granted has nobody ahead in the queue, in the servers' own order (no conditions);
//   - exclusive tokens grow from grant to grant, and the store they guard never obeys an old one (no conditions).

// granted enters a new lease and checks it. called is the stamp of the call that led to it.
func (w *simWorld) granted(worker int, st simStep, l *Lease, called int64) *simGrant {
	g := &simGrant{
		client: worker % len(w.clients), lease: l, session: l.h.s.ID(), shared: w.plan.recipe == "rwlock" && l.h.q.shared, n: len(l.h.ks),
	}
	for _, k := range l.h.ks {
		g.nodes = append(g.nodes, k.path)
		if w.plan.recipe == "semaphore" {
			g.locks = []string{"/l"}
		} else {
			g.locks = append(g.locks, k.dir)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	w.stats.grants++
	g.id = w.ids
	w.excuse(g)
	w.foremost(g)
	w.alone(g)
	w.numbered(g)
	returned := w.stamp()
	for _, lock := range g.locks {
		w.history = append(w.history, event{op: opAcquire, lock: lock, client: worker, grant: g.id, token: g.token, shared: g.shared,
			n: g.n, node: g.nodes[0], call: called, ret: returned})
	}
	w.believed[g], w.standing[g], g.seen = true, true, called
	w.look()
	return g
}

// foremost checks the servers' own order.
func (w *simWorld) foremost(g *simGrant) {
	if w.plan.recipe == "semaphore" {
		return // the order of permits is not that of their grants
	}
	for _, node := range g.nodes {
		dir, own := path.Split(node)
		dir = path.Clean(dir)
		n, _ := w.srv.Get(dir)
		if !slices.Contains(n.Children, own) {
			n.Children = append(n.Children, own) // deleted since: what was ahead is still wrong
		}
		line, _ := kind.SortContenders(n.Children)
		for _, ahead := range line {
			if ahead.Name == own {
				break
			}
			if g.shared && ahead.Shared || w.exchanged[ahead.Name] {
				continue
			}
			w.blame("grant %d of %s to client %d while %s is ahead", g.id, node, g.client, ahead.Name)
		}
	}
}

// alone checks the belief of all others at this moment.
func (w *simWorld) alone(g *simGrant) {
	if g.lease.Context().Err() != nil || !g.spoiledAt.IsZero() {
		return
	}
	permits := g.n
	for other := range w.believed {
		if other.lease.Context().Err() != nil || !other.spoiledAt.IsZero() || other.leaving || other.lease.h == g.lease.h {
			continue
		}
		switch {
		case w.plan.recipe == "semaphore":
			permits += other.n
		case !(g.shared && other.shared) && slices.ContainsFunc(g.locks, func(l string) bool { return slices.Contains(other.locks, l) }):
			w.blame("grants %d (client %d, %v) and %d (client %d, %v) are believed at once",
				other.id, other.client, other.nodes, g.id, g.client, g.nodes)
		}
	}
	if w.plan.recipe == "semaphore" && permits > simPermits {
		w.blame("grant %d makes %d permits of %d", g.id, permits, simPermits)
	}
}

// numbered reads the token from the servers' tree and compares it with those before.
func (w *simWorld) numbered(g *simGrant) {
	for i, node := range g.nodes {
		n, there := w.srv.Get(node)
		if !there {
			continue
		}
		if n.Stat.EphemeralOwner != g.session {
			w.blame("grant %d: %s belongs to %#x, the lease to %#x", g.id, node, n.Stat.EphemeralOwner, g.session)
		}
		if i == 0 {
			g.token = uint64(n.Stat.Czxid)
		}
	}
	if g.token == 0 || g.shared || w.plan.recipe == "semaphore" || !g.spoiledAt.IsZero() {
		return
	}
	for _, lock := range g.locks {
		if g.token < w.highest[lock] || g.token == w.highest[lock] && g.lease.h.handoff == 0 {
			w.blame("grant %d of %s: token %d after %d", g.id, lock, g.token, w.highest[lock])
		}
		w.highest[lock] = max(w.highest[lock], g.token)
	}
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
		if g.over {
			delete(w.standing, g)
			continue
		}
		gone := w.goneFromTree(g)
		believes := g.lease.Context().Err() == nil
		switch {
		case !gone:
			g.seen = w.stamp()
		case believes && g.spoiledAt.IsZero() && !g.leaving:
			w.blame("grant %d: client %d believes to hold %v, which is gone", g.id, g.client, g.nodes)
		}
		if gone {
			w.ends(g)
		}
	}
	for g := range w.believed {
		if g.lease.Context().Err() != nil {
			delete(w.believed, g)
			continue
		}
		// No write of the session was committed after that, so its holder's deadline is at most T/2 later.
		if at := g.goneAt; !at.IsZero() && time.Since(at) > w.plan.timeout/2 {
			w.blame("grant %d: client %d still believes to hold %v, %v after it was taken away", g.id, g.client, g.nodes, time.Since(at))
			delete(w.believed, g)
		}
	}
}

func (w *simWorld) goneFromTree(g *simGrant) bool {
	for _, node := range g.nodes {
		if _, there := w.srv.Get(node); !there {
			return true
		}
	}
	return false
}

// ends records that a grant's nodes are gone: at some moment since they were last seen.
func (w *simWorld) ends(g *simGrant) {
	g.over, g.goneAt = true, time.Now()
	now := w.stamp()
	for _, lock := range g.locks {
		w.history = append(w.history, event{op: opGone, lock: lock, client: g.client, grant: g.id, call: g.seen, ret: now})
	}
	delete(w.standing, g)
}

// fencedWrite is a write to a store that remembers the highest token: late writers are refused.
func (w *simWorld) fencedWrite(worker int, g *simGrant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g.token == 0 || g.shared || w.plan.recipe == "semaphore" {
		return
	}
	for _, lock := range g.locks {
		call := w.stamp()
		ok := g.token >= w.store[lock]
		if ok {
			w.store[lock] = g.token
		} else {
			w.stats.stale++
		}
		w.history = append(w.history, event{op: opWrite, lock: lock, client: worker, grant: g.id, token: g.token, ok: ok, call: call, ret: w.stamp()})
	}
}

// released enters the answer to an Unlock.
func (w *simWorld) released(worker int, g *simGrant, err error, called int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pending := errors.Is(err, ErrReleasePending)
	switch {
	case err == nil, pending:
		for _, lock := range g.locks {
			w.history = append(w.history, event{op: opRelease, lock: lock, client: worker, grant: g.id, unknown: pending, call: called, ret: w.stamp()})
		}
		g.over = g.over || err == nil
	case errors.Is(err, ErrLost):
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
		ErrHeld, ErrLost, ErrSessionLost, ErrClosed, ErrRevoked, ErrUnreachable, ErrUpgradeConflict, ErrThrottled,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return
		}
	}
	w.violated("%s answers %v", st.how, err)
}
