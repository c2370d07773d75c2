package wait

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
)

// waiter waits until its place is granted. The function that makes a waiter calls its End. A grant without a listing relies on two fields
// of the waiter: see wayClear. The other fields only save requests:
//
//	own.W       safety  the watch on our node: while it is silent, our node is there
//	way.behind  safety  a deletion shows that our predecessor has gone; a watch on the queue only leads to a listing
//	way.before  cost    its event leads to a listing while our predecessor still holds
//	way.looked  cost    lookAhead sets the watch on our node only once
//	own.Hidden  cost    our node is hidden from us: it gets no watch, so a grant needs a listing
//	isNext      cost    our node is watched at once, so perhaps a grant needs no listing
//	waitedLong  cost    Next makes the reads that most waits do not need
//	total       cost    in a long queue each grant writes a mark (see mark), so the successor needs no listing
type waiter struct {
	*Place
	own znode.Watch // the watch on the node that waits
	way way

	news       chan struct{} // wakes Next; of capacity 1; see waker
	wake       func()
	queued     bool // the waiter has waited behind others: a full queue does not refuse it any more
	waitedLong bool // the waiter has waited for longer than the constant moment
	isNext     bool // our predecessor is the first in the queue, or the queue is long
	total      int  // the number of contenders in the newest listing
}

// way has the watches on the contenders ahead of a waiter.
type way struct {
	behind *session.Watch // the watch on the contender in the way, or on the queue; see wayClear
	before *session.Watch // the watch on the contender ahead of our predecessor; see lookAhead
	looked bool           // lookAhead has asked for its watches once
}

// Waiter makes the waiter of a place.
func (e *Place) Waiter() *waiter { return &waiter{Place: e, own: znode.Watch{K: e.Node()}} }

// End stops the watch on our node.
func (w *waiter) End() { w.own.Unwatch() }

// Reach waits until the lock is ours, through the gate if there is one.
func (w *waiter) Reach(ctx context.Context, lists [][]string) (Grant, error) {
	if !w.In.Gate {
		return w.wait(ctx, lists)
	}
	if _, err := w.awaitAdmission(ctx, lists); err != nil {
		return Grant{}, err
	}
	return w.serve(ctx)
}

// wait returns when the queue admits our node and the admission is proven.
func (w *waiter) wait(ctx context.Context, lists [][]string) (Grant, error) {
	for ; ; lists = nil {
		ad, err := w.awaitAdmission(ctx, lists)
		if err != nil {
			return Grant{}, err
		}
		if g, done, err := w.prove(ctx, ad); done || err != nil {
			return g, err
		}
	}
}

// Grant has the places whose admission is proven. held.Hold makes a lock of a Grant.
type Grant struct {
	Entries []*Place // one place, or the places of a set
	Czxid   int64    // the czxid of the node; 0 if the node has not been read
}

// prove makes the grant of one place certain. Before prove succeeds a waiter has no lease, even if the queue admits it. If the declaration
// has changed, the result done is false, and the caller asks the queue again. A grant rests on three conditions:
//  1. In the state after some transaction, our node existed and belonged to our session, and every contender ahead of it was gone. The
//     parameter ad says how we know (type fact). The create's reply, or Watch.Ours, shows whose node it is.
//  2. This session sent a write a short time ago, and the write was committed. The lease counts from the moment of sending.
//  3. The declaration that we read was in force when we queued.
//
// Each fact goes with these proofs of the first two conditions:
//
//	fact      1: all ahead gone           1: our node is there, and ours      2: the write
//	created   the create's listing        the create's reply                  the create; confirm, if the node is inherited
//	listed    a later listing             that listing; the create's reply,   the check before that listing, a heartbeat,
//	                                      a read, or znode.Find               or confirm
//	departed  the predecessor's deletion  the silent watch on our node        a heartbeat (Session.Ready), or confirm
func (w *waiter) prove(ctx context.Context, ad admission) (g Grant, done bool, err error) {
	// Condition 2. No server expires the session before Session.Deadline, usually T/2 after the write was sent (T is the session timeout;
	// see type proof of package session). The lease ends at that Deadline. A write younger than T/6 leaves at least T/3, as much as a held
	// lease has just before a heartbeat. A waiter that is next sends heartbeats (wayClear); without a heartbeat, confirm makes the write.
	// If others delete our node while our server lags, the event of the deletion, or the next heartbeat, ends the lease.
	marked := false
	if !ad.withWrite && !w.aliveByHeartbeat() {
		if marked, err = w.confirm(ctx); err != nil {
			return Grant{}, false, err
		}
	}
	// Condition 3. The declaration's watch is silent, so the declaration that we read was in force when we queued. A check before our
	// create would not be enough: between that check and our create an operator may drain the lock, and find it idle.
	if w.Declared.Stale() {
		return Grant{}, false, w.renew(ctx)
	}
	if ad.fact != created && !marked {
		w.mark()
	}
	g = Grant{Entries: []*Place{w.Place}}
	if !w.AmongPermits() {
		g.Czxid = w.own.Czxid
	}
	return g, true, nil
}

