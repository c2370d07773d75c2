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

// waiter is an entry whose turn is waited for. Whoever makes one ends it.
type waiter struct {
	*Place
	own znode.Watch // the last node
	way way

	news       chan struct{} // of capacity 1: wakes next; see waker
	wake       func()
	queued     bool // others were ahead: it is not on arrival any more
	waitedLong bool // it has waited for a moment
	isNext     bool // what is right ahead of us is the first, or the queue is long: our node is watched from the start
	total      int  // contenders in the newest listing
}

// way are the watches on those ahead of a waiter.
type way struct {
	behind *session.Watch // on what is in the way; see wayClear
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

// admission is what the queue says once it admits us.
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
// nothing yet: the transaction that takes the permits deletes the place, and fails if the place or its session is gone.
func (w *waiter) admitted(ctx context.Context, lists [][]string) (ad admission, err error) {
	defer func() { w.way.behind, w.way.before = znode.Stop(w.way.behind), znode.Stop(w.way.before) }()
	var children []string
	if lists != nil { // the create was the write; that of an inherited place may name another goroutine of this client
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

// list reads the queue again. Where a write will be needed (see prove) it goes with the listing, in one round trip.
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
	// Only on arrival: a waiter stays when the bound is lowered, or when somebody appears ahead.
	if !w.queued && w.Declared.MaxWaiters > 0 && v.waiters >= w.Declared.MaxWaiters {
		return fmt.Errorf("%w: %d contenders wait for %s, max_waiters is %d", ErrQueueFull, v.waiters, w.Handle.Path, w.Declared.MaxWaiters)
	}
	w.Listener.Ahead(w.Opened)
	w.queued = true
	w.Listener.Waits(w.Opened, w.Node().Path)
	return nil
}

// wayClear waits for the contender that v says is in the way. first is true if its departure alone makes us the first;
// otherwise the caller lists again.
//
// How we know without a listing that we are the first: a contender that was granted after a wait says so in its own node, in
// a long queue at once (mark). We watch that node anyway, so we learn that our predecessor is the first. Numbers only grow,
// so nobody can come between: when it goes, we are the first, if our own node is still there, which its watch says (see
// prove). The chain starts at a listing that shows the predecessor first, which a short queue has in time (lookAhead). A
// predecessor that has not said that it holds, one that leaves while it waits, or a reconnect breaks it: then we list.
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
		if b := w.way.behind; b != nil && b.Event() != 0 { // what it told must not be used once the declaration has been read again
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

// prove makes a grant certain: it is the one step between "the queue admits us" and a lease. done is false if the
// declaration has changed; then the caller asks the queue again, under the new one.
//
// A grant rests on two facts.
//
// The first: at one transaction our node existed, was our session's, and every contender ahead was gone. The caller brings
// it, in one of two forms.
//  1. A listing that has our node and admits us. A server shows the state behind some transaction, whole. Our node is in it,
//     so it is behind our create, and whoever is ahead was created earlier: a server that lags can show contenders that have
//     left, but hide none. A listing is a fact by itself, whatever the connection.
//  2. The deletion of our predecessor, the front, as an event or as a read that finds no node, while the watch on our own
//     node is silent when looked at behind that (wayClear). A server sends events in the order of its log, and before any
//     reply of a later state, so our node was there at that deletion. All of that is of one connection: a new one fires every
//     watch of ours, so also the one on the declaration, which is older than the others and looked at last. Where our own
//     watch is not set or has fired, even for a change of the data, it could not tell us more: then the caller lists.
//
// The node is our session's: the reply to its create, or a read of it (ours), said so.
//
// The second: the session is alive now. The first may be long past: a follower cut off from its leader goes on telling events
// and showing a node whose session has expired (5.82 s of two believed holders were measured). What bounds that is a committed
// write of this session, sent at some moment m, before or behind the first fact. No server expires the session before
// m + T less a tick (session, proof), and the lease ends at m + T/2. Until then our node exists, so it keeps out everybody
// behind us, and nobody comes ahead of it. A write that is less than T/6 old is enough: it leaves a lease as much time as
// the heartbeats leave one that is held, and a server that commits nothing grants nothing after T/6. A waiter that is next
// heartbeats (wayClear), so there mostly is one. Else confirm makes one.
//
// Neither fact tells of a node that somebody else deletes while our server lags: such a lease is lost like one whose node is
// deleted after the grant, with the event or the next heartbeat.
//
// The declaration is looked at last. Nothing in ZooKeeper compares it with our create: a lock can be drained, seen to
// be idle, between the reading of one and the commit of the other. But a server tells a session of a change before anything of
// a later state. So a watch that is silent behind the first fact, which is behind our create, says that the declaration we
// know was in force when we queued.
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

// aliveByHeartbeat reports whether a heartbeat does for the write of prove. Of a node that was found when the reply to its create
// was lost, and has not been read since, we do not know whose it is. One that has to name its holder is written in any
// case, and so is a permit, which is rare: to whoever looks, the mark tells permits that are held from those that wait.
func (w *waiter) aliveByHeartbeat() bool {
	return w.named() && !w.AmongPermits() && (w.Node().Czxid != 0 || w.own.W != nil) && w.Owner.Session.Proven()
}

// confirm makes the write of prove. marked reports that it says in our node that we hold.
func (w *waiter) confirm(ctx context.Context) (marked bool, err error) {
	k, own := w.Node(), &w.own
	// A check of our node is as good a commit as a write into it, and wakes nobody. But the node must name the holder, and
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
			// Somebody else wrote our node, or an earlier try of ours did and its reply was lost.
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

// longQueue is from how many contenders on a queue is long. To list n of them costs a reply of 60 n bytes. A mark costs a
// commit, an event, and the successor's next look at the node: three messages of some 200 bytes each to every follower that
// logs it, and to the two clients. So a listing of 32, 2 KB, is about where the two cost the same bytes; the
// commit, which costs the servers more than either, is saved.
const longQueue = 32

// long reports whether the queue was long when it was last listed.
func (w *waiter) long() bool { return w.total > cmp.Or(w.Many, longQueue) }

// mark says in our node that we hold, and since when, behind the grant: what is sent later is behind it, the release too, and
// nobody waits for it. In a long queue it goes at once, for our successor. In a short one only who looks wants to know, so it
// goes with the watch of a lock that is held for a moment (see moment). If it is lost, or somebody else has written our
// node, the successor lists, and who looks counts from when we queued. What was granted on arrival has no mark.
func (w *waiter) mark() {
	if !w.In.Marked {
		return
	}
	s, q, k, version, at := w.Owner.Session, w.Handle, w.Node(), w.own.Version, time.Now()
	say := func() {
		b := s.Batch()
		b.Set(k.Path, znode.HeldData(q.Decides(), k.Data, q.ID, at), version)
		_ = b.Offer(ended) // who holds the lock waits for nothing
	}
	if w.long() {
		say()
	} else {
		k.Mark.Store(&say)
	}
}

// ended is the context of what is done at once or not at all.
var ended = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()
