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

// moment is the time after which a waiter reads who holds: most waits are over by then.
const moment = 100 * time.Millisecond

// Next waits until the caller should look again. The parameter watch is on the contender or the queue that we wait for; it may be
// nil. Next returns the event of watch. It returns zk.EventNotWatching after an event of way.before, after the watch on the
// declaration has fired, or if poll says that the caller should look. If watch is nil, it also returns that after an event of our
// own node. It fails when our node was deleted or revoked, when the declaration refuses us, when the session is lost, or when ctx ends. After a session timeout without an event
// it reads the nodes, because a server can forget a watch.
//
// Watches only wake Next (waker). Before Next waits it checks all watches, so it misses no event.
func (w *waiter) Next(ctx context.Context, watch *session.Watch) (zk.EventType, error) {
	var silence *time.Ticker
	var silent <-chan time.Time
	// Our own node and the holder's node are not read before the time moment has passed, because most waits are over by then. The
	// reads would cost two requests and an event. They are not needed until then: the answer to the create has shown that our node is
	// ours, and the holder's data only serve the error of a wait that ends.
	// If the queue is long, or if we are next, our node is watched at once: see prove.
	early := watch != nil && !w.waitedLong && w.Node().Czxid != 0 && !w.isNext
	for {
		switch {
		case watch != nil && watch.Event() != 0:
			if w.Owner.Session.State() == session.StateLost {
				return 0, znode.LostError(w.Handle.Path, w.Owner.Session.Err())
			}
			return watch.Event(), nil
		case w.way.before != nil && w.way.before.Event() != 0:
			w.way.before = znode.Stop(w.way.before)
			return zk.EventNotWatching, nil
		case w.own.W != nil && w.own.W.Event() != 0: // the event only leads to another read, which decides
			w.own.Unwatch()
			if early = false; watch == nil {
				return zk.EventNotWatching, nil
			}
		}
		if w.own.W == nil && !w.own.Hidden && !early {
			if err := w.own.Read(ctx, w.waker()); err != nil {
				return 0, w.TimedOut(ctx, err)
			}
		}
		if silence == nil && (watch != nil || w.own.Hidden) {
			every := w.Owner.Session.Timeout()
			if watch != nil && !w.waitedLong {
				every = moment
			}
			silence = time.NewTicker(every)
			defer silence.Stop()
			silent = silence.C
		}
		select {
		case <-w.news:
		case <-silent:
			early = false
			silence.Reset(w.Owner.Session.Timeout())
			if look, err := w.poll(ctx, watch); look || err != nil {
				return zk.EventNotWatching, err
			}
		case <-w.Declared.Changed:
			return zk.EventNotWatching, w.renew(ctx)
		case <-w.Declared.Dropped(): // the declaration may have changed, and another call saw the change first
			was := w.Declared.Mzxid
			// On a new connection, watch has fired. Its event is no proof on the new connection, so the caller lists (see prove).
			if err := w.renew(ctx); err != nil || w.Declared.Mzxid != was || watch != nil && watch.Event() != 0 {
				return zk.EventNotWatching, err
			}
		case <-ctx.Done():
			return 0, w.TimedOut(ctx, context.Cause(ctx))
		}
	}
}

// poll looks for changes whose events a server may have lost, after a moment and then after each session timeout. It reports
// whether the caller of Next should look.
func (w *waiter) poll(ctx context.Context, watch *session.Watch) (look bool, err error) {
	switch {
	case watch != nil && !w.waitedLong:
		w.waitedLong = true // waitedLong only saves requests; no grant depends on it
		if w.way.looked && w.unreadableAhead(ctx) {
			return true, nil
		}
		w.identify(ctx)
	case watch == nil:
		if err := w.own.Exists(ctx); err != nil {
			return false, w.TimedOut(ctx, err)
		}
	case watch.OfChildren(): // the caller lists, and the listing shows the changes
		return true, nil
	default: // errors of this read are ignored: they come again at the next reconnect or look
		// A server that lost the event of the deletion may also have lost the event of our own node. So no grant rests on this
		// read: the caller lists.
		stat, err := w.Owner.Session.Exists(ctx, watch.Path())
		return err == nil && stat == nil, nil
	}
	return false, nil
}

