package recipes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/locktree/locktree/recipes/internal/session"
)

// holding is what a grant means to this process: the contenders that hold, and the goroutines that watch over them.
// Several leases share one when a lock is entered again, and when readers of one client share a place.
//
// It ends once, by finish: when its last lease is given back (leave) or when it is lost (lose), whichever comes first. That
// cancels its leases' contexts. The call that ended it deletes the nodes or hands them over, and after that passes on the
// tickets (close), so that no goroutine of this client meets the old nodes as rivals.
type holding struct {
	owned
	drop  func()        // the session's hold
	first *tenure       // of the caller it was made for
	was   *holding      // which Downgrade has exchanged for this one; else nil
	known chan struct{} // closed: czxid is known; nil if it was known from the start
	runs  atomic.Int32  // calls of Do and Lead whose function has not returned

	mu sync.Mutex
	life
}

// owned is what is held: our nodes, of one or several locks. It does not change.
type owned struct {
	path    string // of the lock; of a multi-lock, those of all its members
	q       *queue // the handle; of a multi-lock, that of its first member
	e       *epoch
	d       *declare.Declaration
	ks      []*znode.Node // one; a semaphore has one for each permit
	tickets []string      // of the local queues that wait for its end; readers and permits have none
	members []*queue      // of a multi-lock; nil otherwise
	places  []ordered     // in declared orders
	call    *call
	wait    time.Duration
}

// life is what changes while a holding lasts. The holding's mu guards it, so its methods are called with mu held.
type life struct {
	state   holdState
	revoked bool
	czxid   int64
	use
	ending
	guard
}

// use is who uses a holding.
type use struct {
	leases  int
	tenures []*tenure // that have begun and not ended
}

// ending is how it ends.
type ending struct {
	contexts map[*Lease]struct{} // the leases whose contexts end with it
	cause    error               // what they end with
	why      error               // it is over
	ended    time.Time
}

// guard watches the nodes.
type guard struct {
	timer *time.Timer      // after which they are watched, or looked at again
	watch int              // how often the watching was ended
	own   []*session.Watch // on each of them
}

// hold starts the holding. When it fails the contenders are still the caller's.
func hold(ctx context.Context, h *holding) (*holding, error) {
	h.leases = 1
	works := h.works
	for _, k := range h.ks {
		k.Work.Store(&works)
	}
	paths := znode.Paths(h.ks) // all: a heartbeat finds one that is gone even where its event was lost
	// If the reply to the admitting write took longer than a lease lasts the session makes a fresh proof. One that is lost is
	// made again (TestAProofThatIsLostIsMadeAgain).
	err := znode.Retry(ctx, h.e.S, znode.Unanswered, func() (err error) {
		h.drop, err = h.e.S.Hold(ctx, h.sessionSays, paths...) // it may be called before this returns: see starting
		return err
	})
	if err != nil {
		h.unused()
	}
	switch {
	case znode.IsNoNode(err), err != nil && h.e.S.State() == session.StateLost:
		return nil, znode.LostError(h.ks[0].Path, err)
	case err != nil:
		return nil, err
	}
	if h.czxid = max(h.czxid, h.ks[0].Czxid); h.czxid == 0 {
		h.known = make(chan struct{})
	}
	for _, key := range h.tickets {
		h.q.c.state.turns.Granted(key)
	}
	h.first = h.acquired(h.q, h.call, h.wait)
	h.startWatching()
	h.mu.Lock()
	lasts := h.state.to(held)
	h.mu.Unlock()
	if !lasts { // lost meanwhile
		h.abandon()
	}
	return h, nil
}

// revoke tells the holder that somebody wants the lock. It stays held until Unlock.
func (h *holding) revoke() {
	h.mu.Lock()
	h.revoked = true
	h.mu.Unlock()
	h.end(afterGrant(fmt.Errorf("%w: %s", ErrRevoked, h.ks[0].Path)))
}

// lose ends the holding against its holder's will: when it returns the leases' contexts are cancelled. A goroutine then deletes
// the nodes that are left, so that nobody waits for a holder that knows it is none (CURATOR-202): lose is called from where
// nothing may be waited for (see Session.Hold).
func (h *holding) lose(cause error) {
	err := cause
	if !errors.Is(err, ErrLost) {
		err = znode.LostError(h.ks[0].Path, cause)
	}
	err = afterGrant(err)
	if was := h.finish(err, EventLost, err); was != over && was != starting { // hold does the rest of what abandon needs first
		h.abandon()
	}
}

// abandon does behind lose what takes time.
func (h *holding) abandon() {
	h.leaving()
	h.q.c.state.Spawn(func() {
		h.drop() // as in giveBack: deleting takes a connection, and may take long
		if h.e.S.State() != session.StateLost {
			_ = h.q.c.state.DropNow(context.Background(), h.ks) // nobody waits for the answer; the janitor goes on
		}
		h.close(nil)
	})
}

