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

// waiter waits for a place to be granted. Its maker ends it.
type waiter struct {
	*Place
	own znode.Watch // the last node
	way way

	news       chan struct{} // of capacity 1: wakes next; see waker
	wake       func()
	queued     bool // others were ahead, so it has waited
	waitedLong bool // it has waited for a moment
	isNext     bool // our predecessor is the first, or the queue is long: our node is watched from the start
	total      int  // contenders in the newest listing
}

// way are the watches on those ahead of a waiter.
type way struct {
	behind *session.Watch // on the contender in the way, or the queue; see wayClear
	before *session.Watch // on the contender ahead of that; see lookAhead
	looked bool           // lookAhead has watched our node
}

// Waiter begins to wait.
func (e *Place) Waiter() *waiter { return &waiter{Place: e, own: znode.Watch{K: e.Node()}} }

// End stops the watch on our node.
func (w *waiter) End() { w.own.Unwatch() }

// fact is the first of the two that a grant rests on: see prove.
type fact int

const (
	created  fact = iota // a listing that was sent behind the create admits us
	listed               // a later one does
	departed             // our predecessor, the front, has gone
)

// admission is the answer of a queue that admits us.
type admission struct {
	fact    fact
	written bool // a committed write was made after that, or by it
}

// Reach waits until the lock is ours, through the gate if there is one.
func (w *waiter) Reach(ctx context.Context, lists [][]string) (Grant, error) {
	if !w.In.Gate {
		return w.wait(ctx, lists)
	}
	if _, err := w.admitted(ctx, lists); err != nil {
		return Grant{}, err
	}
	return w.serve(ctx)
}

// wait returns when the contender is admitted and that is proven.
func (w *waiter) wait(ctx context.Context, lists [][]string) (Grant, error) {
	for ; ; lists = nil {
		ad, err := w.admitted(ctx, lists)
		if err != nil {
			return Grant{}, err
		}
		if g, done, err := w.prove(ctx, ad); done || err != nil {
			return g, err
		}
	}
}

// admitted returns when the queue admits the contender, which lists may say. The first at a gate needs no proof, because it holds
// nothing yet. The transaction that takes the permits deletes the place, and fails if the place or its session is gone.
func (w *waiter) admitted(ctx context.Context, lists [][]string) (ad admission, err error) {
	defer func() { w.way.behind, w.way.before = znode.Stop(w.way.behind), znode.Stop(w.way.before) }()
	var children []string
	if lists != nil { // the create was the write; an inherited place may name another goroutine of this client
		ad, children = admission{fact: created, written: w.named()}, lists[0]
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
		if err := w.behind(w.Node().Dir, &v); err != nil {
			return ad, err
		}
		if first, err := w.wayClear(ctx, &v); first || err != nil {
			return admission{fact: departed}, err // it is newer than what was written before
		}
	}
}

// list reads the queue again, in one round trip with the write that a grant will need (see prove).
func (w *waiter) list(ctx context.Context) (children []string, ad admission, err error) {
	k := w.Node()
	ad.fact = listed
	if w.own.W != nil && !w.own.Silent() { // a listing has its name, and does not say whose it is by now
		w.own.Unwatch()
		if err := w.own.Read(ctx, w.waker()); err != nil {
			return nil, ad, w.TimedOut(ctx, err)
		}
	}
	if !w.In.Gate && !w.AmongPermits() && w.named() && !w.aliveByHeartbeat() {
		err = retry.Do(ctx, w.Owner.Session, znode.Unanswered, func() error {
			b := w.Owner.Session.Batch()
			check, list := b.Multi(&zk.CheckVersionRequest{Path: k.Path, Version: -1}), b.List(k.Dir)
			if err := cmp.Or(b.Send(ctx), check.Wait(ctx)); err != nil {
				return err
			}
			if ad.written = true; list.Wait(ctx) == nil {
				children = list.Names()
			}
			return nil
		})
		switch {
		case znode.IsNoNode(err):
			return nil, ad, znode.LostError(k.Path, nil)
		case errors.Is(err, zk.ErrNoAuth): // we may read the queue but not our own node
			w.own.Hidden = true
		case err != nil:
			return nil, ad, w.TimedOut(ctx, err)
		}
	}
	if children == nil { // a later listing is of a later state: servers never go back in one session
		switch children, err = znode.ListChildren(ctx, w.Owner.Session, k.Dir); {
		case znode.IsNoNode(err): // our node went before its parent
			return nil, ad, znode.LostError(k.Path, err)
		case err != nil:
			return nil, ad, w.TimedOut(ctx, err)
		}
	}
	return children, ad, nil
}

