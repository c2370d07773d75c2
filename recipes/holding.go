package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// holding is what a grant means to this process: the contenders that hold, and the goroutines that watch over them.
// Several leases share one when a lock is entered again.
type holding struct {
	q       *queue
	s       *Session
	d       *declaration
	ks      []*contender // one; a semaphore has one for each permit
	slot    string       // whose turn it passes on; "" = none
	turns   []string     // further turns, of a multi-lock, which are passed on without a contender
	members []*queue     // of a multi-lock; nil otherwise
	since   time.Time
	wait    time.Duration
	handoff int // local hand-offs in a row that led here

	life  context.Context // the leases' Context
	end   context.CancelCauseFunc
	known chan struct{} // closed: czxid is known
	begun chan struct{} // closed: all the rest is set
	drop  func()        // the session's hold

	mu      sync.Mutex
	blind   context.CancelFunc // ends the goroutines that watch
	leases  int
	czxid   int64
	over    error // why it is not held any more
	revoked bool
	sealed  bool // nobody may share it
	blinded bool // the watching has been ended: what happens to the nodes is our own doing
}

// newHolding turns an admitted contender into a lease's foundation: the session heartbeats from here on.
func newHolding(ctx context.Context, a *claim) (*holding, error) {
	return hold(ctx, &holding{q: a.q, s: a.s, d: a.d, ks: []*contender{a.k}, slot: a.kept(), wait: time.Since(a.start),
		handoff: a.handoff, czxid: a.czxid})
}

// hold starts the holding. When it fails the contenders are still the caller's.
func hold(ctx context.Context, h *holding) (*holding, error) {
	h.since, h.leases, h.known, h.begun = time.Now(), 1, make(chan struct{}), make(chan struct{})
	h.life, h.end = context.WithCancelCause(context.Background())
	// Every node: a heartbeat finds one that is gone even where its event was lost.
	paths := make([]string, len(h.ks))
	for i, k := range h.ks {
		paths[i] = k.path
	}
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		drop, err := h.s.hold(h.told, paths...) // told may be called before this returns
		if err == nil {
			h.drop = drop
			break
		}
		if !errors.Is(err, ErrStaleProof) {
			return nil, lostError(h.ks[0].path, err)
		}
		// The reply to the admitting write took longer than a lease lasts.
		if err := h.s.confirm(ctx, h.ks[0].path); err != nil {
			if isNoNode(err) {
				return nil, lostError(h.ks[0].path, err)
			}
			if err := pauseOr(ctx, h.s, wait, err); err != nil {
				return nil, err
			}
		}
	}
	if h.czxid != 0 {
		close(h.known)
	}
	h.startWatching()
	h.q.c.observe(func(o Observer) { o.Acquired(h.event()) })
	close(h.begun)
	return h, nil
}

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
	if h.q.c.cfg.OnSuspect == LoseOnSuspect || h.q.c.cfg.Observer != nil {
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

func (h *holding) event() Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Event{Path: h.q.path, Kind: h.q.kind, Node: h.ks[0].path, Token: uint64(h.czxid), Wait: h.wait, Held: time.Since(h.since)}
}

// guard watches one of our nodes: it tells the token, that the node is gone, and that somebody wants it back.
func (h *holding) guard(ctx context.Context, i int, k *contender) {
	// A release deletes the node first and ends the watching when that is confirmed: its event is no news.
	for wait := 10 * time.Millisecond; ctx.Err() == nil && !h.finished(); {
		data, stat, w, err := h.s.getW(ctx, k.path)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return
		case isNoNode(err):
			h.lose(fmt.Errorf("the node was deleted by somebody else: %w", err))
			return
		case h.s.State() == Lost:
			h.lose(h.s.Err())
			return
		case errors.Is(err, zk.ErrNoAuth):
			h.guardBlind(ctx, i, k)
			return
		default:
			_ = pause(ctx, h.s, wait) // every reason to stop is met above
			wait = min(2*wait, time.Second)
			continue
		}
		if !h.check(i, k, stat) {
			w.stop()
			return
		}
		if string(data) == revokeMessage {
			h.revoke()
		}
		select {
		case <-w.C():
		case <-ctx.Done():
		}
		w.stop()
	}
}

// guardBlind does what can be done about a node whose data we may not read, and which cannot be watched therefore: it
// asks for the token, then once a session timeout whether the node is still there and ours. Servers that hide the node
// (see Session.Exists) say only that it is there: such a lease has no token.
func (h *holding) guardBlind(ctx context.Context, i int, k *contender) {
	again := time.NewTicker(h.s.Timeout())
	defer again.Stop()
	for wait := 10 * time.Millisecond; ; {
		stat, err := h.s.Exists(ctx, k.path)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, zk.ErrNoAuth):
			h.nameless(i)
		case err != nil && h.s.State() == Lost:
			h.lose(h.s.Err())
			return
		case err != nil: // an answer that did not come, or says nothing of the node
			_ = pause(ctx, h.s, wait) // every reason to stop is met above
			wait = min(2*wait, time.Second)
			continue
		case stat == nil:
			h.lose(fmt.Errorf("the node was deleted by somebody else: %w", zk.ErrNoNode))
			return
		case !h.check(i, k, stat):
			return
		}
		wait = 10 * time.Millisecond
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

// check verifies that the node is this session's and takes the token from the first one.
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

