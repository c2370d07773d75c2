package held

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
)

// Listener is told of a grant and of its end, with a mutex of the lock held: it must not call the lock.
type Listener interface {
	Granted(token int64)
	Ended(token int64, lost bool, why error) // once
}

// Turns are the goroutines of this client that wait behind the lock.
type Turns interface {
	Granted()
	Leaving()                                        // the lock is about to be free
	Leave()                                          // it is
	Next() *znode.Node                               // to be created for the next one; nil if none waits that takes a place
	HandOver(place *znode.Node, queue []string) bool // false: it has left
}

// Subject says what is locked. It does not change while the lock is held.
type Subject interface {
	Path() string // for people: of a set, those of all members
	Has(Key) bool // contexts find the lock by the key
}

// Grant is what a lock is made of.
type Grant struct {
	Of    Subject
	Owner *znode.SessionNodes
	Nodes []*znode.Node
	Turns Turns
	Token int64 // where it has been read

	was *Lock // the lock that an exchange has replaced by this one; otherwise nil
}

// Lock is a grant in this process: the nodes that hold, and their watches. Several uses share one when a lock is entered again.
//
// It ends once, by finish: when its last use is given back (leave) or when it is lost (Lose). The end cancels the contexts of its
// uses. The call that ended it deletes the nodes or hands them over, and then passes the turn on (close). So no goroutine of this
// client meets the old nodes as rivals.
type Lock struct {
	Of    Subject
	owner *znode.SessionNodes
	nodes []*znode.Node // one; a semaphore has one for each permit, a set one for each member
	turns Turns

	drop  func()        // the session's hold
	was   *Lock         // see Grant
	known chan struct{} // closed: czxid is known; nil if it was known from the start
	runs  atomic.Int32  // functions that run under it
	works func() bool   // inUse, for the nodes

	mu    sync.Mutex // guards the rest
	state holdState
	czxid int64

	leases  int
	first   tenure    // of the call that took the lock
	tenures []*tenure // that have begun and not ended

	contexts map[*Use]struct{} // their contexts end with it
	cause    error             // of the end of these contexts
	why      error             // of the end of the lock
	ended    time.Time

	// The watches on the nodes.
	timer *time.Timer // starts the watching
	watch int         // how often the watching was ended
	own   []func()    // for each: ends its watch, or stops the timer of its next look; nil before the first look
}

// tenure is one grant to a Listener: a use, and those that entered it again.
type tenure struct {
	told   Listener
	leases int
}

// Hold starts a lock: the session heartbeats from here on. After an error the nodes are still the caller's.
func Hold(ctx context.Context, g Grant, told Listener) (*Use, error) {
	h := &Lock{Of: g.Of, owner: g.Owner, nodes: g.Nodes, turns: g.Turns, was: g.was}
	h.leases, h.czxid = 1, g.Token
	h.works = h.inUse
	for _, k := range h.nodes {
		k.InUse.Store(&h.works)
	}
	paths := znode.Paths(h.nodes) // all: a heartbeat finds one that is gone even where its event was lost
	// If the reply to the admitting write took longer than a lease lasts the session makes a fresh proof. One that is lost is
	// made again (TestAProofThatIsLostIsMadeAgain).
	err := retry.Do(ctx, h.owner.Session, znode.Unanswered, func() (err error) {
		h.drop, err = h.owner.Session.Hold(ctx, h.sessionSays, paths...) // it may be called before this returns: see starting
		return err
	})
	if err != nil { // it is not handed out
		h.mu.Lock()
		h.leases--
		h.mu.Unlock()
		h.workEnded()
	}
	switch {
	case znode.IsNoNode(err), err != nil && h.owner.Session.State() == session.StateLost:
		return nil, znode.LostError(h.nodes[0].Path, err)
	case err != nil:
		return nil, err
	}
	if h.czxid = max(h.czxid, h.nodes[0].Czxid); h.czxid == 0 {
		h.known = make(chan struct{})
	}
	h.turns.Granted()
	h.begin(&h.first, told)
	h.startWatching()
	h.mu.Lock()
	lasts := step(moves, &h.state, held)
	h.mu.Unlock()
	if !lasts { // lost meanwhile
		h.abandon()
	}
	return &Use{H: h, g: &h.first, Caller: ctx}, nil
}

