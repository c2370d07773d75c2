package recipes

import (
	"context"
	"time"

	"github.com/locktree/locktree/recipes/kind"
)

// Readers of one client share a contender: ZooKeeper sees one reader however many goroutines read. They share it at two
// moments. A reader that comes while another goroutine has the ticket, and is not granted yet, waits in the local queue and
// is granted with it (admit). A later one lists the queue and joins what is held if no writer is queued (share): otherwise
// readers that overlap would keep a writer out for as long as they please.
//
// A share is as good as the lease it joins: that one was granted on a proof and is kept by the session's
// heartbeat, and what ends one ends all.

// admit gives every reader that waits for the ticket a share of h, and gives the ticket up. It makes h known first: the next
// owner of the ticket finds it, so no reader of this client falls between the two moments.
func (st *clientState) admit(key string, h *holding) {
	h.e.reads(h)
	st.mu.Lock()
	if s := st.local[key]; s != nil {
		for len(s.waiters) > 0 && h.share() { // counted first: h is not given back before it is used
			s.waiters[0].pass <- ticket{shared: h}
			s.waiters = s.waiters[1:]
		}
	}
	st.mu.Unlock()
	st.leave(key) // who is left contends
}

// reads makes h the holding that later readers join.
func (e *epoch) reads(h *holding) {
	e.c.state.mu.Lock()
	defer e.c.state.mu.Unlock()
	if !h.is(over) { // close would not come again to take it out
		e.readers[h.path] = h
	}
}

// readers are holdings that readers may join, by lock. clientState.mu guards them.
type readers map[string]*holding

// forget takes h out, which nobody is to join any more. Another may be in its place already.
func (all readers) forget(h *holding) {
	if all[h.path] == h {
		delete(all, h.path)
	}
}

// waitsFor says which contender the ticket's owner waits for, and how many are ahead of it: for the errors of the goroutines
// behind it, and for a Try to read, which waits no longer than until this is known.
func (st *clientState) waitsFor(key string, holder *rival, position int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	s := st.local[key]
	if s == nil {
		return
	}
	if s.holder == nil && s.waits != nil {
		close(s.waits)
	}
	s.holder, s.position = holder, position
}

// share joins what this client reads already, if no writer is queued. Nil and no error: a contender is needed.
func (t *terms) share(ctx context.Context) (*holding, error) {
	st := &t.q.c.state
	st.mu.Lock()
	h := t.e.readers[t.q.path]
	st.mu.Unlock()
	if h == nil || h.is(over) {
		return nil, nil
	}
	// A stale listing may not show a writer that has queued: a matter of who goes first, not of safety. h holds by its own
	// proof, and a share is as safe as it is.
	children, err := listChildren(ctx, t.e.s, t.q.dir())
	if isNoNode(err) && t.d.family != nil { // nobody is in the queue any more
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := obey(ctx, t); err != nil {
		return nil, err
	}
	line, _ := kind.SortContenders(children)
	mine := false
	for _, k := range line {
		if !k.Shared {
			return nil, nil
		}
		mine = mine || k.Name == h.ks[0].name // gone, it is about to be noticed
	}
	if !mine || !h.share() {
		return nil, nil
	}
	t.a.tenure = h.acquired(t.q, t.a.call, time.Since(t.a.start))
	return h, nil
}

// share counts one lease more, unless the holding ends, or is asked back. A timer that
// is late, in a process that was suspended, must not let anybody in: the deadline is looked at.
func (h *holding) share() bool {
	alive := time.Now().Before(h.e.s.Deadline())
	h.mu.Lock()
	defer h.mu.Unlock()
	if !alive || h.state != held || h.leases == 0 || h.revoked { // without a lease it is about to be given back
		return false
	}
	h.leases++
	return true
}
