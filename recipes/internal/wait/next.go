package wait

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// moment is how long a wait goes on before we read who holds: most waits are over by then.
const moment = 100 * time.Millisecond

// watchAhead watches the contender that v names. It watches the queue if v names none, or one that we may not read. It sets no watch,
// without an error, if the queue has changed already. held reports whether the contender says that it holds.
func (w *waiter) watchAhead(ctx context.Context, v *Verdict) (held bool, err error) {
	dir := w.Node().Dir
	path := kind.JoinPath(dir, v.Behind)
	// A watch that was silent before the listing does for it too. If it has fired since for a deletion, next says so; if that was on
	// a connection that has ended, the declaration's watch has fired as well: see prove.
	if b := w.way.behind; b != nil {
		if t := b.Event(); b.Path() != path || t != 0 && t != zk.EventNodeDeleted {
			w.way.behind = znode.Stop(b)
		}
	}
	if v.before != "" && w.In.Marked && !w.long() {
		w.lookAhead(ctx, path, kind.JoinPath(dir, v.before))
	} else {
		w.way.before = znode.Stop(w.way.before)
	}
	if w.way.behind != nil {
		return false, nil
	}
	if v.Behind != "" {
		data, _, behind, err := znode.GetCalledPersistent(ctx, w.Owner.Session, path, w.waker())
		if err == nil && v.head {
			w.says(data)
		}
		if !errors.Is(err, zk.ErrNoAuth) {
			w.way.behind = behind
			return !v.head && znode.SaysHeld(data), err // the front of the queue need not say so
		}
	}
	return false, w.watchQueue(ctx, v)
}

// watchQueue watches the queue, unless the verdict is too old: the watch reports only changes after the listing that it came with.
func (w *waiter) watchQueue(ctx context.Context, v *Verdict) error {
	children, queue, err := znode.ChildrenCalledPersistent(ctx, w.Owner.Session, w.Node().Dir, w.waker())
	if err != nil {
		return err
	}
	var now Verdict
	if err := now.Decide(w.In, w.Declared.Params, children, w.Node().Name); err != nil || now.Granted || now.Behind != v.Behind {
		queue.Stop()
		return nil
	}
	w.way.behind = queue
	return nil
}

// lookAhead watches before, which is ahead of the contender at path, our predecessor. When before goes, wait lists again: while our
// predecessor holds, and not when it has gone and the queue waits for us. Such a listing shows our predecessor first, and then its
// departure is all we need (see wayClear). This is for short queues: in a long one the mark says as much. Nothing rests on before,
// because without it we list when the way is clear. It is watched like a list of children, so that its mark wakes no waiter.
//
// The first request also watches our own node, which a grant without a listing needs (see prove), and the predecessor, whose data can
// wait. It does so only where everybody may read our node: see Session.SetWatches. A foreign predecessor can have another access list
// than ours; unreadableAhead finds that out.
func (w *waiter) lookAhead(ctx context.Context, path, before string) {
	k, way := w.Node(), &w.way
	if way.before != nil && (way.before.Path() != before || way.before.Event() != 0) {
		way.before = znode.Stop(way.before)
	}
	var data []string
	since := int64(math.MaxInt64)
	if !way.looked && way.behind == nil && w.own.W == nil && !w.own.Hidden && znode.Readable(k.ACL) {
		data, since = []string{k.Path, path}, k.Czxid
	}
	if k.Czxid == 0 || data == nil && (way.behind == nil || way.before != nil) {
		return
	}
	way.looked = true // once: a change after our node was created fires a watch at once, and would do so again
	set, err := w.Owner.Session.SetWatches(ctx, since, data, []string{before}, w.waker())
	if err != nil { // read it instead
		return
	}
	if data != nil {
		w.own.W, way.behind = set[0], set[1]
	}
	way.before = set[len(data)]
}

// unreadableAhead reports that the watch of lookAhead will have no event: the contender has gone, or we may not read it. Then the caller
// lists, and the queue is watched instead.
func (w *waiter) unreadableAhead(ctx context.Context) bool {
	path := w.way.behind.Path()
	data, _, err := w.Owner.Session.Get(ctx, path)
	if err == nil && w.Holder.path() == path {
		w.says(data)
	}
	if errors.Is(err, zk.ErrNoAuth) {
		w.way.behind = znode.Stop(w.way.behind)
	}
	return w.way.behind == nil || znode.IsNoNode(err)
}

