package recipes

// passOn is Unlock for l, the last lease, where the next goroutine of this client may have the place as it is: without a
// request, and without a gap in what watches over it (see [WithLocalHandoff]). It is decided, and done, at one moment, with the
// queue's mutex and the holding's: whatever ends the place ends it for the one or for the other.
func (h *holding) passOn(l *Lease) bool {
	if h.members != nil || len(h.tickets) == 0 {
		return false
	}
	st := &h.q.c.state
	st.mu.Lock()
	s := st.local[h.tickets[0]]
	if s == nil || len(s.waiters) == 0 || !h.fits(s.waiters[0].q) || !h.release(l, l.g.q.opts.maxHandoffs) {
		st.mu.Unlock()
		return false
	}
	heir := s.next()
	st.mu.Unlock()
	l.end(releasedError(h.q.path)) // before the next holder begins
	heir.pass <- ticket{shared: h}
	return true
}

// fits reports whether a caller of this handle may have the place as it is. The node must name its holder, so the ID has to be
// the same; and a declaration that grants nothing any more, or may, must be read.
func (h *holding) fits(q *queue) bool {
	return q != nil && q.kind == h.q.kind && q.id() == h.ks[0].id && (h.d.payload != nil || q.opts.params != nil) && !h.d.stale()
}

// release ends the last lease and begins another one, whose tenure begins with acquired; the queue's mutex is held. Not if
// somebody wants the place back, a write that checks this very node may still be applied, what happens to the node is our own
// doing, or the session is in doubt.
func (h *holding) release(l *Lease, most int) bool {
	sure := h.s.Sure()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !sure || h.over != nil || h.leases != 1 || h.revoked || h.writes != 0 || h.stopped || h.passed >= most {
		return false
	}
	h.passed++
	l.g.leases--
	h.tell(EventReleased, l.g, nil)
	h.tenures = nil
	return true
}