// behind records who is ahead. It refuses a Try, a queue that is full, and a request that can never be granted.
func (w *waiter) behind(dir string, v *Verdict) error {
	if err := w.Possible(); err != nil {
		return err
	}
	w.Position = v.Position
	// About the same holder we may know more by now than its name.
	if w.Holder == nil || w.Holder.Name != v.first.Name {
		w.Holder = &Rival{Contender: *v.first, Dir: dir}
	}
	v.first = nil // it keeps the whole line
	if w.Try {
		return w.Listener.Held(w.Opened)
	}
	// Only on arrival: a waiter stays when the bound is lowered, or when a contender appears ahead.
	if !w.queued && w.Declared.MaxWaiters > 0 && v.waiters >= w.Declared.MaxWaiters {
		return fmt.Errorf("%w: %d contenders wait for %s, max_waiters is %d", ErrQueueFull, v.waiters, w.Handle.Path, w.Declared.MaxWaiters)
	}
	w.queued = true
	w.Listener.Ahead(w.Place)
	return nil
}

// wayClear waits for the contender that v says is in the way. first is true if its departure alone makes us the first; otherwise the
// caller lists again. We know without a listing that we are the first if all of this holds:
//  1. Our predecessor is the front of the queue. A listing shows that, in time for a short queue (lookAhead), or its own node says that
//     it was granted after a wait (mark).
//  2. It has gone. Numbers only grow, so no contender comes between it and us.
//  3. The watch on our own node is silent, so our node is still there (see prove).
//
// A predecessor that has not said that it holds, one that leaves while it waits, or a reconnect breaks the chain: then we list.
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
		if w.isNext = first || w.long(); first && !w.In.Gate {
			ready() // we are next: see prove
			ready = w.Owner.Session.Ready(w.Node().Path)
		}
		if w.waitedLong {
			w.identify(ctx)
		}
		event, err := w.Next(ctx, w.way.behind)
		if b := w.way.behind; b != nil && b.Event() != 0 { // its news must not be used once the declaration has been read again
			w.way.behind = znode.Stop(b)
		}
		if err != nil {
			return false, err
		}
		switch event {
		case zk.EventNodeDeleted:
			return first && (w.In.Gate || w.own.Silent()), nil
		case zk.EventNodeDataChanged: // the mark of a grant, perhaps: read it, and go on watching
		default:
			return false, nil
		}
	}
}

// Grant is what a held lock is made of: places that are ours, and proven to be.
type Grant struct {
	Entries []*Place // one, or those of a set
	Czxid   int64    // of the node, where it has been read
}