// Next waits until another look is worth it, and says why. It returns the event of ahead, the watch on the contender in the way, which
// may be nil. It returns zk.EventNotWatching after an event of way.before, a change of the declaration, or, if ahead is nil, an event of
// our own node. It fails when our node was deleted or asked back, when the declaration refuses us, when the session is lost, or when ctx
// ends. After a session timeout without news it looks by itself, because a server can forget a watch.
//
// Watches only wake it (waker). Before it waits it looks at all of them, so none is missed.
func (w *waiter) Next(ctx context.Context, ahead *session.Watch) (zk.EventType, error) {
	var silence *time.Ticker
	var silent <-chan time.Time
	// Reads of our own node and of the holder's are put off for a moment, because most waits are over by then. The reads would
	// cost two requests and an event. The answer to its create says that our node is ours. In a long queue, and for the next in
	// line, it is watched at once: see prove.
	brief := ahead != nil && !w.waitedLong && w.Node().Czxid != 0 && !w.isNext
	for {
		switch {
		case ahead != nil && ahead.Event() != 0:
			if w.Owner.Session.State() == session.StateLost {
				return 0, znode.LostError(w.Handle.Path, w.Owner.Session.Err())
			}
			return ahead.Event(), nil
		case w.way.before != nil && w.way.before.Event() != 0:
			w.way.before = znode.Stop(w.way.before)
			return zk.EventNotWatching, nil
		case w.own.W != nil && w.own.W.Event() != 0: // the next read counts, not the event
			w.own.Unwatch()
			if brief = false; ahead == nil {
				return zk.EventNotWatching, nil
			}
		}
		if w.own.W == nil && !w.own.Hidden && !brief {
			if err := w.own.Read(ctx, w.waker()); err != nil {
				return 0, w.TimedOut(ctx, err)
			}
		}
		if silence == nil && (ahead != nil || w.own.Hidden) {
			every := w.Owner.Session.Timeout()
			if ahead != nil && !w.waitedLong {
				every = moment
			}
			silence = time.NewTicker(every)
			defer silence.Stop()
			silent = silence.C
		}
		select {
		case <-w.news:
		case <-silent:
			brief = false
			silence.Reset(w.Owner.Session.Timeout())
			if look, err := w.poll(ctx, ahead); look || err != nil {
				return zk.EventNotWatching, err
			}
		case <-w.Declared.Changed:
			return zk.EventNotWatching, w.renew(ctx)
		case <-w.Declared.Dropped: // it may have changed, and another call saw that first
			was := w.Declared.Mzxid
			// On a new connection ahead has fired: its news is of the old one, and the caller lists (see prove).
			if err := w.renew(ctx); err != nil || w.Declared.Mzxid != was || ahead != nil && ahead.Event() != 0 {
				return zk.EventNotWatching, err
			}
		case <-ctx.Done():
			return 0, w.TimedOut(ctx, context.Cause(ctx))
		}
	}
}

// poll looks for news that Next may have missed, after a moment and then after each session timeout. It reports whether the caller of
// Next should look.
func (w *waiter) poll(ctx context.Context, ahead *session.Watch) (look bool, err error) {
	switch {
	case ahead != nil && !w.waitedLong:
		w.waitedLong = true
		if w.way.looked && w.unreadableAhead(ctx) {
			return true, nil
		}
		w.identify(ctx)
	case ahead == nil:
		if err := w.own.Exists(ctx); err != nil {
			return false, w.TimedOut(ctx, err)
		}
	case ahead.OfChildren(): // look again
		return true, nil
	default: // the next reconnect, or the next look, meets other errors
		// A server that has lost this event may have lost that of our own node: no grant rests on it.
		stat, err := w.Owner.Session.Exists(ctx, ahead.Path())
		return err == nil && stat == nil, nil
	}
	return false, nil
}

// waker returns the function that watches call to wake Next.
func (w *waiter) waker() func() {
	if w.wake == nil {
		news := make(chan struct{}, 1)
		w.news, w.wake = news, func() {
			select {
			case news <- struct{}{}:
			default: // it will look at this too
			}
		}
	}
	return w.wake
}