// finish records the end, once, reports it for every tenure, and cancels the leases' context. It returns what the holding was.
func (h *holding) finish(why error, what EventType, cause error) (was holdState) {
	h.mu.Lock()
	if was = h.state; !h.state.to(over) {
		h.mu.Unlock()
		return over
	}
	h.why, h.ended = why, time.Now()
	for _, g := range h.tenures {
		g.tell(what, h.czxid, cause)
	}
	h.tenures = nil
	h.mu.Unlock()
	h.end(why)
	return was
}

func (h *holding) is(state holdState) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == state
}

// end cancels the leases' contexts, those that are made later too. The first cause counts.
func (h *holding) end(cause error) {
	h.mu.Lock()
	if h.cause == nil {
		h.cause = cause
	}
	cause = h.cause
	leases := slices.Collect(maps.Keys(h.contexts)) // each call cancels all: when it returns they are cancelled
	h.mu.Unlock()
	for _, l := range leases {
		l.cancel(cause)
	}
}

// leave takes out l, which has been given back. If that was the last lease the nodes are the caller's to give back; else why is the
// loss of the holding, if it was lost.
func (h *holding) leave(l *Lease) (last bool, why error) {
	last, why = h.parting(l.g)
	h.workEnded()
	if !last {
		l.end(releasedError(h.path))
		return false, why
	}
	if h.finish(releasedError(h.path), EventReleased, nil) == over { // lost before, or at this moment: lose does what is left to do
		h.mu.Lock()
		defer h.mu.Unlock()
		return false, h.why
	}
	return true, nil
}

// giveBack deletes our nodes, or makes a place for the goroutine of this client that waits. Its error is that of Client.drop.
func (h *holding) giveBack(ctx context.Context) error {
	h.drop() // nothing is believed to be held any more: the session need not die of a release that takes long
	heir, waits := h.heir()
	if !waits {
		h.leaving()
		return h.q.c.state.Drop(ctx, h.ks, func() { h.close(nil) })
	}
	var p *passing
	answered := false
	if ctx.Err() == nil && h.e.S.State() == session.StateActive { // else the caller may leave before anything is sent
		p = h.pass(ctx, heir)
		answered = p.sent() && p.t.Sent.Wait(ctx) == nil
		if answered && p.passed(ctx) {
			h.close(p.next)
			return nil
		}
	}
	done := make(chan error, 1)
	h.q.c.state.Spawn(func() { // as in drop: the caller may leave before
		if p == nil {
			p = h.pass(context.WithoutCancel(ctx), heir)
		}
		var err error
		if answered || !p.passed(context.WithoutCancel(ctx)) {
			err = p.undo(ctx)
		}
		h.close(p.next)
		done <- err
	})
	return znode.AwaitRelease(ctx, done, h.ks)
}

// letGo is giveBack for a caller that waits for no answer: the request is on its way when it returns, or left to the background. The
// lanes of a session bound how many are under way, and ctx the wait for room there.
//
// The tickets are passed on when the nodes are gone, as by giveBack. That would not be needed on one connection, where the create
// of the next place is served behind the delete of this one. But it may go out on the next connection, when the delete was lost with the
// one before: then this client would wait, or be refused, because of its own node.
func (h *holding) letGo() {
	ctx, cancel := context.WithTimeout(context.Background(), h.e.S.Timeout()/6)
	defer cancel()
	h.drop()
	st := &h.q.c.state
	heir, waits := h.heir()
	if !waits || h.e.S.State() != session.StateActive {
		h.leaving()
		h.q.c.state.LeaveBehind(ctx, h.ks, func() { h.close(nil) })
		return
	}
	p := h.pass(ctx, heir)
	st.Spawn(func() {
		if !p.passed(context.Background()) {
			_ = p.undo(context.Background())
		}
		h.close(p.next)
	})
}

// heir is the goroutine of this client that waits for the place, if one does and the place can be made for it. A set has none.
func (h *holding) heir() (heir string, waits bool) {
	if h.members != nil || len(h.tickets) == 0 || h.e.S.State() == session.StateLost {
		return "", false
	}
	return h.q.c.state.turns.Next(h.tickets[0])
}

// leaving says that our tickets are about to be free.
func (h *holding) leaving() {
	for _, key := range h.tickets {
		h.q.c.state.turns.Leaving(key)
	}
}

// passing is the transaction that deletes our node and makes a place for the next local holder. The place is the last in the
// queue, so that other processes get their turn.
type passing struct {
	h    *holding
	t    *znode.Txn
	next *place // what the next holder gets; nil if there is none
}