// begin begins the tenure g, which ends at once if the lock has been lost meanwhile.
func (h *Lock) begin(g *tenure, told Listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*g = tenure{told: told, leases: 1}
	told.Granted(h.czxid)
	if h.state == over {
		told.Ended(h.czxid, true, h.why)
		return
	}
	h.tenures = append(h.tenures, g)
}

// Nodes are the paths of the nodes that hold it.
func (h *Lock) Nodes() []string { return znode.Paths(h.nodes) }

// Session has the nodes of the session that holds it.
func (h *Lock) Session() *znode.SessionNodes { return h.owner }

// revoke tells the holder that another program wants the lock. It stays held until Unlock.
func (h *Lock) revoke() {
	h.end(AfterGrant(fmt.Errorf("%w: %s", znode.ErrRevoked, h.nodes[0].Path)))
}

// Lose ends the lock against its holder's will: when it returns the contexts of its uses are cancelled. A goroutine then deletes the
// nodes that are left, so that no contender waits for them (CURATOR-202). The session calls Lose and waits for it (see Session.Hold).
func (h *Lock) Lose(cause error) {
	err := cause
	if !errors.Is(err, znode.ErrLost) {
		err = znode.LostError(h.nodes[0].Path, cause)
	}
	err = AfterGrant(err)
	if was := h.finish(err, true); was != over && was != starting { // while starting, Hold abandons it
		h.abandon()
	}
}

// abandon does the part of Lose that takes time.
func (h *Lock) abandon() {
	h.turns.Leaving()
	h.owner.Spawn(func() {
		h.drop() // as in giveBack: deleting takes a connection, and may take long
		if h.owner.Session.State() != session.StateLost {
			_ = znode.DropNow(context.Background(), h.nodes) // no caller waits for the answer; the janitor goes on
		}
		h.close(nil, nil)
	})
}

// finish records the end, once, reports it for every tenure, and cancels the contexts of the uses. It returns the state before.
func (h *Lock) finish(why error, lost bool) (was holdState) {
	h.mu.Lock()
	if was = h.state; !step(moves, &h.state, over) {
		h.mu.Unlock()
		return over
	}
	h.why, h.ended = why, time.Now()
	for _, g := range h.tenures {
		g.told.Ended(h.czxid, lost, why)
	}
	h.tenures = nil
	h.mu.Unlock()
	h.end(why)
	return was
}

// end cancels the contexts of the leases, later ones too. The first cause counts.
func (h *Lock) end(cause error) {
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

// leave takes out l, which has been given back. After the last lease the caller gives the nodes back. Otherwise why is the loss of the
// lock, if it was lost.
func (h *Lock) leave(l *Use) (last bool, why error) {
	h.mu.Lock()
	l.g.leases--
	h.leases--
	if last, why = h.leases == 0, h.why; !last && why == nil && l.g.leases == 0 { // a tenure that ends with the lock is finish's to tell of
		l.g.told.Ended(h.czxid, false, nil)
		h.tenures = slices.DeleteFunc(h.tenures, func(t *tenure) bool { return t == l.g })
	}
	h.mu.Unlock()
	h.workEnded()
	if !last {
		l.end(Released(h.Of.Path()))
		return false, why
	}
	if h.finish(Released(h.Of.Path()), false) == over { // lost before, or at this moment: Lose does the rest
		h.mu.Lock()
		defer h.mu.Unlock()
		return false, h.why
	}
	return true, nil
}

// inUse reports whether work under this lock may still go on.
func (h *Lock) inUse() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leases > 0 || h.runs.Load() > 0 || h.was != nil && h.was.runs.Load() > 0
}

// workEnded is called when inUse may have become false: the nodes of a lost session may be deleted then.
func (h *Lock) workEnded() {
	if h.owner.Session.Err() == nil || h.inUse() {
		return
	}
	h.owner.WorkEnded()
}

// giveBack deletes our nodes, or makes a place for the next goroutine of this client. Its error is that of znode.Drop.
func (h *Lock) giveBack(ctx context.Context) error {
	h.drop() // a slow release must not end the session
	next := h.next()
	if next == nil {
		h.turns.Leaving()
		return znode.Drop(ctx, h.nodes, func() { h.close(nil, nil) })
	}
	var p *passing
	answered := false
	if ctx.Err() == nil && h.owner.Session.State() == session.StateActive { // otherwise the caller may leave before anything is sent
		p = h.pass(ctx, next)
		answered = p.t.Sent != nil && p.t.Sent.Wait(ctx) == nil
		if answered && p.passed(ctx) {
			h.close(p.next, p.queue)
			return nil
		}
	}
	done := make(chan error, 1)
	h.owner.Spawn(func() { // as in Drop: the caller may leave before
		if p == nil {
			p = h.pass(context.WithoutCancel(ctx), next)
		}
		var err error
		if answered || !p.passed(context.WithoutCancel(ctx)) {
			err = p.undo(ctx)
		}
		h.close(p.next, p.queue)
		done <- err
	})
	return znode.AwaitRelease(ctx, done, h.nodes)
}

