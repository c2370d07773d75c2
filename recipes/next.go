package recipes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// wayClear waits for the contender that v says is in the way. first is true if its departure alone makes us the first;
// otherwise the caller lists again.
//
// How we know without a listing that we are the first: a contender that was granted after a wait says so in its own node, in
// a long queue at once (mark). We watch that node anyway, so we learn that our predecessor is the first. Numbers only grow,
// so nobody can come between: when it goes, we are the first, if our own node is still there, which its watch says (see
// prove). The chain starts at a listing that shows the predecessor first, which a short queue has in time (lookAhead). A
// predecessor that has not said that it holds, one that leaves while it waits, or a reconnect breaks it: then we list.
func (p *place) wayClear(ctx context.Context, v *verdict) (first bool, err error) {
	ordered := p.in.Marked || p.in.Gate
	first = v.head && ordered
	ready := func() {}
	defer func() { ready() }()
	for {
		held, err := p.watchAhead(ctx, v)
		if isNoNode(err) {
			return first && (p.in.Gate || p.silent()), nil
		}
		if err != nil {
			return false, p.timedOut(ctx, err)
		}
		if p.way == nil {
			return false, nil
		}
		first = first || held && ordered
		if p.turn = first || p.long(); first && !p.in.Gate {
			ready() // we are next: see prove
			ready = p.s.Ready(p.node().path)
		}
		if p.late {
			p.identify(ctx)
		}
		event, err := p.next(ctx, p.way)
		if p.way != nil && p.way.Event() != 0 { // what it told must not be used once the declaration has been read again
			p.way = stop(p.way)
		}
		if err != nil {
			return false, err
		}
		switch event {
		case zk.EventNodeDeleted:
			return first && (p.in.Gate || p.silent()), nil
		case zk.EventNodeDataChanged: // the mark of a grant, perhaps: read it, and go on watching
		default:
			return false, nil
		}
	}
}

// identify reads who the holder is, for the error of a wait that ends: the predecessor's data came with its watch, but
// the holder may be another contender. Best effort, once for each holder.
func (p *place) identify(ctx context.Context) {
	if p.holder.data == nil {
		p.says([]byte{})
		if data, _, err := p.s.Get(ctx, p.holder.path()); err == nil {
			p.says(data)
		}
	}
}

// watchAhead sets way: on the contender v names, or on the queue if v names none or we may not read that one. It leaves way nil,
// without an error, if the queue has changed already. held reports whether the contender says that it holds.
func (p *place) watchAhead(ctx context.Context, v *verdict) (held bool, err error) {
	dir := p.node().dir
	path := kind.JoinPath(dir, v.behind)
	// A watch that was silent before the listing does for it too. If it has fired since for a deletion, next says so; if that was on
	// a connection that has ended, the declaration's watch has fired as well: see prove.
	if p.way != nil {
		if t := p.way.Event(); p.way.Path() != path || t != 0 && t != zk.EventNodeDeleted {
			p.way = stop(p.way)
		}
	}
	if v.before != "" && p.in.Marked && !p.long() {
		p.lookAhead(ctx, path, kind.JoinPath(dir, v.before))
	} else {
		p.scout = stop(p.scout)
	}
	if p.way != nil {
		return false, nil
	}
	if v.behind != "" {
		data, _, w, err := getCalledPersistent(ctx, p.s, path, p.waker())
		if err == nil && v.head {
			p.says(data)
		}
		if !errors.Is(err, zk.ErrNoAuth) {
			p.way = w
			return !v.head && saysHeld(data), err // the front of the queue need not say so
		}
	}
	return false, p.watchQueue(ctx, v)
}

// watchQueue sets way on the queue, unless that has changed. The watch reports changes after the listing it came with. The verdict
// is of an older listing, so decide again.
func (p *place) watchQueue(ctx context.Context, v *verdict) error {
	children, w, err := childrenCalledPersistent(ctx, p.s, p.node().dir, p.waker())
	if err != nil {
		return err
	}
	var now verdict
	if err := now.decide(p.in, p.d.params, children, p.node().name); err != nil || now.granted || now.behind != v.behind {
		w.Stop()
		return nil
	}
	p.way = w
	return nil
}