// watchAhead watches the contender that v names. If v names no contender, or a contender that is hidden from us, watchAhead
// watches the queue. If the queue has changed since the verdict v, it sets no watch and returns no error. The result held reports
// whether the contender's mark says that the contender holds.
func (w *waiter) watchAhead(ctx context.Context, v *Verdict) (held bool, err error) {
	dir := w.Node().Dir
	path := kind.JoinPath(dir, v.Behind)
	// The watch on the contender in the way is kept if v still names that contender and the watch has not fired. If it has
	// fired for a deletion, it is kept too, and Next returns that event. If the session has reconnected since the listing, that
	// event alone grants nothing: the declaration's watch has fired too (see prove).
	if b := w.way.behind; b != nil {
		if t := b.Event(); b.Path() != path || t != 0 && t != zk.EventNodeDeleted {
			w.way.behind = znode.Stop(b)
		}
	}
	if v.before != "" && w.In.Marked && !w.queueIsLong() {
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
			w.noteHolderData(data)
		}
		if !errors.Is(err, zk.ErrNoAuth) {
			w.way.behind = behind                       // safety: the deletion that this watch reports is the departure that admits us
			return !v.head && znode.SaysHeld(data), err // at the front of the queue the mark does not matter
		}
	}
	return false, w.watchQueue(ctx, v)
}

// watchQueue watches the queue. The same request lists the queue. If that listing differs from the verdict, the watch is stopped,
// because the watch would report only later changes.
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
	w.way.behind = queue // this watch only saves requests: its event leads to a listing
	return nil
}

// lookAhead watches the contender at the path elder, which is ahead of our predecessor at path. When that contender goes, we list
// again. So the listing happens while our predecessor holds, and not when the queue waits for us. The listing shows that our
// predecessor is the first. Then the departure of the predecessor is all we need (see wayClear). This is for short queues: in a
// long queue the predecessor's mark says that it holds. No grant rests on this watch: without the watch, we list when the way is
// clear. The watch is on the children of elder, so a mark written into the data of elder wakes no waiter.
//
// The first request also watches the predecessor, whose data are read later, and our own node. A grant without a listing needs the
// watch on our own node (see prove). The request sets these two watches only if the access list of our node lets all clients read
// it: see Session.SetWatches. A foreign predecessor can have another access list than our node; unreadableAhead finds that out.
func (w *waiter) lookAhead(ctx context.Context, path, elder string) {
	k, way := w.Node(), &w.way
	if way.before != nil && (way.before.Path() != elder || way.before.Event() != 0) {
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
	way.looked = true // only to save requests: after a change, a second watch from the zxid of our create would fire at once as well
	set, err := w.Owner.Session.SetWatches(ctx, since, data, []string{elder}, w.waker())
	if err != nil { // watchAhead reads the predecessor instead
		return
	}
	if data != nil {
		// Safety: wayClear relies on own.W. The request names the zxid of our create, so after a change since our create the watch
		// fires at once.
		w.own.W, way.behind = set[0], set[1]
	}
	way.before = set[len(data)] // this watch only saves requests
}

// unreadableAhead reports whether the watch of lookAhead will have no event, because the contender has gone or is hidden from us.
// Then the caller lists, and watches the queue instead.
func (w *waiter) unreadableAhead(ctx context.Context) bool {
	path := w.way.behind.Path()
	data, _, err := w.Owner.Session.Get(ctx, path)
	if err == nil && w.Holder.path() == path {
		w.noteHolderData(data)
	}
	if errors.Is(err, zk.ErrNoAuth) {
		w.way.behind = znode.Stop(w.way.behind)
	}
	return w.way.behind == nil || znode.IsNoNode(err)
}

// waker returns the function that watches call to wake Next.
func (w *waiter) waker() func() {
	if w.wake == nil {
		news := make(chan struct{}, 1)
		w.news, w.wake = news, func() {
			select {
			case news <- struct{}{}:
			default: // Next is already woken, and checks this watch too
			}
		}
	}
	return w.wake
}
