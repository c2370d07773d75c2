package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/locktree/locktree/recipes/session"
)

// Two things watch over a holding. The session's hold (see sessionSays) ends it by the clock, and with the session: that is
// what the promise rests on. A watch on each node tells what the clock cannot, a node that was deleted or asked back while the
// session lives. It is set when the lock has been held for a moment: to set it costs a request, and an event when the node goes.

// moment is how long a lock is held before its nodes are watched.
const moment = 100 * time.Millisecond

// startWatching watches over the holding: at once where the token is still to be read. A place that is handed on within this
// client goes on being watched.
func (h *holding) startWatching() {
	ctx, stop := context.WithCancel(context.Background())
	st, ks := &h.q.c.state, h.ks
	watch := func() {
		for i, k := range ks {
			st.spawn(func() { h.watch(ctx, k, i == 0) })
		}
	}
	h.mu.Lock()
	h.stop, h.stopped = stop, false
	if h.over != nil { // given back while an exchange failed: what would end the watching may have been called already
		h.mu.Unlock()
		stop()
		return
	}
	if h.czxid == 0 {
		watch()
	} else {
		timer := time.AfterFunc(moment, watch)
		h.stop = func() { timer.Stop(); stop() }
	}
	h.mu.Unlock()
	if h.q.c.cfg.LoseOnSuspect || h.q.c.cfg.Observer != nil {
		st.spawn(func() { h.doubt(ctx) })
	}
}

// stopWatching ends it.
func (h *holding) stopWatching() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	h.stop()
}

// sessionSays is what the session calls. A heartbeat may find the node gone that is just being exchanged for another.
func (h *holding) sessionSays(err error) {
	h.mu.Lock()
	ignore := h.stopped && isNoNode(err)
	h.mu.Unlock()
	if !ignore {
		h.lose(err)
	}
}

// watch watches one of our nodes: that it is gone, or that somebody wants it back; and takes the token from the first.
func (h *holding) watch(ctx context.Context, k *contender, first bool) {
	p := &place{member: member{q: h.q}, s: h.s, nodes: []*contender{k}, seen: func(int64) {}}
	if first {
		p.seen = h.tokenIs
	}
	defer p.unwatch()
	// A release deletes the node first and ends the watching when that is confirmed: its event is no news.
	for ctx.Err() == nil && !h.finished() {
		err := retry(ctx, h.s, unseen, func() error {
			_, err := p.next(ctx, nil)
			return err
		})
		switch {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, ErrRevoked):
			h.revoke()
		default:
			h.lose(err)
			return
		}
	}
}

// tokenIs lets go of who waits for the token; 0 where it cannot be read.
func (h *holding) tokenIs(czxid int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.czxid == 0 {
		h.czxid = czxid
	}
	select {
	case <-h.known:
	default:
		if h.known != nil {
			close(h.known)
		}
	}
}

// doubt follows the session's state for those who want to know of doubts. The channel is taken before the state is read, so
// a change in between is met at the next turn; two that follow each other at once may be seen as none.
func (h *holding) doubt(ctx context.Context) {
	for {
		changed := h.s.Changed()
		state := h.s.State()
		if state != session.StateLost {
			h.inDoubt(state == session.StateSuspect)
		}
		if state == session.StateSuspect && h.q.c.cfg.LoseOnSuspect {
			h.lose(errors.New("the session is in doubt and Config.LoseOnSuspect says that this ends a lease"))
			return
		}
		select {
		case <-changed:
		case <-h.s.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// inDoubt tells every tenure of a doubt that begins or ends.
func (h *holding) inDoubt(yes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.tenures {
		switch {
		case yes && !g.doubted:
			h.tell(EventSuspected, g, nil)
		case !yes && g.doubted:
			h.tell(EventCleared, g, nil)
		}
		g.doubted = yes
	}
}
