package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// place is where an acquisition stands in one queue: its contender there, with a watch on that, and the declaration. Before
// a semaphore it stands in the gate first, with one contender, and then among the permits, with one for each.
type place struct {
	member
	a  *acquisition
	s  *Session
	d  *declaration
	in kind.Queue // where the nodes are, or will be

	nodes   []*contender    // the last one waits: it is granted when all are
	lists   [][]string      // the queues (see dirs) as read behind the creation of the nodes; nil where that failed
	left    <-chan struct{} // of the transaction that takes permits; see txn.left
	own     *session.Watch  // on the last node
	hidden  bool            // that one may not be read by us
	version int32           // of its data
	czxid   int64           // its own; 0 until read
	proven  bool            // a committed write was made after, or by, the fact that admits us
	queued  bool            // the Observer knows

	position int       // contenders ahead
	holder   Contender // the first of them
}

// node is the contender that waits.
func (p *place) node() *contender { return p.nodes[len(p.nodes)-1] }

// permits reports whether the place is among the permits, where others count it although nobody may hold it.
func (p *place) permits() bool { return p.n > 0 && !p.in.Gate }

// prepare makes the contenders for a queue of the lock: one, or one for each permit.
func (p *place) prepare(in kind.Queue) error {
	about := holderSelf(p.q.id())
	n := 1
	switch {
	case p.n > 0 && in.Gate: // there is no node yet for each
		about.Permits = p.n
	case p.n > 0:
		about.Limit, n = p.limit(), p.n
	}
	nodes := make([]*contender, n)
	for i := range nodes {
		var err error
		if nodes[i], err = p.q.contender(p.s, p.d, in, about); err != nil {
			return err
		}
	}
	p.in, p.nodes = in, nodes
	return nil
}

// dirs are the queues that decide: for permits their own and the gate's, else the place's own.
func (p *place) dirs() []string {
	dirs := []string{p.in.Dir(p.q.path)}
	if p.permits() {
		dirs = append(dirs, p.q.entrance().Dir(p.q.path))
	}
	return dirs
}

// exhausted reports numbers too close to the end of the sequence. Those of several permits are consecutive, but may run out
// between two of them.
func (p *place) exhausted() error {
	for _, k := range p.nodes {
		if err := k.exhausted(); err != nil {
			return err
		}
	}
	return nil
}

// named reports whether the place says that it is ours. One that was inherited may have been made for another goroutine
// of this client: then prove writes our name, in the write that it makes anyway unless the place was granted already.
func (p *place) named() bool { return p.node().id == p.q.id() }

// reach waits until the lock is ours, be it by way of the gate.
func (p *place) reach(ctx context.Context) error {
	if err := p.wait(ctx); err != nil || !p.in.Gate {
		return err
	}
	return p.serve(ctx)
}

// wait returns when the contender is admitted and that is proven: see prove. To be the first at a gate grants nothing yet and
// needs no proof: the transaction that takes the permits deletes the place, and fails if it or its session is gone.
func (p *place) wait(ctx context.Context) error {
	var children []string
	if p.lists != nil {
		children = p.lists[0]
	}
	for missing := false; ; children = nil {
		if children == nil {
			var err error
			if children, err = p.list(ctx); err != nil {
				return err
			}
		}
		v, err := decide(p.in, p.d.params, children, p.node().name)
		switch {
		case err != nil && missing:
			return lostError(p.node().path, err)
		case err != nil:
			missing = true
			continue
		case !v.granted:
			if err := p.ahead(p.node().dir, v); err != nil {
				return err
			}
			first, err := p.wayClear(ctx, v)
			if err != nil {
				return err
			}
			if !first {
				continue
			}
			p.proven = false // what made us the first is newer than what was proven before
		}
		if p.in.Gate {
			return nil
		}
		if done, err := p.prove(ctx); done || err != nil {
			return err
		}
	}
}