// lookAhead watches before, which is ahead of the contender at path, which is right ahead of us. When before goes, wait lists
// again: while our predecessor holds, and not when it has gone and everybody waits for us. Such a listing shows it first, and
// then its departure is all we need (see wayClear). This is for short queues. In a long one the mark says as much. Nothing rests
// on before: without it we list when the way is clear. It is watched like a list of children, so that its mark wakes nobody.
//
// The first request watches our own node too, because a grant without a listing takes that (see prove), and the predecessor,
// whose data nobody needs yet. That is only where everybody may read our node: see Session.SetWatches. A foreign predecessor can
// have another access list than ours; deaf finds that out.
func (p *place) lookAhead(ctx context.Context, path, before string) {
	k := p.node()
	if p.scout != nil && (p.scout.Path() != before || p.scout.Event() != 0) {
		p.scout = stop(p.scout)
	}
	var data []string
	since := int64(math.MaxInt64)
	if !p.looked && p.way == nil && p.own == nil && !p.hidden && readable(k.acl) {
		data, since = []string{k.path, path}, k.czxid
	}
	if k.czxid == 0 || data == nil && (p.way == nil || p.scout != nil) {
		return
	}
	p.looked = true // once: what was changed after our node was created fires a watch at once, and would do so again
	set, err := p.s.SetWatches(ctx, since, data, []string{before}, p.waker())
	if err != nil { // read it instead
		return
	}
	if data != nil {
		p.own, p.way = set[0], set[1]
	}
	p.scout = set[len(data)]
}

// deaf reports that no event will come from way, which lookAhead set: the contender has gone, or we may not read it. Then the
// caller lists, and the queue is watched instead of a contender that we may not read.
func (p *place) deaf(ctx context.Context) bool {
	data, _, err := p.s.Get(ctx, p.way.Path())
	if err == nil && p.holder.path() == p.way.Path() {
		p.says(data)
	}
	if errors.Is(err, zk.ErrNoAuth) {
		p.way = stop(p.way)
	}
	return p.way == nil || isNoNode(err)
}

// forget stops the watches on others.
func (p *place) forget() { p.way, p.scout = stop(p.way), stop(p.scout) }

// stop stops w, if there is one, and returns nil.
func stop(w *session.Watch) *session.Watch {
	if w != nil {
		w.Stop()
	}
	return nil
}

// next waits until another look is worth it, and says why: it returns the event of w, which watches what is in the way and
// may be nil, or zk.EventNotWatching after that of scout, after a change of the declaration, or of our own node if w is nil.
// It fails when our node was deleted or asked back, when the declaration refuses us, when the session is lost, or when ctx
// ends. After a session timeout without news it looks by itself: a server that forgot a watch must cost no more than that.
//
// All waits of the recipes for something in ZooKeeper are here. A place without nodes waits too (a reader that lets writers
// go first), and so does one without a declaration (a holder, a follower of an election).
//
// Watches only wake it (waker). Before it waits it looks at all of them, so none is missed.
func (p *place) next(ctx context.Context, w *session.Watch) (zk.EventType, error) {
	var changed, dropped <-chan struct{}
	var silence *time.Ticker
	var silent <-chan time.Time
	brief := w != nil && p.brief()
	for {
		switch {
		case w != nil && w.Event() != 0:
			if p.s.State() == session.StateLost {
				return 0, lostError(p.q.path, p.s.Err())
			}
			return w.Event(), nil
		case p.scout != nil && p.scout.Event() != 0:
			p.scout = stop(p.scout)
			return zk.EventNotWatching, nil
		case p.own != nil && p.own.Event() != 0: // whatever the event is: the next read counts
			p.unwatch()
			if brief = false; w == nil {
				return zk.EventNotWatching, nil
			}
		}
		if len(p.nodes) > 0 && p.own == nil && !p.hidden && !brief {
			if err := p.readOwn(ctx); err != nil {
				return 0, p.timedOut(ctx, err)
			}
		}
		if silence == nil && (w != nil || p.hidden) {
			every := p.s.Timeout()
			if w != nil && p.fresh() {
				every = moment
			}
			silence = time.NewTicker(every)
			defer silence.Stop()
			silent = silence.C
		}
		if p.d != nil {
			changed, dropped = p.d.w.C(), p.d.dropped
		}
		select {
		case <-p.news:
		case <-silent:
			brief = false
			silence.Reset(p.s.Timeout())
			if look, err := p.unheard(ctx, w); look || err != nil {
				return zk.EventNotWatching, err
			}
		case <-changed:
			return zk.EventNotWatching, p.redeclare(ctx)
		case <-dropped: // perhaps it has changed, and another call saw that first
			was := p.d.mzxid
			// If there is a new connection, w has fired: what it told is of the old one, and the caller lists (see prove).
			if err := p.redeclare(ctx); err != nil || p.d.mzxid != was || w != nil && w.Event() != 0 {
				return zk.EventNotWatching, err
			}
		case <-ctx.Done():
			return 0, p.timedOut(ctx, context.Cause(ctx))
		}
	}
}

