package recipes

import (
	"cmp"
	"container/list"
	"context"
	"slices"
	"time"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// A kept place (WithRetention) is held like any other: others queue behind its contender, and the session's hold, its
// heartbeats and the watch on the node watch over it. It only has no lease. Whatever ends a lease ends it too, and so do a
// rival that queues, a change of the declaration, and the end of its time.
//
// A client that queues writes nothing but its own node, so the keeper finds out by itself. From the grant on it watches the
// list of contenders: one request for each place that nobody waits for, and one event when the first rival comes. If the watch
// fires for any reason, or the list shows a rival, the place is given up at once; if it is in use, by the next Unlock. In case
// a server forgets the watch, the queue is listed again after each session timeout: a rival waits no longer for that than any
// waiter (see next).
//
// The place of readers is kept in the same way, but other readers are no rivals. So the queue is listed again when it changes, at most
// once in a moment: readers of many clients that come and go must not have each of them list all the time. While nobody but readers is
// known to queue, a reader joins without a listing.

// maxKept bounds how many places a client keeps that nobody uses: each has a watch at the servers, and a node that others wait behind.
const maxKept = 1000

// keptPlaces are those that nobody uses, the one first that was used least recently. clientState.mu guards them.
type keptPlaces struct {
	order list.List // of *holding
	at    map[*holding]*list.Element
}

// add adds a place, and returns those that are too many for limit, or maxKept if that is 0.
func (all *keptPlaces) add(h *holding, limit int) (out []*holding) {
	if all.at == nil {
		all.at = map[*holding]*list.Element{}
	}
	all.at[h] = all.order.PushBack(h)
	for all.order.Len() > cmp.Or(limit, maxKept) {
		last := all.order.Front().Value.(*holding)
		all.remove(last)
		out = append(out, last)
	}
	return out
}

// remove takes out a place that is used, or over.
func (all *keptPlaces) remove(h *holding) {
	if e, there := all.at[h]; there {
		all.order.Remove(e)
		delete(all.at, h)
	}
}

// retention is the additional state of a holding that may be kept. The holding's mu guards it, so its methods are called with mu held.
type retention struct {
	asked   bool             // somebody queues, or may: it is no longer kept
	watches []*session.Watch // of the queue and the declaration
	over    time.Time        // until when it is kept
	timer   *time.Timer
	listed  time.Time // when the queue was last listed
	silence time.Duration
}

// keepFor keeps the place for d from now, and then calls expire. Its timer goes on while the place is in use: expire looks at that.
func (k *retention) keepFor(d time.Duration, expire func()) {
	k.over = time.Now().Add(d)
	if k.timer == nil {
		k.timer = time.AfterFunc(min(d, k.silence), expire)
		return
	}
	k.timer.Reset(min(d, k.silence))
}

// end stops what runs for the retention, and returns the watches, to be stopped.
func (k *retention) end() []*session.Watch {
	if k.timer != nil {
		k.timer.Stop()
	}
	watches := k.watches
	k.asked, k.watches = true, nil
	return watches
}

// listen begins to watch for what ends a retention.
func (h *holding) listen() {
	h.listens(h.d.w.Beside(h.asked))
	h.q.c.state.spawn(h.listenQueue)
}

// listenQueue lists the queue, and watches it.
func (h *holding) listenQueue() {
	h.mu.Lock()
	ended := !h.state.watched()
	h.keep.listed = time.Now()
	h.mu.Unlock()
	if ended {
		return
	}
	children, w, err := childrenCalledPersistent(context.Background(), h.e.s, h.ks[0].dir, h.changed)
	h.others(children, err)
	if err == nil {
		h.listens(w)
	}
}

// changed is called when the watch on the queue fires.
func (h *holding) changed() {
	if !h.q.shared {
		h.asked()
		return
	}
	h.mu.Lock()
	wait := time.Until(h.keep.listed.Add(moment))
	h.mu.Unlock()
	h.e.after(max(0, wait), h.listenQueue)
}

// unheard reports whether the queue was last listed a session timeout ago, and counts it as listed now.
func (k *retention) unheard() bool {
	if time.Since(k.listed) < k.silence {
		return false
	}
	k.listed = time.Now()
	return true
}

// listenAgain lists the queue.
func (h *holding) listenAgain() {
	h.q.c.state.spawn(func() { h.others(listChildren(context.Background(), h.e.s, h.ks[0].dir)) })
}

// others checks whether a list of the queue shows anybody else.
func (h *holding) others(children []string, err error) {
	line, _ := kind.SortContenders(children)
	rivals := func(k kind.Contender) bool { return !h.q.shared || !k.Shared }
	if err != nil || len(line) == 0 || len(line) > 1 && slices.ContainsFunc(line, rivals) {
		h.asked()
	}
}

// listens stores a watch, so that end can stop it. w is nil if the declaration may have changed already.
func (h *holding) listens(w *session.Watch) {
	if w == nil {
		h.asked()
		return
	}
	h.mu.Lock()
	ended := !h.state.watched()
	if !ended {
		fired := func(w *session.Watch) bool { return w.Event() != 0 }
		h.keep.watches = append(slices.DeleteFunc(h.keep.watches, fired), w)
	}
	h.mu.Unlock()
	if ended {
		w.Stop()
	}
}

// asked is called when somebody queues, or may do so unheard.
func (h *holding) asked() {
	h.mu.Lock()
	h.keep.asked = true
	h.mu.Unlock()
	h.surrender()
}

// expire is called when a kept place may have been kept for long enough.
func (h *holding) expire() {
	h.mu.Lock()
	left := time.Until(h.keep.over)
	used := h.state != kept
	if !used && left > 0 {
		h.keep.timer.Reset(min(left, h.keep.silence))
		if h.keep.unheard() {
			h.listenAgain()
		}
	}
	h.mu.Unlock()
	if !used && left <= 0 {
		h.surrender()
	}
}

// surrender gives up a place that is kept and not in use. What is kept is taken into use under the same mutex as it is found.
func (h *holding) surrender() {
	st := &h.q.c.state
	st.mu.Lock()
	idle := h.is(kept)
	if idle && len(h.tickets) > 0 {
		s := st.local[h.tickets[0]]
		if idle = s != nil && s.kept == h; idle {
			s.kept, s.state = nil, leaves
		}
	}
	h.e.readers.forget(h)
	st.mu.Unlock()
	if idle {
		h.quit()
	}
}

// quit releases a place that nobody uses and nobody can take into use any more. A lost one is lose's.
func (h *holding) quit() {
	if h.finish(releasedError(h.path), EventReleased, nil) != over {
		h.q.c.state.spawn(func() { _ = h.giveBack(context.Background()) })
	}
}

// resume takes a kept place into use for a caller of the handle q, or has it join the readers there; the queue's mutex is held. It
// checks the time itself, because in a process that was suspended the timer is late.
func (h *holding) resume(q *queue) bool {
	if q == nil || q.opts.retention == 0 || h.keep == nil || !h.fits(q) || !h.e.s.Sure() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.free() || h.keep.asked:
		return false
	case h.state == kept:
		if !time.Now().Before(h.keep.over) || !h.state.to(held) {
			return false
		}
		h.q.c.state.kept.remove(h)
	case !h.q.shared || h.state != held || h.leases == 0:
		return false
	}
	h.leases++
	h.passed++
	return true
}