// list reads the queue again. Where the grant could not be written into our node anyway, the proof travels with the
// listing, in one round trip.
func (p *place) list(ctx context.Context) (children []string, err error) {
	k := p.node()
	p.proven = false
	if !p.in.Marked && !p.in.Gate {
		err = retry(ctx, p.s, unanswered, func() error {
			sent := p.s.MultiAndList(ctx, []any{&zk.CheckVersionRequest{Path: k.path, Version: -1}}, k.dir)
			if err := sent.Outcome(ctx); err != nil {
				return err
			}
			if p.proven = p.named(); sent.ListErr == nil {
				children = sent.Children[0]
			}
			return nil
		})
		switch {
		case isNoNode(err):
			return nil, lostError(k.path, nil)
		case err != nil && !errors.Is(err, zk.ErrNoAuth): // that is: the queue is shown to us, our node is not
			return nil, p.timedOut(ctx, err)
		}
	}
	if children == nil { // a later listing is of a later state: servers never go back in one session
		if children, err = listChildren(ctx, p.s, k.dir); err != nil {
			return nil, p.timedOut(ctx, err)
		}
	}
	return children, nil
}

// ahead takes note of who is ahead, and refuses a queue that is full, a Try, or what can never be granted.
func (p *place) ahead(dir string, v verdict) error {
	if err := p.possible(); err != nil {
		return err
	}
	p.position = v.position
	// Of the same holder we may know more by now than its name.
	if p.holder.Name != v.first.Name {
		p.holder = inspect.NewContender(dir, v.first)
	}
	if p.a.try {
		return p.held()
	}
	// Who waits already is not sent away when the bound is lowered, nor when somebody appears ahead.
	if !p.queued && p.d.waiters > 0 && v.waiters >= p.d.waiters {
		return fmt.Errorf("%w: %d contenders wait for %s, max_waiters is %d", ErrQueueFull, v.waiters, p.q.path, p.d.waiters)
	}
	p.tellLocal()
	if !p.queued {
		p.queued = true
		p.a.c.observe(Observer.Queued, Event{Path: p.q.path, Kind: p.q.kind, Node: p.node().path, Wait: time.Since(p.a.start)})
	}
	return nil
}

// held says who is in the way.
func (p *place) held() *HeldError {
	return &HeldError{Path: p.q.path, Holder: p.holder, Position: p.position, c: p.a.c}
}

// timedOut dresses an error that came because ctx ended as a HeldError; others stay as they are.
func (p *place) timedOut(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	held := p.held()
	held.Waited, held.Cause = time.Since(p.a.start), context.Cause(ctx)
	return held
}

// tellLocal lets the goroutines of this client that wait behind us know whom for.
func (p *place) tellLocal() {
	if !p.a.set && len(p.a.tickets) > 0 {
		p.a.c.state.waitsFor(p.q.localKey(), p.held())
	}
}

// wayClear waits for the contender that v says is in the way. first is true when its departure alone makes us the first;
// otherwise list again.
//
// How the first is known without listing: whoever is granted after a wait writes that into its own node (prove). We watch
// that node anyway, so we learn that our predecessor is the first, and as numbers only grow nobody can come between: when
// it goes, we are the first. The chain starts at a listing that shows the predecessor first, and is broken by a foreign
// client ahead, a predecessor that leaves while it waits, and a reconnect: then we list.
func (p *place) wayClear(ctx context.Context, v verdict) (first bool, err error) {
	ordered := p.in.Marked || p.in.Gate
	first = v.head && ordered
	for {
		w, held, err := p.watchAhead(ctx, v)
		if isNoNode(err) {
			return first, nil
		}
		if err != nil {
			return false, p.timedOut(ctx, err)
		}
		if w == nil {
			return false, nil
		}
		first = first || held && ordered
		p.identify(ctx)
		event, err := p.next(ctx, w)
		w.Stop()
		if err != nil {
			return false, err
		}
		switch event {
		case zk.EventNodeDeleted:
			return first, nil
		case zk.EventNodeDataChanged: // the mark of a grant, perhaps: read it, and go on watching
		default:
			return false, nil
		}
	}
}

// identify reads who the holder is, for the error of a wait that ends: the predecessor's data came with its watch, but
// the first may be somebody else. Best effort, and once for each that is the first.
func (p *place) identify(ctx context.Context) {
	if p.holder.Data == nil {
		p.holder.Data = []byte{}
		if data, _, err := p.s.Get(ctx, p.holder.Path); err == nil {
			p.holder.Describe(data)
		}
	}
	p.tellLocal()
}

