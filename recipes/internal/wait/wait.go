package wait

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
)

// waiter is an entry whose turn is waited for. Whoever makes one ends it.
type waiter struct {
	*Place
	own znode.Watch // the last node
	way way

	news   chan struct{} // of capacity 1: wakes next; see waker
	wake   func()
	queued bool // others were ahead: it is not on arrival any more
	late   bool // it has waited for a moment
	turn   bool // what is right ahead of us is the first, or the queue is long: our node is watched from the start
	total  int  // contenders in the newest listing
}

// way are the watches on those ahead of a waiter.
type way struct {
	behind *session.Watch // on what is in the way; see wayClear
	before *session.Watch // on the contender ahead of that; see lookAhead
	looked bool           // lookAhead has watched our node
}

// forget stops the watches.
func (w *way) forget() { w.behind, w.before = znode.Stop(w.behind), znode.Stop(w.before) }

// waiter begins to wait.
func (e *Place) Waiter() *waiter { return &waiter{Place: e, own: znode.Watch{K: e.Node()}} }

// end stops what watches our node, and the way.
func (w *waiter) End() {
	w.way.forget()
	w.own.Unwatch()
}

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

// reach waits until the lock is ours, through the gate if there is one.
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
	defer w.way.forget()
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
		err := v.Decide(w.In, w.D.Params, children, w.Node().Name)
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
	if !w.In.Gate && !w.Permits() && w.named() && !w.vouched() {
		err = znode.Retry(ctx, w.S.S, znode.Unanswered, func() error {
			b := w.S.S.Batch()
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
		switch children, err = znode.ListChildren(ctx, w.S.S, k.Dir); {
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
		return w.Up.Held(w.Opened)
	}
	// Only on arrival: a waiter stays when the bound is lowered, or when somebody appears ahead.
	if !w.queued && w.D.MaxWaiters > 0 && v.waiters >= w.D.MaxWaiters {
		return fmt.Errorf("%w: %d contenders wait for %s, max_waiters is %d", ErrQueueFull, v.waiters, w.Q.Path, w.D.MaxWaiters)
	}
	w.Up.Ahead(w.Opened)
	w.queued = true
	w.Up.Waits(w.Opened, w.Node().Path)
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
		if w.turn = first || w.long(); first && !w.In.Gate {
			ready() // we are next: see prove
			ready = w.S.S.Ready(w.Node().Path)
		}
		if w.late {
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
