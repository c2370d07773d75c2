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

// Listener receives a grant and its end. The lock's mutex is held then, so it must not call the lock.
type Listener interface {
	Granted(token int64)
	Ended(token int64, lost bool, why error) // once
}

// Turns passes the lock's turns to the goroutines of this client that wait for it.
type Turns interface {
	Granted()
	Leaving()                                        // the lock is about to be free
	Leave()                                          // the lock is free
	Next() *znode.Node                               // the node to create for the next goroutine; nil if no goroutine waits, or the next one takes no place
	HandOver(place *znode.Node, queue []string) bool // returns false if the goroutine has given up
}

// Subject says what is locked. It does not change while the lock is held.
type Subject interface {
	Path() string // for people; of a set, the paths of all members
	Has(Key) bool // whether the key is that of this lock, or of a member of the set
}

// Grant has what Hold makes a lock of.
type Grant struct {
	Of    Subject
	Owner *znode.SessionNodes
	Nodes []*znode.Node
	Turns Turns
	Token int64 // the czxid of the first node; 0 if it is not known yet

	was *Lock // the lock that an exchange replaces; otherwise nil
}

// Lock is a grant in this process: the nodes that hold, and their watches. Several uses share a Lock when it is entered again.
//
// A Lock ends once, by finish, which cancels the contexts of its uses. Then the nodes are deleted, and after that close passes the
// turn on. So no goroutine of this client has to wait for the old nodes. If nodes remain, package znode goes on deleting them in
// the background.
//
//	ended by                          who deletes the nodes                             who calls close
//	leave, the last use given back    giveBack or releaseAsync, or their goroutine; a   the same
//	                                  place of the next goroutine may replace them
//	Lose                              the goroutine of abandon; after the loss of the   that goroutine
//	                                  session, the servers and the next session
//	Lose while the lock starts        the same: Hold calls abandon                      the same
//	replace, an exchange              the transaction of the exchange has done so       replace
type Lock struct {
	Of    Subject
	owner *znode.SessionNodes
	nodes []*znode.Node // one node; for a semaphore one for each permit, for a set one for each member
	turns Turns

	drop  func()        // ends the hold that Session.Hold began
	was   *Lock         // see Grant
	known chan struct{} // closed when czxid is known; nil if czxid was known from the start
	runs  atomic.Int32  // the number of functions of Do that run under the lock
	work  znode.Work    // this Lock as a znode.Work; its nodes point to this field

	mu    sync.Mutex // guards the rest
	state holdState
	czxid int64

	leases  int
	first   Use       // the use of the call that took the lock
	tenure  tenure    // the tenure of that call
	tenures []*tenure // the tenures that have not ended

	contexts map[*Use]struct{} // uses whose contexts end with the lock
	cause    error             // why these contexts ended; nil while they last
	why      error             // why the lock ended; nil while it is held
	ended    time.Time

	// The watches on the nodes.
	timer *time.Timer // starts the watching when it fires
	round int         // how often the watching was stopped; it tells the present watching from earlier ones
	own   []func()    // for each node: stops its watch, or the timer of its next look; nil before the first look
}

// holdState says whether a lock is held. Only step changes it, by the table holdMoves.
type holdState int

const (
	starting   holdState = iota // Hold has not returned; if the lock ends now, Hold cleans up
	held                        // the lock has uses
	exchanging                  // its node is being replaced: see RWMutex.Downgrade
	over                        // the lock has ended for good
)

// String completes the sentence "the lock is ...".
func (s holdState) String() string {
	return [...]string{"starting", "held", "being exchanged", "over"}[s]
}

// holdMoves has the legal moves.
var holdMoves = map[holdState][]holdState{
	starting:   {held, over},
	held:       {exchanging, over},
	exchanging: {held, over}, // held again only if no server can execute the exchange any more
}

// step moves a state by its table of legal moves. An illegal move changes nothing.
func step[S comparable](legal map[S][]S, now *S, next S) bool {
	ok := slices.Contains(legal[*now], next)
	if ok {
		*now = next
	}
	return ok
}

// isWatched reports whether a change of the nodes ends the lock.
func (s holdState) isWatched() bool { return s != exchanging && s != over }

// tenure is one grant to a Listener: a use, and the uses that entered its lock again.
type tenure struct {
	told   Listener
	leases int
}

