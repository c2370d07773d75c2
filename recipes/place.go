package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// place is an acquisition's position in one queue: its contender, the watch on that, and the declaration. For a semaphore
// that is a place at the gate first, with one contender, and then a place among the permits, with one for each.
type place struct {
	member
	a  *acquisition // nil where nothing is to be acquired: of a holder, and of a follower of an election
	s  *Session
	d  *declaration
	in kind.Queue // where the nodes are, or will be

	nodes   []*contender    // the last one waits: when it is granted all are
	lists   [][]string      // the queues (see dirs) as read behind the creation of the nodes; nil where that failed
	left    <-chan struct{} // of the transaction that takes permits; see txn.left
	way     *session.Watch  // on what is in the way; see wayClear
	scout   *session.Watch  // on the contender ahead of that; see lookAhead
	own     *session.Watch  // on the last node
	hidden  bool            // that one may not be read by us
	version int32           // of its data
	czxid   int64           // its own; 0 until read
	call    func()          // of a holder's place: called where a waiter's would be woken by own
	news    chan struct{}   // of capacity 1: wakes next; see waker
	wake    func()
	proven  bool // a committed write was made after, or by, the fact that admits us
	waited  bool // it was not admitted when it was created
	marked  bool // it says so, and since when it holds
	queued  bool // it is not on arrival any more
	late    bool // it has waited for a moment
	looked  bool // lookAhead has watched its node
	turn    bool // what is right ahead of us is the first, or the queue is long: our node is watched from the start
	total   int  // contenders in the newest listing

	position int    // contenders ahead
	holder   *rival // the first of them; nil if none is known
}

// node is the contender that waits.
func (p *place) node() *contender { return p.nodes[len(p.nodes)-1] }

// permits reports whether the place is among the permits. Other clients count those as held from their creation.
func (p *place) permits() bool { return p.n > 0 && !p.in.Gate }

