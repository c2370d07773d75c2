package recipes

// passOn is Unlock for l, the last lease, if the next goroutine of this client may take the place over as it is, or if the place
// is kept for a later one: without a request, and without a gap in what watches over it (see [WithLocalHandoff] and
// [WithRetention]). It is decided and done in one step, under the queue's mutex and the holding's, so whatever ends the place
// ends it for exactly one of the two.
func (h *holding) passOn(l *Lease) bool {
	if h.members != nil || len(h.tickets) == 0 && h.keep == nil {
		return false
	}
	st := &h.q.c.state
	st.mu.Lock()
	heir, passed := caller{}, true
	var tooMany []*holding
	switch s := st.turn(h); {
	case s != nil && len(s.waiters) > 0:
		if passed = h.fits(s.waiters[0].q) && h.release(l, s.waiters[0].q); passed {
			heir, s.state = s.next(), holds
		}
	case h.keep != nil && (s != nil || h.e.readers[h.path] == h) && h.fits(l.g.q) && h.release(l, nil):
		if tooMany = st.kept.add(h, st.maxKept); s != nil {
			s.kept = h
		}
	default:
		passed = false
	}
	if passed {
		l.end(releasedError(h.path)) // before the next holder begins, which can take a kept place as soon as mu is free
	}
	st.mu.Unlock()
	if heir.pass != nil {
		heir.pass <- ticket{shared: h}
	}
	for _, other := range tooMany {
		other.surrender()
	}
	return passed
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

// release ends the last lease. If there is an heir, it begins the heir's lease, whose tenure begins with acquired; otherwise the
// place is kept. The queue's mutex is held.
func (h *holding) release(l *Lease, heir *queue) bool {
	sure, opts := h.e.s.Sure(), &l.g.q.opts
	h.mu.Lock()
	defer h.mu.Unlock()
	// A place that nobody else waits for is passed on any number of times, between handles with the option.
	alone := h.keep != nil && !h.keep.asked && opts.retention > 0 && (heir == nil || heir.opts.retention > 0)
	if heir == nil && h.ks[0].e.bytes.Load() > maxEphemeralBytes/2 { // the rest is for what is in use
		return false
	}
	if !sure || h.leases != 1 || !h.free() || !alone && (heir == nil || h.passed >= opts.maxHandoffs) {
		return false
	}
	l.g.leases--
	l.g.tell(EventReleased, h.czxid, nil)
	h.tenures = nil
	if h.keep != nil && h.keep.unheard() {
		h.listenAgain()
	}
	if heir == nil {
		h.state.to(kept)
		h.leases = 0
		h.keep.keepFor(opts.retention, h.expire)
		return true
	}
	h.passed++
	return true
}

// free reports whether another lease may have the place: nobody has revoked it, no write that checks this node may still be
// applied, and we are not changing the node ourselves.
func (l *life) free() bool {
	return l.state.watched() && !l.revoked && l.writes == 0
}