// fact says how a waiter knows that after some transaction its node existed and every contender ahead was gone.
type fact int

const (
	// A listing that was sent after the create admits us. It shows the state after one transaction. A server that lags can show contenders
	// that have left, but it hides no contender that is older than our node. So the fact holds on any connection.
	created fact = iota
	// A later listing admits us, in the same way.
	listed
	// Our predecessor, the front of the queue, was deleted, and after that the watch on our own node was silent: see wayClear. All of this
	// was on one connection, because a new connection fires every watch.
	departed
)

// admission says that a queue admits us.
type admission struct {
	fact fact
	// withWrite is condition 2 of prove: the listing that shows the fact came with a committed write of this session. If withWrite is wrongly
	// true, two clients can hold; if it is wrongly false, a write is wasted.
	withWrite bool
}

// awaitAdmission returns when the queue admits our node; the listings in lists may show the admission already. The first waiter at a gate
// needs no proof, because it holds nothing yet. The transaction that takes the permits deletes the place, and fails if the place or its
// session is gone.
func (w *waiter) awaitAdmission(ctx context.Context, lists [][]string) (ad admission, err error) {
	defer func() { w.way.behind, w.way.before = znode.Stop(w.way.behind), znode.Stop(w.way.before) }()
	var children []string
	if lists != nil { // the create was the committed write, unless the node is inherited and has another goroutine's ID
		ad, children = admission{fact: created, withWrite: w.hasOurID()}, lists[0]
	}
	for missing := false; ; children = nil {
		if children == nil {
			if children, ad, err = w.list(ctx); err != nil {
				return ad, err
			}
		}
		var v Verdict
		err := v.Decide(w.In, w.Declared.Params, children, w.Node().Name)
		if err == nil {
			w.total = v.total
			w.Seen(&v)
		}
		switch {
		case err != nil && missing:
			return ad, znode.LostError(w.Node().Path, err)
		case err != nil:
			missing = true
			continue
		case v.Granted:
			return ad, nil
		}
		if err := w.mayWait(w.Node().Dir, &v); err != nil {
			return ad, err
		}
		if first, err := w.wayClear(ctx, &v); first || err != nil {
			return admission{fact: departed}, err // withWrite is false: the departure is newer than our last write
		}
	}
}