// watchAhead watches the contender v names, or the queue when none is named or ours may not read it. A nil watch
// without an error says that the queue has changed already.
func (p *place) watchAhead(ctx context.Context, v verdict) (w *session.Watch, held bool, err error) {
	dir := p.node().dir
	if v.behind != "" {
		data, _, w, err := getWPersistent(ctx, p.s, kind.JoinPath(dir, v.behind))
		if err == nil && v.head {
			p.holder.Describe(data)
		}
		if !errors.Is(err, zk.ErrNoAuth) {
			return w, saysHeld(data), err
		}
	}
	// A watch of the queue tells of changes behind the listing it came with. The one that was decided on is older, so the
	// question is asked once more.
	children, w, err := childrenWPersistent(ctx, p.s, dir)
	if err != nil {
		return nil, false, err
	}
	now, err := decide(p.in, p.d.params, children, p.node().name)
	if err != nil || now.granted || now.behind != v.behind {
		w.Stop()
		return nil, false, nil
	}
	return w, false, nil
}

// next waits until something is worth another look, and says what: the event of w, which watches what is in the way, if
// anything is; zk.EventNotWatching when the declaration may have changed, and was read again; or an error, when our own node
// was deleted or asked back, the lock is not to be had any more, the session is lost, or ctx has ended. It asks by itself
// when nothing has spoken for a session timeout: a server that forgot the watch must cost no more than that.
//
// Every wait of the recipes for something in ZooKeeper is here: also of what has no node of its own (a reader that lets
// writers go first), or no declaration to obey (who follows an election).
func (p *place) next(ctx context.Context, w *session.Watch) (zk.EventType, error) {
	var ahead, own, changed, dropped <-chan struct{}
	if w != nil {
		ahead = w.C()
	}
	silence := time.NewTicker(p.s.Timeout())
	defer silence.Stop()
	for {
		if len(p.nodes) > 0 && p.own == nil && !p.hidden {
			if err := p.readOwn(ctx); err != nil {
				return 0, p.timedOut(ctx, err)
			}
		}
		if own = nil; p.own != nil {
			own = p.own.C()
		}
		if p.d != nil {
			changed, dropped = p.d.changed(), p.d.dropped
		}
		select {
		case <-ahead:
			if p.s.State() == session.StateLost {
				return 0, lostError(p.q.path, p.s.Err())
			}
			return w.Event(), nil
		case <-silence.C:
			switch {
			case w == nil:
			case w.OfChildren(), len(p.nodes) == 0: // look again
				return zk.EventNotWatching, nil
			default: // whatever else goes wrong here is met by the next reconnect, or the next look
				if stat, err := p.s.Exists(ctx, w.Path()); err == nil && stat == nil {
					return zk.EventNodeDeleted, nil
				}
			}
		case <-own:
			p.unwatch()
		case <-changed:
			return zk.EventNotWatching, p.redeclare(ctx)
		case <-dropped: // it has changed, perhaps, and somebody else saw that first
			was := p.d.mzxid
			if err := p.redeclare(ctx); err != nil || p.d.mzxid != was {
				return zk.EventNotWatching, err
			}
		case <-ctx.Done():
			return 0, p.timedOut(ctx, context.Cause(ctx))
		}
	}
}

// redeclare reads the declaration again: the lock may be drained, moved, or have other parameters. Who waits is told then,
// and sent away where nothing is granted any more.
func (p *place) redeclare(ctx context.Context) error {
	d, err := p.a.c.declared(ctx, p.s, p.q)
	if err != nil {
		return p.timedOut(ctx, err)
	}
	p.d = d
	return nil
}

// obey reads the declarations that have changed again, until all are those in force. For what is decided after the write by
// a listing that came with it; wait asks the queue again instead. See prove.
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
	data, stat, w, err := getWPersistent(ctx, p.s, path)
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		p.hidden = true // its deletion shows when the way is clear
		return nil
	case isNoNode(err):
		return lostError(path, err)
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

func (p *place) unwatch() {
	if p.own != nil {
		p.own.Stop()
		p.own = nil
	}
}

// ours checks whose the node is, and takes note of its version and its token.
func (p *place) ours(stat *zk.Stat) error {
	if stat.EphemeralOwner != p.s.ID() {
		return lostError(p.node().path, fmt.Errorf("it belongs to session %#x, ours is %#x", stat.EphemeralOwner, p.s.ID()))
	}
	p.version, p.czxid = stat.Version, stat.Czxid
	return nil
}
