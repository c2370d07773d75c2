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
	seen    func(int64)     // of a holder's place: takes czxid, or 0 where it may not be read
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