// releaseAsync is giveBack for a caller that waits for no answer: when it returns, the request is on its way or left to the background.
// The lanes of a session bound how many are under way, and ctx bounds the wait for room there.
//
// The turn is passed on when the nodes are gone. On one connection that is needless, because the servers execute the next create behind
// this delete. But the delete may be lost with the connection: then this client's next call would meet its own node.
func (h *Lock) releaseAsync() {
	ctx, cancel := context.WithTimeout(context.Background(), h.owner.Session.Timeout()/6)
	defer cancel()
	h.drop()
	next := h.next()
	if next == nil || h.owner.Session.State() != session.StateActive {
		h.turns.Leaving()
		znode.LeaveBehind(ctx, h.nodes, func() { h.close(nil, nil) })
		return
	}
	p := h.pass(ctx, next)
	h.owner.Spawn(func() {
		if !p.passed(context.Background()) {
			_ = p.undo(context.Background())
		}
		h.close(p.next, p.queue)
	})
}

// next is the node to be made for the goroutine of this client that waits.
func (h *Lock) next() *znode.Node {
	if h.owner.Session.State() == session.StateLost {
		return nil
	}
	return h.turns.Next()
}

// passing is the transaction that deletes our node and creates the next local holder's. Its place is the last in the queue, so other
// processes get their turn.
type passing struct {
	h     *Lock
	t     *znode.Txn
	next  *znode.Node // what the next holder gets; nil if there is none
	queue []string    // as of its creation, or nil
}

// pass sends the transaction.
func (h *Lock) pass(ctx context.Context, k *znode.Node) *passing {
	k.Key = h.nodes[0].Key // it stays: a contender is in it at any moment
	p := &passing{h: h, t: &znode.Txn{Owner: h.owner, Born: []*znode.Node{k}, Gone: h.nodes}}
	_ = p.t.Begin(ctx, k.Dir) // without Sent after an error
	return p
}

// passed waits for the answer, and reports whether the next holder has a place. When ctx ends, the next holder lists the queue itself.
func (p *passing) passed(ctx context.Context) bool {
	if p.t.Sent == nil {
		return false
	}
	lists, err := p.t.End(ctx)
	if err != nil {
		return false
	}
	if p.next = p.t.Born[0]; lists != nil {
		p.queue = lists[0]
	}
	return true
}

// undo deletes our node if the transaction had no effect. While its outcome is unknown it waits until the nodes are gone.
func (p *passing) undo(ctx context.Context) error {
	if p.t.Left != nil {
		<-p.t.Left
	}
	p.h.turns.Leaving()
	return znode.DropNow(ctx, p.h.nodes)
}

// close ends the watching and passes the turn on, with a place if there is one. It deletes a place that no goroutine takes.
func (h *Lock) close(place *znode.Node, queue []string) {
	h.stopWatching()
	h.drop()
	switch {
	case place == nil:
		h.turns.Leave()
	case !h.turns.HandOver(place, queue): // who it was made for has given up since (TestATryDuringAHandOffIsNotRefusedByThePlaceHandedOn)
		h.turns.Leaving()
		h.owner.Spawn(func() {
			_ = znode.DropNow(context.Background(), []*znode.Node{place}) // the janitor goes on
			h.turns.Leave()
		})
	}
}

// holdState says whether a lock is held. It moves only by step, through the table of moves.
type holdState int

const (
	starting   holdState = iota // hold is not through: what ends it now is left to hold
	held                        // it has leases
	exchanging                  // we replace its node: see RWMutex.Downgrade
	over                        // for good
)

// String completes the sentence "the lock is ...".
func (s holdState) String() string {
	return [...]string{"starting", "held", "being exchanged", "over"}[s]
}

// moves are the legal ones.
var moves = map[holdState][]holdState{
	starting:   {held, over},
	held:       {exchanging, over},
	exchanging: {held, over}, // held again only if the exchange cannot be executed any more
}

