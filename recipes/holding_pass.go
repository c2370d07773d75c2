package recipes

import "slices"

// parting is what becomes of a place when a lease of it is given back.
type parting int

const (
	vacated  parting = iota // it was the last: the nodes are to be given back
	inUse                   // others have leases of it
	handedOn                // the next goroutine has it
)

// passOn is Unlock for l. If l is the last lease, the next goroutine of this client takes the place over as it is, if it may, or the
// place is kept for a later one: without a request, and without a gap in what watches over it (see [WithLocalHandoff] and
// [WithRetention]). It is decided and done in one step, under the queue's mutex and the holding's, so whatever ends the place
// ends it for exactly one of the two, and of several who leave at the same moment one is the last. why is the loss of the holding.
func (h *holding) passOn(l *Lease) (p parting, why error) {
	if h.members != nil || len(h.tickets) == 0 {
		return h.release(l, nil, false)
	}
	st := &h.q.c.state
	st.mu.Lock()
	heir, s := caller{}, st.local[h.tickets[0]]
	if s != nil && len(s.waiters) > 0 {
		heir = s.waiters[0]
	}
	p, why = h.release(l, heir.q, h.fits(heir.q))
	if p == handedOn {
		s.next()
		s.state = holds
		l.end(releasedError(h.path)) // before the next holder begins
	}
	st.mu.Unlock()
	if p == handedOn {
		heir.pass <- ticket{shared: h}
	}
	return p, why
}

// fits reports whether a caller of this handle may take the place over as it is. The node must name its holder, so the ID has to
// be the same. A declaration that may have changed must be read first.
func (h *holding) fits(q *queue) bool {
	return q != nil && q.kind == h.q.kind && q.id() == h.ks[0].id && (h.d.payload != nil || q.opts.params != nil) && !h.d.stale()
}

// release ends a lease. If it is the last one and may is true, the place is kept, or it begins the lease of the heir, if there is one,
// whose tenure begins with acquired. may is true only with the queue's mutex held.
func (h *holding) release(l *Lease, heir *queue, may bool) (p parting, why error) {
	may = may && h.e.s.Sure()
	h.mu.Lock()
	defer h.mu.Unlock()
	l.g.leases--
	if !may || h.leases != 1 || !h.free() || h.passed >= l.g.q.opts.maxHandoffs {
		return h.part(l.g), h.why
	}
	l.g.tell(EventReleased, h.czxid, nil)
	h.tenures = nil
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