// list reads the queue again. In the same round trip it makes the write that a grant needs (see prove), unless a heartbeat or confirm makes
// that write.
func (w *waiter) list(ctx context.Context) (children []string, ad admission, err error) {
	k := w.Node()
	ad.fact = listed
	if w.own.W != nil && !w.own.Silent() { // a listing shows the node's name, but not its session
		w.own.Unwatch()
		if err := w.own.Read(ctx, w.waker()); err != nil {
			return nil, ad, w.TimedOut(ctx, err)
		}
	}
	if !w.In.Gate && !w.AmongPermits() && w.hasOurID() && !w.aliveByHeartbeat() {
		err = retry.Do(ctx, w.Owner.Session, znode.Unanswered, func() error {
			b := w.Owner.Session.Batch()
			check, list := b.Multi(&zk.CheckVersionRequest{Path: k.Path, Version: -1}), b.List(k.Dir)
			if err := cmp.Or(b.Send(ctx), check.Wait(ctx)); err != nil {
				return err
			}
			if ad.withWrite = true; list.Wait(ctx) == nil {
				children = list.Names()
			}
			return nil
		})
		switch {
		case znode.IsNoNode(err):
			return nil, ad, znode.LostError(k.Path, nil)
		case errors.Is(err, zk.ErrNoAuth): // the servers let us read the queue, but not our own node
			w.own.Hidden = true
		case err != nil:
			return nil, ad, w.TimedOut(ctx, err)
		}
	}
	if children == nil { // this listing is not older than the write: servers never show a session an earlier state again
		switch children, err = znode.ListChildren(ctx, w.Owner.Session, k.Dir); {
		case znode.IsNoNode(err): // the queue is gone, so our node is gone
			return nil, ad, znode.LostError(k.Path, err)
		case err != nil:
			return nil, ad, w.TimedOut(ctx, err)
		}
	}
	return children, ad, nil
}

// wayClear waits until the contender ahead, which v names, has gone or has changed. It returns first = true if that contender has gone and
// we know, without a listing, that we are the first. Otherwise the caller lists again. We know that we are the first if all of this holds:
//  1. Our predecessor is the front of the queue. A listing shows this; in a short queue lookAhead leads to such a listing early enough. Or
//     the mark in the predecessor's node says that the predecessor holds (mark).
//  2. The predecessor has gone. Numbers only grow, so no contender comes between the predecessor and us.
//  3. Except at a gate, the watch on our own node is silent, so our node and the node of its key are still there. A server sends events in
//     the order of its log, and each event before any reply that shows a later state. A watch that is not set, or has fired, shows nothing.
//
// If neither a listing nor a mark shows that the predecessor is the front, or if the connection ends, we list.
func (w *waiter) wayClear(ctx context.Context, v *Verdict) (first bool, err error) {
	ordered := w.In.Marked || w.In.Gate
	first = v.head && ordered
	ready := func() {}
	defer func() { ready() }()
	for {
		held, err := w.watchAhead(ctx, v)
		if znode.IsNoNode(err) {
			return first && (w.In.Gate || w.own.Silent()), nil
		}
		if err != nil {
			return false, w.TimedOut(ctx, err)
		}
		if w.way.behind == nil {
			return false, nil
		}
		first = first || held && ordered
		if w.isNext = first || w.queueIsLong(); first && !w.In.Gate {
			ready() // we are next: see prove
			ready = w.Owner.Session.Ready(w.Node().Path)
		}
		if w.waitedLong {
			w.identify(ctx)
		}
		event, err := w.Next(ctx, w.way.behind)
		// Drop a watch that has fired: its event must not count after the declaration has been read again.
		if b := w.way.behind; b != nil && b.Event() != 0 {
			w.way.behind = znode.Stop(b)
		}
		if err != nil {
			return false, err
		}
		switch event {
		case zk.EventNodeDeleted:
			return first && (w.In.Gate || w.own.Silent()), nil
		case zk.EventNodeDataChanged: // the change may be the mark of a grant: read the data, and watch again
		default:
			return false, nil
		}
	}
}

// aliveByHeartbeat reports whether a heartbeat serves as the write that prove needs. A heartbeat does not suffice in three cases. A node
// that was found after a lost reply, and has not been read since, may be another session's. An inherited node must get our ID. A permit
// needs a mark, because marks tell held permits from waiting permits.
func (w *waiter) aliveByHeartbeat() bool {
	return w.hasOurID() && !w.AmongPermits() && (w.Node().Czxid != 0 || w.own.W != nil) && w.Owner.Session.Proven()
}

