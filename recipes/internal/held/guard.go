package held

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/wait"
	"github.com/locktree/locktree/recipes/internal/znode"
)

// Moment is how long a lock is held before its nodes are watched.
const Moment = 100 * time.Millisecond

// Two things watch over a holding. The session's hold (see sessionSays) ends it by the clock, and with the session: that is
// what the promise rests on. A watch on each node tells what the clock cannot, a node that was deleted or asked back while the
// session lives. It is set when the lock has been held for a moment: to set it costs a request, and an event when the node goes.

// startWatching watches over the holding: at once where the token is still to be read, or the place may be kept. A place that
// is handed on within this client goes on being watched. No goroutine stays for that: the session calls when there is something to read.
func (h *Lock) startWatching() {
	h.mu.Lock()
	ended, now := h.state == over, h.czxid == 0 // it may have been given back while an exchange failed
	if !ended && !now {
		h.timer = time.AfterFunc(wait.Moment, h.watchNodes)
	}
	h.mu.Unlock()
	switch {
	case ended:
		h.stopWatching()
	case now:
		h.watchNodes()
	}
}

// stopWatching ends it.
func (h *Lock) stopWatching() {
	h.mu.Lock()
	if h.timer != nil {
		h.timer.Stop()
	}
	own := h.own
	h.own, h.watch = nil, h.watch+1
	h.mu.Unlock()
	for _, w := range own {
		znode.Stop(w)
	}
}

// watchNodes begins to watch our nodes.
func (h *Lock) watchNodes() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.state.watched() {
		return
	}
	h.timer, h.own = nil, make([]*session.Watch, len(h.ks))
	watch := h.watch
	for i := range h.ks {
		h.s.Client().Spawn(func() { h.look(watch, i) })
	}
}

// watches reports whether the nodes are still watched, for the same time: after an exchange that failed they are watched anew.
func (h *Lock) watches(watch int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state.watched() && h.watch == watch
}

// sessionSays is what the session calls. A heartbeat, or a proof of the holder's own, may find the node gone that is just being exchanged for
// another.
func (h *Lock) sessionSays(err error) {
	h.mu.Lock()
	ignore := h.state == exchanging && znode.IsNoNode(err)
	h.mu.Unlock()
	if !ignore {
		h.Lose(err)
	}
}

// Of a look at a node: what it will do about news.
const (
	lookReads int32 = iota // read it again
	lookReadsAgain
	lookIsOver // look anew
	lookIsFollowed
)

// look reads one of our nodes, and has itself called again when there is news: that it is gone, or that somebody wants it back.
// The first node tells the token.
//
// One look at a node is under way at a time. A connection that ends calls for each watch, also for one whose read it was to
// answer: if each made another look, connections that break in turn would double them.
func (h *Lock) look(watch, i int) {
	var phase atomic.Int32
	// A release deletes the node first and ends the watching when that is confirmed: its event is no news.
	news := func() {
		if !phase.CompareAndSwap(lookReads, lookReadsAgain) && phase.CompareAndSwap(lookIsOver, lookIsFollowed) && h.watches(watch) {
			h.s.Client().Spawn(func() { h.look(watch, i) })
		}
	}
	if say := h.ks[i].Mark.Swap(nil); say != nil { // before it is read: a request to step back that came first is not overwritten
		(*say)()
	}
	o := &znode.Watch{K: h.ks[i]}
	for again := true; again; again = !phase.CompareAndSwap(lookReads, lookIsOver) {
		phase.Store(lookReads)
		err := znode.Retry(context.Background(), h.s.S, func(err error) bool { return znode.Unseen(err) && h.watches(watch) }, func() error {
			o.Unwatch()
			if err := o.Read(context.Background(), news); err != nil || !o.Hidden {
				return err
			}
			return o.Exists(context.Background())
		})
		if !h.watching(watch, i, o, news) {
			o.Unwatch()
			return
		}
		revoked := errors.Is(err, znode.ErrRevoked)
		if i == 0 && (err == nil || revoked) {
			h.tokenIs(o.Czxid)
		}
		switch {
		case err == nil:
		case revoked:
			h.revoke()
		default:
			h.Lose(err)
			return
		}
	}
}

// watching keeps the watch on a node, to be stopped; the one before it has called. Of a node that is hidden from us there is
// none: it is looked at again after a session timeout.
func (h *Lock) watching(watch, i int, o *znode.Watch, again func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.state.watched() || h.watch != watch:
		return false
	case o.W != nil:
		h.own[i] = o.W
	case o.Hidden:
		h.timer = time.AfterFunc(h.s.S.Timeout(), again)
	}
	return true
}

// tokenIs lets go of who waits for the token; 0 where it cannot be read.
func (h *Lock) tokenIs(czxid int64) {
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

// resumed is held again after an exchange that cannot be executed any more, and watched again; not if it was given back meanwhile.
func (h *Lock) resumed() {
	h.mu.Lock()
	h.state.to(held)
	h.mu.Unlock()
	h.startWatching()
}