// Hold starts a lock: the session sends heartbeats from here on. After an error the caller still has to delete the nodes.
func Hold(ctx context.Context, g Grant, told Listener) (*Use, error) {
	h := &Lock{Of: g.Of, owner: g.Owner, nodes: g.Nodes, turns: g.Turns, was: g.was}
	h.leases, h.czxid = 1, g.Token
	h.work = h
	for _, k := range h.nodes {
		k.Work.Store(&h.work)
	}
	paths := znode.Paths(h.nodes) // all nodes: a heartbeat finds a missing node even if its event was lost
	// If the write that granted the lock is no proof any more, the session first commits another write. If the reply to that write is
	// lost, the write is repeated (TestAProofThatIsLostOrTooOldIsMadeAgain).
	err := retry.Do(ctx, h.owner.Session, znode.Unanswered, func() (err error) {
		h.drop, err = h.owner.Session.Hold(ctx, h.sessionSays, paths...) // sessionSays may be called before Hold of the session returns: see starting
		return err
	})
	if err != nil { // no use is returned
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
	h.first = Use{H: h, g: &h.tenure, Caller: ctx}
	h.begin(&h.tenure, told)
	h.startWatching()
	h.mu.Lock()
	lasts := step(holdMoves, &h.state, held)
	h.mu.Unlock()
	if !lasts { // lost meanwhile
		h.abandon()
	}
	return &h.first, nil
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

// Nodes returns the paths of the nodes that hold the lock.
func (h *Lock) Nodes() []string { return znode.Paths(h.nodes) }

// Session returns the nodes of the session that holds the lock.
func (h *Lock) Session() *znode.SessionNodes { return h.owner }

// revoke cancels the contexts because another program wants the lock. The lock stays held until Unlock.
func (h *Lock) revoke() {
	h.end(AfterGrant(fmt.Errorf("%w: %s", znode.ErrRevoked, h.nodes[0].Path)))
}

// Lose ends the lock against its holder's will. When the first call returns, the contexts of the uses are cancelled; a second call
// may return earlier. A goroutine then deletes the nodes that remain, so that no contender waits for them (CURATOR-202). The session
// calls Lose and waits for it (see Session.Hold).
func (h *Lock) Lose(cause error) {
	err := cause
	if !errors.Is(err, znode.ErrLost) {
		err = znode.LostError(h.nodes[0].Path, cause)
	}
	err = AfterGrant(err)
	if was := h.finish(err, true); was != over && was != starting { // while the lock starts, Hold abandons it
		h.abandon()
	}
}

// abandon does the part of Lose that takes time.
func (h *Lock) abandon() {
	h.turns.Leaving()
	h.owner.Spawn(func() {
		h.drop() // first, as in giveBack, because the deletion needs a connection and may take long
		if h.owner.Session.State() != session.StateLost {
			_ = znode.DropNow(context.Background(), h.nodes) // no caller waits for the answer; after an error package znode goes on
		}
		h.close(nil, nil)
	})
}

// finish records the end, once, reports it for every tenure, and cancels the contexts of the uses. It returns the state before
// the end.
func (h *Lock) finish(why error, lost bool) (was holdState) {
	h.mu.Lock()
	if was = h.state; !step(holdMoves, &h.state, over) {
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

// end cancels the contexts of the uses, also those made later. The first cause counts.
func (h *Lock) end(cause error) {
	h.mu.Lock()
	if h.cause == nil {
		h.cause = cause
	}
	cause = h.cause
	leases := slices.Collect(maps.Keys(h.contexts)) // two calls of end may overlap: each cancels all contexts, so all are cancelled when either call returns
	h.mu.Unlock()
	for _, l := range leases {
		l.cancel(cause)
	}
}

// leave takes out l, which has been given back. If l was the last use, the caller gives the nodes back. Otherwise cause says how
// the lock was lost; nil if it was not.
func (h *Lock) leave(l *Use) (last bool, cause error) {
	h.mu.Lock()
	l.g.leases--
	h.leases--
	if last, cause = h.leases == 0, h.why; !last && cause == nil && l.g.leases == 0 { // if the lock ends too, finish reports the tenure
		l.g.told.Ended(h.czxid, false, nil)
		h.tenures = slices.DeleteFunc(h.tenures, func(t *tenure) bool { return t == l.g })
	}
	h.mu.Unlock()
	h.workEnded()
	if !last {
		l.end(Released(h.Of.Path()))
		return false, cause
	}
	if h.finish(Released(h.Of.Path()), false) == over { // the lock was lost before, or is lost at this moment: Lose does the rest
		h.mu.Lock()
		defer h.mu.Unlock()
		return false, h.why
	}
	return true, nil
}

// InUse reports whether work under this lock may still go on.
func (h *Lock) InUse() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leases > 0 || h.runs.Load() > 0 || h.was != nil && h.was.runs.Load() > 0
}

// workEnded is called when InUse may have become false. Then the nodes of a lost session may be deleted.
func (h *Lock) workEnded() {
	if h.owner.Session.Err() == nil || h.InUse() {
		return
	}
	h.owner.WorkEnded()
}

// giveBack deletes our nodes, or exchanges them for a place of the next goroutine of this client. Its errors are those of
// znode.Drop.
func (h *Lock) giveBack(ctx context.Context) error {
	h.drop() // a slow release must not end the session
	next := h.nextNode()
	if next == nil {
		h.turns.Leaving()
		return znode.Drop(ctx, h.nodes, func() { h.close(nil, nil) })
	}
	var p *passRequest
	answered := false
	if ctx.Err() == nil && h.owner.Session.State() == session.StateActive { // otherwise the goroutine below sends the transaction, which the end of ctx must not prevent
		p = h.pass(ctx, next)
		answered = p.t.Sent != nil && p.t.Sent.Wait(ctx) == nil
		if answered && p.awaitPlace(ctx) {
			h.close(p.next, p.queue)
			return nil
		}
	}
	done := make(chan error, 1)
	h.owner.Spawn(func() { // as in Drop, the caller may return earlier
		if p == nil {
			p = h.pass(context.WithoutCancel(ctx), next)
		}
		var err error
		if answered || !p.awaitPlace(context.WithoutCancel(ctx)) {
			err = p.undo(ctx)
		}
		h.close(p.next, p.queue)
		done <- err
	})
	return znode.AwaitRelease(ctx, done, h.nodes)
}

// releaseAsync is giveBack for a caller that waits for no answer. When it returns, the request is sent or left to the background.
// A session bounds the requests under way. releaseAsync waits for room among them for a sixth of the session timeout at most.
//
// The turn is passed on when the nodes are gone. On one connection the servers execute this delete before the next create, so the
// wait seems needless. But the delete may be lost with the connection, and then this client's next call would wait for its own
// old node.
func (h *Lock) releaseAsync() {
	ctx, cancel := context.WithTimeout(context.Background(), h.owner.Session.Timeout()/6)
	defer cancel()
	h.drop()
	next := h.nextNode()
	if next == nil || h.owner.Session.State() != session.StateActive {
		h.turns.Leaving()
		znode.LeaveBehind(ctx, h.nodes, func() { h.close(nil, nil) })
		return
	}
	p := h.pass(ctx, next)
	h.owner.Spawn(func() {
		if !p.awaitPlace(context.Background()) {
			_ = p.undo(context.Background())
		}
		h.close(p.next, p.queue)
	})
}

// nextNode returns the node to create for the next goroutine of this client; nil if none waits.
func (h *Lock) nextNode() *znode.Node {
	if h.owner.Session.State() == session.StateLost {
		return nil
	}
	return h.turns.Next()
}

// passRequest is the transaction that deletes our node and creates one for the next goroutine. The new node is the last in the
// queue, so other processes get the lock first.
type passRequest struct {
	h     *Lock
	t     *znode.Txn
	next  *znode.Node // the place of the next goroutine; nil if it gets none
	queue []string    // the queue when next was created; nil if unknown
}

// pass sends the transaction.
func (h *Lock) pass(ctx context.Context, k *znode.Node) *passRequest {
	k.Key = h.nodes[0].Key // the key's node is not deleted, because a contender is in it all the time
	p := &passRequest{h: h, t: &znode.Txn{Owner: h.owner, Born: []*znode.Node{k}, Gone: h.nodes}}
	_ = p.t.Begin(ctx, k.Dir) // after an error p.t.Sent is nil
	return p
}

// awaitPlace waits for the answer, and reports whether the next goroutine has a place. Without a listing, that goroutine lists the
// queue itself.
func (p *passRequest) awaitPlace(ctx context.Context) bool {
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

// undo deletes our nodes if the transaction had no effect. While its outcome is unknown, undo first waits until the background
// has undone it.
func (p *passRequest) undo(ctx context.Context) error {
	if p.t.Left != nil {
		<-p.t.Left
	}
	p.h.turns.Leaving()
	return znode.DropNow(ctx, p.h.nodes)
}

// close stops the watching and passes the turn on, with a place if there is one. It deletes a place that no goroutine takes.
func (h *Lock) close(place *znode.Node, queue []string) {
	h.stopWatching()
	h.drop()
	switch {
	case place == nil:
		h.turns.Leave()
	case !h.turns.HandOver(place, queue): // the goroutine for which the place was made has given up (TestATryDuringAHandOffIsNotRefusedByThePlaceHandedOn)
		h.turns.Leaving()
		h.owner.Spawn(func() {
			_ = znode.DropNow(context.Background(), []*znode.Node{place}) // after an error package znode goes on
			h.turns.Leave()
		})
	}
}

// ErrReleased: Unlock, Release or Downgrade ended the lease.
var ErrReleased = errors.New("recipes: lock released")

// Released is the cause of a released lease's context.
type Released string // the path

func (path Released) Error() string { return ErrReleased.Error() + ": " + string(path) }
func (Released) Unwrap() error      { return ErrReleased }

// ErrGranted marks errors that came after a grant.
var ErrGranted = errors.New("the lock was granted")

// AfterGrant marks err, and leaves its text and its chain as they are; nil stays nil.
func AfterGrant(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w%.0w", err, ErrGranted)
}

// moment is the time for which a lock is held before its nodes are watched.
const moment = 100 * time.Millisecond

// Two things watch over a lock. The session's hold (see sessionSays) ends the lock by the clock, and with the session: exclusion
// rests on this hold. A watch on each node reports a deletion or a revocation while the session lives. A watch costs a request, and
// an event when the node goes. So the watches are set only after the lock has been held for a moment, or at once if the token must
// be read.

// startWatching starts the watches after a moment, or at once if the token must be read. No goroutine waits for the watches: the
// session calls a function when one fires.
func (h *Lock) startWatching() {
	h.mu.Lock()
	ended, now := h.state == over, h.czxid == 0 // the lock may have been given back while an exchange failed
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

// stopWatching stops the watches.
func (h *Lock) stopWatching() {
	h.mu.Lock()
	if h.timer != nil {
		h.timer.Stop()
	}
	own := h.own
	h.own, h.round = nil, h.round+1
	h.mu.Unlock()
	for _, end := range own {
		if end != nil {
			end()
		}
	}
}

// watchNodes sets a watch on each of our nodes.
func (h *Lock) watchNodes() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.state.isWatched() {
		return
	}
	h.timer, h.own = nil, make([]func(), len(h.nodes))
	round := h.round
	for i := range h.nodes {
		h.owner.Spawn(func() { h.look(round, i) })
	}
}

// stillWatches reports whether the watching with this number goes on. A failed exchange begins a new one.
func (h *Lock) stillWatches(round int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state.isWatched() && h.round == round
}

// sessionSays receives the loss of the session, or of a node, from the session. During an exchange a heartbeat, or Verify, may
// find the old node gone: that is no loss.
func (h *Lock) sessionSays(err error) {
	h.mu.Lock()
	ignore := h.state == exchanging && znode.IsNoNode(err)
	h.mu.Unlock()
	if !ignore {
		h.Lose(err)
	}
}

// The phases of a look at a node. A phase decides what a call of the function news does.
const (
	lookReads      int32 = iota // a read is under way; news makes it lookReadsAgain
	lookReadsAgain              // the node is read once more after the read under way
	lookIsOver                  // news starts the next look
	lookIsFollowed              // the next look has started
)

// look reads one of our nodes with a watch. It is called again when there is news: the node is gone, or another program wants the
// lock back. The first node has the token.
//
// One look at each node is under way at a time. After a reconnect the session fires every watch, even one whose read has no answer
// yet. If each call of news started another look, repeated breaks would double the number of looks.
func (h *Lock) look(round, i int) {
	var phase atomic.Int32
	// A release deletes the node, and stops the watching when the deletion is confirmed. When the event of that deletion comes, the
	// lock is over already, so no look starts (see isWatched).
	news := func() {
		if !phase.CompareAndSwap(lookReads, lookReadsAgain) && phase.CompareAndSwap(lookIsOver, lookIsFollowed) && h.stillWatches(round) {
			h.owner.Spawn(func() { h.look(round, i) })
		}
	}
	if say := h.nodes[i].Mark.Swap(nil); say != nil { // write the mark before the read: the write checks the version, so it overwrites no earlier revocation
		(*say)()
	}
	o := &znode.Watch{K: h.nodes[i]}
	for again := true; again; again = !phase.CompareAndSwap(lookReads, lookIsOver) {
		phase.Store(lookReads)
		err := retry.Do(context.Background(), h.owner.Session, func(err error) bool { return znode.Unseen(err) && h.stillWatches(round) }, func() error {
			o.Unwatch()
			if err := o.Read(context.Background(), news); err != nil || !o.Hidden {
				return err
			}
			return o.Exists(context.Background())
		})
		if !h.keep(round, i, o, news) {
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

// keep stores how to stop the new watch on a node, if the watching goes on. The former watch has fired already. A hidden node has
// no watch, so it is read again after a session timeout.
func (h *Lock) keep(round, i int, o *znode.Watch, again func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.state.isWatched() || h.round != round:
		return false
	case o.W != nil:
		h.own[i] = o.W.Stop
	case o.Hidden:
		timer := time.AfterFunc(h.owner.Session.Timeout(), again)
		h.own[i] = func() { timer.Stop() }
	}
	return true
}

// tokenIs ends the wait for the token; czxid is 0 if the token cannot be read.
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