// step moves a state by its table of legal moves. An illegal move changes nothing.
func step[S comparable](legal map[S][]S, now *S, next S) bool {
	ok := slices.Contains(legal[*now], next)
	if ok {
		*now = next
	}
	return ok
}

// watched reports whether a change of the nodes ends the lock.
func (s holdState) watched() bool { return s != exchanging && s != over }

// ErrReleased: Unlock gave the lease back.
var ErrReleased = errors.New("recipes: lock released")

// Released is the cause a released lease's context carries.
type Released string // the path

func (path Released) Error() string { return ErrReleased.Error() + ": " + string(path) }
func (Released) Unwrap() error      { return ErrReleased }

// ErrGranted marks what went wrong behind a grant.
var ErrGranted = errors.New("the lock was granted")

// AfterGrant marks err, and leaves its text and its chain as they are; nil stays nil.
func AfterGrant(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w%.0w", err, ErrGranted)
}

// moment is how long a lock is held before its nodes are watched.
const moment = 100 * time.Millisecond

// Two things watch over a lock. The session's hold (see sessionSays) ends it by the clock, and with the session: the promise rests on
// that. A watch on each node tells of a deletion, or a request to give it back, while the session lives. A watch costs a request, and an
// event when the node goes, so it is set when the lock has been held for a moment.

// startWatching watches over the lock: at once if its token is still to be read. No goroutine stays for that; the session calls.
func (h *Lock) startWatching() {
	h.mu.Lock()
	ended, now := h.state == over, h.czxid == 0 // it may have been given back while an exchange failed
	if !ended && !now {
		h.timer = time.AfterFunc(moment, h.watchNodes)
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
	for _, end := range own {
		if end != nil {
			end()
		}
	}
}

// watchNodes begins to watch our nodes.
func (h *Lock) watchNodes() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.state.watched() {
		return
	}
	h.timer, h.own = nil, make([]func(), len(h.nodes))
	watch := h.watch
	for i := range h.nodes {
		h.owner.Spawn(func() { h.look(watch, i) })
	}
}

// watches reports whether the nodes are still watched by the same watching: after an exchange that failed another begins.
func (h *Lock) watches(watch int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state.watched() && h.watch == watch
}

// sessionSays is called by the session. During an exchange a heartbeat, or the holder's own proof, may find the old node gone.
func (h *Lock) sessionSays(err error) {
	h.mu.Lock()
	ignore := h.state == exchanging && znode.IsNoNode(err)
	h.mu.Unlock()
	if !ignore {
		h.Lose(err)
	}
}

// How far a look at a node is, and so how it takes news.
const (
	lookReads int32 = iota // read it again
	lookReadsAgain
	lookIsOver // look anew
	lookIsFollowed
)

// look reads one of our nodes, and is called again when there is news: that it is gone, or that another program wants it back. The first
// node tells the token.
//
// One look at each node is under way at a time. A connection that ends calls for each watch, also for one whose read it was to answer: if
// each made another look, connections that break in turn would double them.
func (h *Lock) look(watch, i int) {
	var phase atomic.Int32
	// A release deletes the node first and ends the watching when that is confirmed: its event is no news.
	news := func() {
		if !phase.CompareAndSwap(lookReads, lookReadsAgain) && phase.CompareAndSwap(lookIsOver, lookIsFollowed) && h.watches(watch) {
			h.owner.Spawn(func() { h.look(watch, i) })
		}
	}
	if say := h.nodes[i].Mark.Swap(nil); say != nil { // before it is read: a request to step back that came first is not overwritten
		(*say)()
	}
	o := &znode.Watch{K: h.nodes[i]}
	for again := true; again; again = !phase.CompareAndSwap(lookReads, lookIsOver) {
		phase.Store(lookReads)
		err := retry.Do(context.Background(), h.owner.Session, func(err error) bool { return znode.Unseen(err) && h.watches(watch) }, func() error {
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

// watching keeps the watch on a node, to be stopped; the one before it has called. A hidden node has none: it is looked at again after a
// session timeout.
func (h *Lock) watching(watch, i int, o *znode.Watch, again func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.state.watched() || h.watch != watch:
		return false
	case o.W != nil:
		h.own[i] = o.W.Stop
	case o.Hidden:
		timer := time.AfterFunc(h.owner.Session.Timeout(), again)
		h.own[i] = func() { timer.Stop() }
	}
	return true
}

// tokenIs ends the wait for the token; 0 if it cannot be read.
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
