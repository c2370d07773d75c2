package recipes

import "slices"

// parting is what becomes of a place when a lease of it is given back.
type parting int

const (
	vacated  parting = iota // it was the last: the nodes are to be given back
	inUse                   // others have leases of it
	handedOn                // the next goroutine has it, or it is kept
)

// passOn is Unlock for l. If l is the last lease, the next goroutine of this client takes the place over as it is, if it may, or the
// place is kept for a later one: without a request, and without a gap in what watches over it (see [WithLocalHandoff] and
// [WithRetention]). It is decided and done in one step, under the queue's mutex and the holding's, so whatever ends the place
// ends it for exactly one of the two, and of several who leave at the same moment one is the last. why is the loss of the holding.
func (h *holding) passOn(l *Lease) (p parting, why error) {
	if h.members != nil || len(h.tickets) == 0 && h.keep == nil {
		return h.release(l, nil, false)
	}
	st := &h.q.c.state
	st.mu.Lock()
	heir, s := caller{}, st.turn(h)
	waits := s != nil && len(s.waiters) > 0
	if waits {
		heir = s.waiters[0]
		p, why = h.release(l, heir.q, h.fits(heir.q))
	} else {
		keeps := h.keep != nil && (s != nil || h.e.readers[h.path] == h)
		p, why = h.release(l, nil, keeps && h.fits(l.g.q))
	}
	var tooMany []*holding
	switch {
	case p != handedOn:
	case waits:
		s.next()
		s.state = holds
	default:
		if tooMany = st.kept.add(h, st.maxKept); s != nil {
			s.kept = h
		}
	}
	if p == handedOn {
		l.end(releasedError(h.path)) // before the next holder begins, which can take a kept place as soon as mu is free
	}
	st.mu.Unlock()
	if p == handedOn && waits {
		heir.pass <- ticket{shared: h}
	}
	for _, other := range tooMany {
		other.surrender()
	}
	return p, why
}

// turn is the local queue whose ticket h has; nil where readers have none.
func (st *clientState) turn(h *holding) *localQueue {
	if len(h.tickets) == 0 {
		return nil
	}
	return st.local[h.tickets[0]]
}

// fits reports whether a caller of this handle may take the place over as it is. The node must name its holder, so the ID has to
// be the same. A declaration that may have changed must be read first.
func (h *holding) fits(q *queue) bool {
	return q != nil && q.kind == h.q.kind && q.id() == h.ks[0].id && (h.d.payload != nil || q.opts.params != nil) && !h.d.stale()
}

// release ends a lease. If it is the last one and may is true, the place is kept, or it begins the lease of the heir, if there is one,
// whose tenure begins with acquired. may is true only with the queue's mutex held.
func (h *holding) release(l *Lease, heir *queue, may bool) (p parting, why error) {
	may, opts := may && h.e.s.Sure(), &l.g.q.opts
	h.mu.Lock()
	defer h.mu.Unlock()
	// A place that nobody else waits for is passed on any number of times, between handles with the option.
	alone := h.keep != nil && !h.keep.asked && opts.retention > 0 && (heir == nil || heir.opts.retention > 0)
	if heir == nil && h.ks[0].e.bytes.Load() > maxEphemeralBytes/2 { // the rest is for what is in use
		may = false
	}
	l.g.leases--
	if !may || h.leases != 1 || !h.free() || !alone && (heir == nil || h.passed >= opts.maxHandoffs) {
		return h.part(l.g), h.why
	}
	l.g.tell(EventReleased, h.czxid, nil)
	h.tenures = nil
	if h.keep != nil && h.keep.unheard() {
		h.listenAgain()
	}
	if heir == nil {
		h.state.to(kept)
		h.leases = 0
		h.keep.keepFor(opts.retention, h.expire)
		return handedOn, nil
	}
	h.passed++
	return handedOn, nil
}

// part counts one lease of g less, which nobody takes over. A tenure that ends with the last lease of the holding is finish's to tell of.
func (l *life) part(g *tenure) parting {
	if l.leases--; l.leases == 0 {
		return vacated
	}
	if l.why == nil && g.leases == 0 {
		g.tell(EventReleased, l.czxid, nil)
		l.tenures = slices.DeleteFunc(l.tenures, func(t *tenure) bool { return t == g })
	}
	return inUse
}

// free reports whether another lease may have the place: nobody has revoked it, no write that checks this node may still be
// applied, and we are not changing the node ourselves.
func (l *life) free() bool {
	return l.state.watched() && !l.revoked && l.writes == 0
}
