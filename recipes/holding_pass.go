package recipes

import "slices"

// parting counts one lease of g less, and reports whether it was the last of the holding. A tenure that ends with that is finish's to
// tell of.
func (h *holding) parting(g *tenure) (last bool, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g.leases--
	if h.leases--; h.leases == 0 {
		return true, h.why
	}
	if h.why == nil && g.leases == 0 {
		g.tell(EventReleased, h.czxid, nil)
		h.tenures = slices.DeleteFunc(h.tenures, func(t *tenure) bool { return t == g })
	}
	return false, h.why
}