// pass sends the transaction.
func (h *holding) pass(ctx context.Context, heir string) *passing {
	p := &passing{h: h}
	k, err := h.q.Contender(h.e.Session, h.d, h.q.Decides(), znode.HolderSelf(heir))
	if err != nil {
		return p
	}
	k.Key = h.ks[0].Key // it stays: somebody is in it at any moment
	p.t = &znode.Txn{E: h.e.Session, Born: []*znode.Node{k}, Gone: h.ks}
	_ = p.t.Begin(ctx, k.Dir) // see sent
	return p
}

func (p *passing) sent() bool { return p.t != nil && p.t.Sent != nil }

// passed waits for the answer, and reports whether there is a place for the next holder. The listing behind it is the next holder's:
// when ctx ends, that one lists the queue itself.
func (p *passing) passed(ctx context.Context) bool {
	if !p.sent() {
		return false
	}
	lists, err := p.t.End(ctx)
	if err != nil {
		return false
	}
	p.next = &place{k: p.t.Born[0]}
	if lists != nil {
		p.next.children = lists[0]
	}
	return true
}

// undo deletes our node where the transaction had no effect. Where its outcome is unknown it waits until the nodes are gone.
func (p *passing) undo(ctx context.Context) error {
	if p.t != nil && p.t.Left != nil {
		<-p.t.Left
	}
	p.h.leaving()
	return p.h.q.c.state.DropNow(ctx, p.h.ks)
}

// close ends the watching and passes the tickets on. It deletes a contender that nobody is there to take.
func (h *holding) close(t *place) {
	h.stopWatching()
	h.drop()
	st := &h.q.c.state
	switch {
	case t == nil:
		h.left()
	case !st.turns.HandOver(h.tickets[0], t): // the heir it was made for has given up since (TestATryDuringAHandOffIsNotRefusedByThePlaceHandedOn)
		h.leaving()
		st.Spawn(func() {
			_ = h.q.c.state.DropNow(context.Background(), []*znode.Node{t.k}) // the janitor goes on
			h.left()
		})
	}
}

// left says that our tickets are free.
func (h *holding) left() {
	for _, key := range h.tickets {
		h.q.c.state.turns.Leave(key)
	}
}

// reenter answers a caller whose context tells that it holds the lock already. permits is how many it wants of a semaphore,
// else 0.
func (a *acquisition) reenter(ctx context.Context, q *queue, permits int) (*Lease, error) {
	outer, _ := ctx.Value(q.key).(*Lease)
	if outer == nil || outer.ended() != nil {
		return nil, nil
	}
	h := outer.h
	held := h.as(q.Path)
	if held.Kind != q.Kind { // another kind at the same path: the declaration will tell this handle
		return nil, nil
	}
	if held.Shared && !q.Shared {
		return nil, fmt.Errorf("%w: the context comes from a read lease of %s, which the writer would wait for; give it back first",
			ErrWouldDeadlock, q.Path)
	}
	if !q.opts.reentrant {
		return nil, fmt.Errorf("%w: the context comes from a lease of %s; to nest, open the handle WithReentrancy; to wait in another goroutine, use a context that is not derived from the lease",
			ErrWouldDeadlock, q.Path)
	}
	if have := len(h.ks); permits > have {
		return nil, fmt.Errorf("%w: the context comes from a lease of %d permits of %s, %d are wanted; take them all at once",
			ErrWouldDeadlock, have, q.Path, permits)
	}
	h.mu.Lock()
	if h.state == over || !outer.released.IsZero() { // ended since: the caller queues like anybody else
		h.mu.Unlock()
		return nil, nil
	}
	h.leases++
	// Behind a goroutine that asks at a path from where the lock has moved. The Observer is told how that ended.
	waited := a.call != nil && a.call.queued.Load()
	if !waited {
		outer.g.leases++
	}
	h.mu.Unlock()
	if waited {
		return h.leaseOf(ctx, h.acquired(q, a.call, time.Since(a.start))), nil
	}
	return h.leaseOf(ctx, outer.g), nil
}

// locks are the handles on what is held.
func (h *holding) locks() []*queue {
	if h.members != nil {
		return h.members
	}
	return []*queue{h.q}
}

// as is the way by which the lock at path came to be held.
func (h *holding) as(path string) *queue {
	for _, q := range h.members {
		if q.Path == path {
			return q
		}
	}
	return h.q
}

// works reports whether what was done under this holding may still go on.
func (h *holding) works() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leases > 0 || h.runs.Load() > 0 || h.was != nil && h.was.runs.Load() > 0
}

// unused is for a holding whose lease was never handed out.
func (h *holding) unused() {
	h.mu.Lock()
	h.leases--
	h.mu.Unlock()
	h.workEnded()
}

// workEnded is called when works may have become false. What kept the contenders of a lost session may be over.
func (h *holding) workEnded() {
	if h.e.S.Err() == nil || h.works() {
		return
	}
	h.e.Session.WorkEnded()
}