// confirm makes the write that prove needs. The result marked reports whether it put our mark into our node.
func (w *waiter) confirm(ctx context.Context) (marked bool, err error) {
	k, own := w.Node(), &w.own
	// A transaction that checks our node proves as much as a write into it, and wakes no waiter. We write if the node must get our ID. In a
	// queue with marks we also write if the queue is long, for permits, or if our node is hidden: a check needs READ.
	mark, named := w.In.Marked && (w.queueIsLong() || w.AmongPermits() || own.Hidden) || !w.hasOurID(), k.ID
	err = retry.Do(ctx, w.Owner.Session, znode.Unanswered, func() error {
		for {
			var stat *zk.Stat
			var err error
			if mark {
				k.ID = "" // the ID in the node is unknown until the answer
				stat, err = w.Owner.Session.Set(ctx, k.Path, znode.HeldData(w.In, k.Data, w.Handle.ID, time.Now()), own.Version)
			} else {
				err = w.Owner.Session.Confirm(ctx, k.Path)
			}
			switch {
			case err == nil && mark:
				k.ID = w.Handle.ID
				return own.Ours(stat)
			case err == nil:
				return nil
			case znode.IsNoNode(err):
				return znode.LostError(k.Path, err)
			case errors.Is(err, zk.ErrNoAuth) && mark: // the servers do not let us write the node: it gets no mark, and our successor lists
				mark, k.ID = false, named
				continue
			case !errors.Is(err, zk.ErrBadVersion):
				return err
			}
			// Another client has written our node, or an earlier try of ours has written it and the reply to that try was lost.
			own.Unwatch()
			if err := own.Read(ctx, w.waker()); err != nil {
				return err
			}
			if own.Hidden { // we can read neither the node's version nor a revocation
				own.Version = -1
			}
		}
	})
	if err == nil || errors.Is(err, znode.ErrLost) {
		return mark, err
	}
	return false, w.TimedOut(ctx, err)
}

// longQueue is the number of contenders beyond which a queue is long. A listing of n contenders costs 60 n bytes. A mark costs a commit, an
// event and the successor's next look. Together these are messages of about 2,000 bytes. At 32 contenders a listing costs about as many
// bytes as a mark, and saves the commit.
const longQueue = 32

// queueIsLong reports whether the queue was long when it was last listed.
func (w *waiter) queueIsLong() bool { return w.total > cmp.Or(w.Many, longQueue) }

// mark writes the mark into our node after the grant: the mark says that we hold, and since when. The method waits for no answer. In a long
// queue the mark is sent at once, for our successor. In a short queue the mark is only for people, so package held sends it when the lock
// has been held for a moment. If the mark is lost, or others have written our node, the successor lists. A lock that was granted on arrival
// has no mark, but confirm may have put one into an inherited node.
func (w *waiter) mark() {
	if !w.In.Marked {
		return
	}
	s, q, k, version, at := w.Owner.Session, w.Handle, w.Node(), w.own.Version, time.Now()
	say := func() {
		b := s.Batch()
		b.Set(k.Path, znode.HeldData(q.Decides(), k.Data, q.ID, at), version)
		_ = b.Offer(endedContext) // an error does not matter: see the comment of mark
	}
	if w.queueIsLong() {
		say()
	} else {
		k.Mark.Store(&say)
	}
}

// endedContext is the context of a request that is sent at once or not at all.
var endedContext = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// mayWait records the contender ahead. It returns an error for a Try, for a new waiter in a full queue, and for a request that can never be
// granted.
func (w *waiter) mayWait(dir string, v *Verdict) error {
	if err := w.Possible(); err != nil {
		return err
	}
	w.Position = v.Position
	// Keep a holder that is the same as before, because we may have read its data.
	if w.Holder == nil || w.Holder.Name != v.first.Name {
		w.Holder = &Rival{Contender: *v.first, Dir: dir}
	}
	v.first = nil // the pointer would keep all contenders of the listing in memory
	if w.Try {
		return w.Listener.Held(w.Opened)
	}
	// The bound counts only on arrival: a waiter stays if the bound is lowered, or if a contender appears ahead.
	if !w.queued && w.Declared.MaxWaiters > 0 && v.waiters >= w.Declared.MaxWaiters {
		return fmt.Errorf("%w: %d contenders wait for %s, max_waiters is %d", ErrQueueFull, v.waiters, w.Handle.Path, w.Declared.MaxWaiters)
	}
	w.queued = true
	w.Listener.Ahead(w.Place)
	return nil
}