// prove makes a grant certain: it is the one step between "the queue admits us" and a lease. If the declaration has changed, done
// is false and the caller asks the queue again. A grant rests on two facts.
//  1. At one transaction our node existed, was our session's, and every contender ahead was gone. The caller brings this fact as a or b:
//     a) A listing has our node and admits us. A server shows the state behind one transaction, whole. Older contenders were created
//     before our node, so a server that lags can show contenders that have left, but hides none. b) Our predecessor, the front, was
//     deleted, by an event or a read, and the watch on our own node is silent behind that (wayClear). A server sends events in the order
//     of its log, and before any reply of a later state, so our node was there at that deletion. All of it is of one connection: a new
//     one fires every watch, also the one on the declaration, which is older and looked at last. A watch that is not set, or has fired,
//     tells no more: then the caller lists. The reply to the create, or a read (Ours), said that the node is our session's.
//  2. The session is alive. A follower that is cut off shows nodes of sessions that have expired (5.82 s of two believed holders were
//     measured). A committed write of this session, sent at m, before or behind fact 1, bounds that. No server expires the session before
//     m + T less a tick (session, proof), and the lease ends at m + T/2. Until then our node keeps out everybody behind us. A write
//     younger than T/6 will do: it leaves as much time as heartbeats leave a lease. A waiter that is next sends heartbeats (wayClear), so
//     there mostly is one; otherwise confirm makes one.
//
// A node that others delete while our server lags is in neither fact: the event, or the next heartbeat, ends such a lease.
//
// The declaration is looked at last: a lock can be drained, seen to be idle, between our reading and our create. A server tells a session
// of a change before anything of a later state. So a watch that is silent behind fact 1 says that the declaration was in force when we
// queued.
func (w *waiter) prove(ctx context.Context, ad admission) (g Grant, done bool, err error) {
	marked := false
	if !ad.written && !w.aliveByHeartbeat() {
		if marked, err = w.confirm(ctx); err != nil {
			return Grant{}, false, err
		}
	}
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

// aliveByHeartbeat reports whether a heartbeat serves as the write of prove. It does not for a node that was found after a lost reply and
// not read since, because it may be another session's. It does not for a node that has to name its holder, nor for a permit: its mark
// tells permits that are held from those that wait.
func (w *waiter) aliveByHeartbeat() bool {
	return w.named() && !w.AmongPermits() && (w.Node().Czxid != 0 || w.own.W != nil) && w.Owner.Session.Proven()
}

// confirm makes the write of prove. marked reports that it says in our node that we hold.
func (w *waiter) confirm(ctx context.Context) (marked bool, err error) {
	k, own := w.Node(), &w.own
	// A check of our node is as good a commit as a write into it, and wakes no waiter. But the node must name the holder, and
	// where a mark will be wanted one write does for both; and a check takes READ.
	mark, named := w.In.Marked && (w.long() || w.AmongPermits() || own.Hidden) || !w.named(), k.ID
	err = retry.Do(ctx, w.Owner.Session, znode.Unanswered, func() error {
		for {
			var stat *zk.Stat
			var err error
			if mark {
				k.ID = "" // until we know
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
			case errors.Is(err, zk.ErrNoAuth) && mark: // we may not write it: our successor lists
				mark, k.ID = false, named
				continue
			case !errors.Is(err, zk.ErrBadVersion):
				return err
			}
			// Another client wrote our node, or an earlier try of ours did and its reply was lost.
			own.Unwatch()
			if err := own.Read(ctx, w.waker()); err != nil {
				return err
			}
			if own.Hidden { // we may read neither its version nor a request to step back
				own.Version = -1
			}
		}
	})
	if err == nil || errors.Is(err, znode.ErrLost) {
		return mark, err
	}
	return false, w.TimedOut(ctx, err)
}

// longQueue is the number of contenders beyond which a queue is long. A listing of n costs 60 n bytes. A mark costs a commit, an event
// and the successor's next look: three messages of some 200 bytes to each follower and the two clients. At 32 both cost about the same
// bytes, and the listing saves the commit.
const longQueue = 32

// long reports whether the queue was long when it was last listed.
func (w *waiter) long() bool { return w.total > cmp.Or(w.Many, longQueue) }

// mark says in our node that we hold, and since when, behind the grant, without waiting for an answer. In a long queue it is sent at
// once, for our successor. In a short one it is only for people, so it goes with the watch of a lock that is held for a moment (see
// moment). If it is lost, or others have written our node, the successor lists. A lock that was granted on arrival has no mark.
func (w *waiter) mark() {
	if !w.In.Marked {
		return
	}
	s, q, k, version, at := w.Owner.Session, w.Handle, w.Node(), w.own.Version, time.Now()
	say := func() {
		b := s.Batch()
		b.Set(k.Path, znode.HeldData(q.Decides(), k.Data, q.ID, at), version)
		_ = b.Offer(ended) // the holder waits for nothing
	}
	if w.long() {
		say()
	} else {
		k.Mark.Store(&say)
	}
}

// ended is the context of a request that is sent at once or not at all.
var ended = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()