// doubt follows the session's state for those who want to know of doubts.
func (h *holding) doubt(ctx context.Context) {
	for {
		changed := h.s.stateChanged()
		if h.s.State() == Suspect {
			h.q.c.observe(func(o Observer) { o.Suspected(h.event()) })
			if h.q.c.cfg.OnSuspect == LoseOnSuspect {
				h.lose(errors.New("the session is in doubt and Config.OnSuspect says that this ends a lease"))
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

// revoke tells the holder that somebody wants the lock. It stays held until Unlock.
func (h *holding) revoke() {
	h.mu.Lock()
	h.revoked = true
	h.mu.Unlock()
	h.end(fmt.Errorf("%w: %s", ErrRevoked, h.ks[0].path))
}

// lose ends the holding without its holder's doing: when it returns the leases' context is cancelled. What is left of it is deleted, so that nobody waits for a holder
// that has been told it is none (CURATOR-202).
func (h *holding) lose(cause error) {
	err := lostError(h.ks[0].path, cause)
	if !h.finish(err) {
		return
	}
	h.clearing()
	h.q.c.state.spawn(func() {
		<-h.begun
		h.q.c.observe(func(o Observer) {
			e := h.event()
			e.Cause = err
			o.Lost(e)
		})
		if h.s.State() != Lost {
			_ = h.q.c.dropNow(context.Background(), h.ks) // nobody is there to be told; the janitor goes on
		}
		h.close(baton{})
	})
}

// finish records the end, once, and cancels the leases' context.
func (h *holding) finish(why error) bool {
	h.mu.Lock()
	if h.over != nil {
		h.mu.Unlock()
		return false
	}
	h.over = why
	h.mu.Unlock()
	h.end(why)
	return true
}

func (h *holding) finished() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over != nil
}

// leave is Unlock for l; the last of the leases gives the lock back.
func (h *holding) leave(ctx context.Context, l *Lease) error {
	h.mu.Lock()
	h.leases--
	left, over := h.leases, h.over
	h.mu.Unlock()
	if left > 0 {
		l.end(releasedError(h.q.path))
		if over == nil && !l.inner {
			h.q.c.observe(func(o Observer) { o.Released(h.event()) })
		}
		return over
	}
	if !h.finish(releasedError(h.q.path)) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.over
	}
	done := make(chan error, 1)
	h.q.c.state.spawn(func() { done <- h.giveBack(ctx) })
	h.q.c.observe(func(o Observer) { o.Released(h.event()) })
	return awaitRelease(ctx, done, h.ks)
}

// giveBack deletes our nodes for good, or turns the node over to the goroutine of this client that waits for it.
func (h *holding) giveBack(ctx context.Context) error {
	st := &h.q.c.state
	if h.slot != "" && st.crowded(h.slot) && h.s.State() != Lost {
		if b, ok := h.pass(ctx); ok {
			h.close(b)
			return nil
		}
	}
	h.clearing()
	h.drop() // nothing is believed to be held any more: the session need not die of a release that takes long
	err := h.q.c.dropNow(ctx, h.ks)
	h.close(baton{})
	return err
}

// clearing says that our turns are about to be free.
func (h *holding) clearing() {
	for _, key := range append([]string{h.slot}, h.turns...) {
		h.q.c.state.clearing(key)
	}
}

// pass prepares the next local holder: with our own node while WithLocalHandoff allows, else with a new one at the
// end of the queue, made in the transaction that deletes ours, so that other processes get their turn.
func (h *holding) pass(ctx context.Context) (baton, bool) {
	h.mu.Lock()
	revoked := h.revoked
	h.mu.Unlock()
	if h.handoff < h.q.opts.maxHandoffs && !revoked && !h.d.stale() && h.s.State() == Active {
		return baton{k: h.ks[0], granted: true, handoffs: h.handoff + 1}, true
	}
	next, err := h.q.contender(h.s, h.d, h.q.kind.Queues[0], h.q.shared)
	if err != nil {
		return baton{}, false
	}
	work, cancel := detached(ctx, h.s)
	defer cancel()
	lists, err := (&txn{c: h.q.c, s: h.s, born: []*contender{next}, gone: h.ks}).run(work, next.dir)
	if err != nil {
		return baton{}, false
	}
	b := baton{k: next}
	if lists != nil {
		b.children = lists[0]
	}
	return b, true
}

// close ends the watching and passes the turn on. A contender nobody is there to take is deleted.
func (h *holding) close(b baton) {
	h.stopWatching()
	h.drop()
	h.q.c.state.unshare(h)
	for _, key := range h.turns {
		h.q.c.state.leave(key, baton{})
	}
	if h.slot == "" {
		return
	}
	st := &h.q.c.state
	if b.k != nil {
		if st.bequeath(h.slot, b) {
			return
		}
		st.clearing(h.slot)
		_ = h.q.c.dropNow(context.Background(), []*contender{b.k}) // the janitor goes on
	}
	st.leave(h.slot, baton{})
}

// reenter answers a caller that holds the lock already, which its context tells.
func (q *queue) reenter(ctx context.Context) (*Lease, error) {
	outer, _ := ctx.Value(leaseKey{q.c, q.path}).(*Lease)
	if outer == nil || outer.ended() != nil {
		return nil, nil
	}
	h := outer.h
	held := h.as(q.path)
	if held.kind != q.kind {
		return nil, nil
	}
	if q.opts.nonReentry {
		return nil, fmt.Errorf("%w: %s is held by the caller", ErrWouldDeadlock, q.path)
	}
	if held.shared && !q.shared {
		return nil, fmt.Errorf("%w: the caller reads %s; release it and lock it for writing", ErrUpgradeConflict, q.path)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over != nil {
		return nil, nil
	}
	h.leases++
	l := h.lease(ctx)
	l.inner = true
	return l, nil
}

// as is the way by which the lock at path came to be held.
func (h *holding) as(path string) *queue {
	for _, q := range h.members {
		if q.path == path {
			return q
		}
	}
	return h.q
}