// unheard looks for what next may have missed, after a moment and then after each session timeout. It reports whether the
// caller of next should look.
func (p *place) unheard(ctx context.Context, w *session.Watch) (look bool, err error) {
	switch {
	case w != nil && p.fresh():
		p.late = true
		if p.looked && p.deaf(ctx) {
			return true, nil
		}
		p.identify(ctx)
	case w == nil:
		if err := p.readHidden(ctx); err != nil {
			return false, p.timedOut(ctx, err)
		}
	case w.OfChildren(), len(p.nodes) == 0: // look again
		return true, nil
	default: // whatever else goes wrong here is met by the next reconnect, or the next look
		// A server that has lost this event may have lost that of our own node: no grant rests on it.
		stat, err := p.s.Exists(ctx, w.Path())
		return err == nil && stat == nil, nil
	}
	return false, nil
}

// waker returns what watches call to wake next.
func (p *place) waker() func() {
	if p.wake == nil {
		news := make(chan struct{}, 1)
		p.news, p.wake = news, func() {
			select {
			case news <- struct{}{}:
			default: // it will look at this too
			}
		}
	}
	return p.wake
}

// fresh reports whether we have waited for less than a moment.
func (p *place) fresh() bool { return p.a != nil && len(p.nodes) > 0 && !p.late }

// brief reports whether what reads our own node and the holder's may be put off for a moment: most waits are over by then,
// and it would cost them two requests and an event. Our node is known to be ours by the answer to its create. In a long
// queue, and for the next in line, it is watched at once: see prove.
func (p *place) brief() bool {
	return p.fresh() && p.node().czxid != 0 && !p.turn
}

// silent reports whether our own node is watched, on the present connection, and was there at all that we have seen so far.
func (p *place) silent() bool { return p.own != nil && p.own.Event() == 0 }

// redeclare reads the declaration again: the lock may be drained, moved, or have other parameters. It fails if the lock
// grants nothing any more.
func (p *place) redeclare(ctx context.Context) error {
	d, err := p.q.c.declared(ctx, p.s, p.q)
	if err != nil {
		return p.timedOut(ctx, err)
	}
	p.d = d
	return nil
}

// obey reads changed declarations again until all are those in force. It is for callers that decide by the listing that came
// with their create; wait lists again instead. See prove.
func obey(ctx context.Context, places ...*place) error {
	for i := 0; i < len(places); i++ {
		if p := places[i]; p.d.stale() {
			if err := p.redeclare(ctx); err != nil {
				return err
			}
			i = -1 // the others' may have changed in that time
		}
	}
	return nil
}

// readOwn reads and watches our own node: it may be deleted under us, or carry a request to step back.
func (p *place) readOwn(ctx context.Context) error {
	path := p.node().path
	call := p.call
	if call == nil {
		call = p.waker()
	}
	data, stat, w, err := getCalledPersistent(ctx, p.s, path, call)
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		if p.hidden = true; p.call != nil { // a waiter finds out when the way is clear
			return p.readHidden(ctx)
		}
		return nil
	case isNoNode(err):
		return lostError(path, fmt.Errorf("the node was deleted by somebody else: %w", err))
	case err != nil:
		return err
	}
	p.own = w
	if err := p.ours(stat); err != nil {
		return err
	}
	if string(data) == kind.RevokeMessage {
		return fmt.Errorf("%w: %s, while waiting", ErrRevoked, path)
	}
	return nil
}

// readHidden is readOwn for a node that we may not read, and so cannot watch: next asks once a session timeout whether it is
// still there and ours. Servers that hide the node (see Session.Exists) say only that it is there: such a lease has no
// token.
func (p *place) readHidden(ctx context.Context) error {
	var stat *zk.Stat
	err := retry(ctx, p.s, unanswered, func() (err error) {
		stat, err = p.s.Exists(ctx, p.node().path)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return nil
	case err != nil:
		return err
	case stat == nil:
		return lostError(p.node().path, fmt.Errorf("the node was deleted by somebody else: %w", zk.ErrNoNode))
	}
	return p.ours(stat)
}

func (p *place) unwatch() { p.own = stop(p.own) }

// ours checks whose the node is, and records its version and its token.
func (p *place) ours(stat *zk.Stat) error {
	if stat.EphemeralOwner != p.s.ID() {
		return lostError(p.node().path, fmt.Errorf("it belongs to session %#x, ours is %#x", stat.EphemeralOwner, p.s.ID()))
	}
	p.version, p.czxid = stat.Version, stat.Czxid
	return nil
}