// prepare makes the contenders for a queue of the lock: one, or one for each permit.
func (p *place) prepare(in kind.Queue) error {
	about := holderSelf(p.q.id())
	about.RetainMs = p.q.opts.retention.Milliseconds()
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

// exhausted reports a number too close to the end of the sequence, which may be reached between two permits.
func (p *place) exhausted() error {
	for _, k := range p.nodes {
		if err := k.exhausted(); err != nil {
			return err
		}
	}
	return nil
}

// named reports whether the node has our ID. An inherited one may have that of another goroutine of this client. Then
// prove writes ours, in the write that it makes anyway unless the place was granted already.
func (p *place) named() bool { return p.node().id == p.q.id() }

// reach waits until the lock is ours, through the gate if there is one.
func (p *place) reach(ctx context.Context) error {
	if err := p.wait(ctx); err != nil || !p.in.Gate {
		return err
	}
	return p.serve(ctx)
}

// wait returns when the contender is admitted and that is proven. The first at a gate needs no proof, because it holds
// nothing yet: the transaction that takes the permits deletes the place, and fails if the place or its session is gone.
func (p *place) wait(ctx context.Context) error {
	defer p.forget()
	var children []string
	if p.lists != nil {
		children, p.lists = p.lists[0], nil // not for as long as it waits: it may be long
	}
	for missing := false; ; children = nil {
		if children == nil {
			var err error
			if children, err = p.list(ctx); err != nil {
				return err
			}
		}
		var v verdict
		err := v.decide(p.in, p.d.params, children, p.node().name)
		if err == nil {
			p.total = v.total
		}
		switch {
		case err != nil && missing:
			return lostError(p.node().path, err)
		case err != nil:
			missing = true
			continue
		case !v.granted:
			if err := p.ahead(p.node().dir, &v); err != nil {
				return err
			}
			first, err := p.wayClear(ctx, &v)
			if err != nil {
				return err
			}
			if !first {
				continue
			}
			p.proven, p.waited = false, true // what made us the first is newer than what was proven before
		}
		if p.in.Gate {
			return nil
		}
		if done, err := p.prove(ctx); done || err != nil {
			return err
		}
	}
}

// list reads the queue again. Where a write will be needed (see prove) it goes with the listing, in one round trip.
func (p *place) list(ctx context.Context) (children []string, err error) {
	k := p.node()
	p.proven, p.waited = false, true
	if p.own != nil && !p.silent() { // a listing has its name, and does not say whose it is by now
		p.unwatch()
		if err := p.readOwn(ctx); err != nil {
			return nil, p.timedOut(ctx, err)
		}
	}
	if !p.in.Gate && !p.permits() && p.named() && !p.vouched() {
		err = retry(ctx, p.s, unanswered, func() error {
			b := p.s.Batch()
			check, list := b.Multi(&zk.CheckVersionRequest{Path: k.path, Version: -1}), b.List(k.dir)
			if err := cmp.Or(b.Send(ctx), check.Wait(ctx)); err != nil {
				return err
			}
			if p.proven = true; list.Wait(ctx) == nil {
				children = list.Names()
			}
			return nil
		})
		switch {
		case isNoNode(err):
			return nil, lostError(k.path, nil)
		case errors.Is(err, zk.ErrNoAuth): // we may read the queue but not our own node
			p.hidden = true
		case err != nil:
			return nil, p.timedOut(ctx, err)
		}
	}
	if children == nil { // a later listing is of a later state: servers never go back in one session
		switch children, err = listChildren(ctx, p.s, k.dir); {
		case isNoNode(err): // our node went before its parent
			return nil, lostError(k.path, err)
		case err != nil:
			return nil, p.timedOut(ctx, err)
		}
	}
	return children, nil
}

// ahead records who is ahead. It refuses a Try, a queue that is full, and a request that can never be granted.
func (p *place) ahead(dir string, v *verdict) error {
	if err := p.possible(); err != nil {
		return err
	}
	p.position = v.position
	// About the same holder we may know more by now than its name.
	if p.holder == nil || p.holder.Name != v.first.Name {
		p.holder = &rival{Contender: *v.first, dir: dir}
	}
	v.first = nil // it keeps the whole line
	if p.a.try {
		return p.held()
	}
	// Only on arrival: a waiter stays when the bound is lowered, or when somebody appears ahead.
	if !p.queued && p.d.waiters > 0 && v.waiters >= p.d.waiters {
		return fmt.Errorf("%w: %d contenders wait for %s, max_waiters is %d", ErrQueueFull, v.waiters, p.q.path, p.d.waiters)
	}
	p.tellLocal()
	p.queued = true
	p.a.waits(p.node().path, p.held)
	return nil
}

// held says who is in the way.
func (p *place) held() *HeldError {
	held := &HeldError{Path: p.q.path, Position: p.position, c: p.q.c}
	if p.holder != nil {
		held.Holder = p.holder.contender()
	}
	return held.described()
}

// timedOut turns an error into a HeldError if ctx has ended.
func (p *place) timedOut(ctx context.Context, err error) error {
	if ctx.Err() == nil || p.a == nil {
		return err
	}
	held := p.held()
	held.Waited, held.Cause = time.Since(p.a.start), whyEnded(ctx)
	return held
}

// tellLocal tells the goroutines of this client that wait behind us who holds the lock.
func (p *place) tellLocal() {
	if !p.a.set && len(p.a.tickets) > 0 {
		p.q.c.state.waitsFor(p.q.localKey(), p.holder, p.position)
	}
}

// says records what the holder says about itself. Only the error of a wait that ends needs it, and reads it then. Goroutines that
// wait behind us make errors of the same holder.
func (p *place) says(data []byte) {
	st := &p.q.c.state
	st.mu.Lock()
	defer st.mu.Unlock()
	p.holder.data = data
}

// rival is a contender ahead of us, as far as it is known.
type rival struct {
	kind.Contender
	dir  string
	data []byte // what it says about itself; nil until it is read
}

func (r *rival) path() string { return kind.JoinPath(r.dir, r.Name) }

func (r *rival) contender() Contender {
	c := inspect.NewContender(r.dir, r.Contender, nil, nil)
	c.Data = r.data
	return c
}
