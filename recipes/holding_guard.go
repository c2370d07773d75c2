package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// Two things watch over a holding. The session's hold (see told) ends it by the clock, and with the session: that is what
// the promise rests on. The goroutines here see what the clock cannot, a node that was deleted or asked back while the
// session lives; and they read the token, which costs nothing beside the watch.

// startWatching starts the goroutines that watch over the holding.
func (h *holding) startWatching() {
	ctx, blind := context.WithCancel(context.Background())
	h.mu.Lock()
	h.blind, h.blinded = blind, false
	h.mu.Unlock()
	st := &h.q.c.state
	for i, k := range h.ks {
		st.spawn(func() { h.guard(ctx, i, k) })
	}
	if h.q.c.cfg.LoseOnSuspect || h.q.c.cfg.Observer != nil {
		st.spawn(func() { h.doubt(ctx) })
	}
}

// stopWatching ends them.
func (h *holding) stopWatching() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blinded = true
	h.blind()
}

// told is what the session calls. A heartbeat may find the node gone that is just being exchanged for another.
func (h *holding) told(err error) {
	h.mu.Lock()
	ignore := h.blinded && isNoNode(err)
	h.mu.Unlock()
	if !ignore {
		h.lose(err)
	}
}

// guard watches one of our nodes: it tells the token, that the node is gone, and that somebody wants it back.
func (h *holding) guard(ctx context.Context, i int, k *contender) {
	// A release deletes the node first and ends the watching when that is confirmed: its event is no news.
	for ctx.Err() == nil && !h.finished() {
		var data []byte
		var stat *zk.Stat
		var w *session.Watch
		err := retry(ctx, h.s, unseen, func() (err error) {
			data, stat, w, err = h.s.GetW(ctx, k.path)
			return err
		})
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return
		case isNoNode(err):
			h.lose(fmt.Errorf("the node was deleted by somebody else: %w", err))
			return
		case h.s.State() == session.StateLost:
			h.lose(h.s.Err())
			return
		default: // we may not read it
			h.guardBlind(ctx, i, k)
			return
		}
		if !h.check(i, k, stat) {
			w.Stop()
			return
		}
		if string(data) == kind.RevokeMessage {
			h.revoke()
		}
		select {
		case <-w.C(): // whatever it says: what counts is what is read next
		case <-ctx.Done():
		}
		w.Stop()
	}
}

// guardBlind does what can be done about a node whose data we may not read, and which cannot be watched therefore: it
// asks for the token, then once a session timeout whether the node is still there and ours. Servers that hide the node
// (see Session.Exists) say only that it is there: such a lease has no token.
func (h *holding) guardBlind(ctx context.Context, i int, k *contender) {
	again := time.NewTicker(h.s.Timeout())
	defer again.Stop()
	for {
		var stat *zk.Stat
		err := retry(ctx, h.s, unseen, func() (err error) {
			stat, err = h.s.Exists(ctx, k.path)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && h.s.State() == session.StateLost:
			h.lose(h.s.Err())
			return
		case err != nil: // hidden from us
			h.nameless(i)
		case stat == nil:
			h.lose(fmt.Errorf("the node was deleted by somebody else: %w", zk.ErrNoNode))
			return
		case !h.check(i, k, stat):
			return
		}
		select {
		case <-again.C:
		case <-h.s.Done():
		case <-ctx.Done():
		}
	}
}

// nameless gives up asking for the token.
func (h *holding) nameless(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i == 0 && h.czxid == 0 {
		h.tokenKnown()
	}
}

// tokenKnown lets go of who waits for the token, be it 0. mu is held.
func (h *holding) tokenKnown() {
	select {
	case <-h.known:
	default:
		close(h.known)
	}
}

// check verifies that the node is this session's and takes the token from the first one. Where a server
// hands out another session unasked, what we asked for may have been made in that one
// (TestANodeOfAnotherSessionIsNeverOurs).
func (h *holding) check(i int, k *contender, stat *zk.Stat) bool {
	if stat.EphemeralOwner != h.s.ID() {
		h.lose(fmt.Errorf("%s belongs to session %#x, ours is %#x", k.path, stat.EphemeralOwner, h.s.ID()))
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if i == 0 && h.czxid == 0 {
		h.czxid = stat.Czxid
		h.tokenKnown()
	}
	return true
}

// doubt follows the session's state for those who want to know of doubts. The channel is taken before the state is read, so
// a change in between is met at the next turn; two that follow each other at once may be seen as none.
func (h *holding) doubt(ctx context.Context) {
	for {
		changed := h.s.Changed()
		if h.s.State() == session.StateSuspect {
			h.mu.Lock()
			h.tell(Observer.Suspected, h.first, nil)
			h.mu.Unlock()
			if h.q.c.cfg.LoseOnSuspect {
				h.lose(errors.New("the session is in doubt and Config.LoseOnSuspect says that this ends a lease"))
				return
			}
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
