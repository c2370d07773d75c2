package recipes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes/inspect"
)

// A wait is nested if its caller holds something meanwhile: if its context comes from leases. Only such waits can close a circle, in
// which all wait for each other for ever (but see MultiLock). When one has lasted for a second, it is said in the nodes of those
// leases for what it waits (kind.Holder), and the call looks along the chain: the queue that it waits in, those of what it holds, and those
// that the contenders there say their holders wait in. inspect.FindCircle judges what it has read.
//
// One wait of a circle ends: of those whose callers see the circle (see inspect.Circle), the one whose place is the youngest. Everybody
// in the circle who has read the same comes to the same conclusion, so no two end for one circle; and only that one acts, after it has
// looked again behind a sync and found that nothing had happened to anybody in it. Usually it is the wait that closed the circle, because
// its place was created last; all others have told of theirs by then. What is not seen yet is seen at the next look.
//
// A circle that is seen twice like that is one. All that is in it existed at both looks and was not written to, so its waits lasted from
// the first look to the second, and whoever holds something there said at the first look that it waited. A wait ends only by a grant, for
// which somebody ahead must go, or by its caller, which deletes the place: no other goroutine inherits it (see acquisition.giveUp). What is
// said of a lease means nothing any more once the place has gone or was granted, so it need not be taken back, except where the place is
// another's (see nested.untell).

const (
	// patience is how long a nested wait lasts before it counts.
	patience = time.Second
	// What one look reads at most: so many locks, and of each queue so many contenders. With the declarations, and the families of keys,
	// a look of a circle of two takes about ten requests.
	mostLocks, mostContenders = 16, 16
)

// nested is a nested wait. All methods may be called on nil, which is one that is not.
type nested struct {
	c      *Client
	leases []*Lease // that its caller's context comes from
	ctx    context.Context
	end    context.CancelCauseFunc
	kick   chan struct{} // of capacity 1: another one has seen that this one is to end
	over   chan struct{} // closed when nothing is said of it any more

	mu      sync.Mutex
	counted bool        // it has lasted for so long
	lives   bool        // it may be said of a contender that outlasts the wait
	timer   *time.Timer // nil until it has to wait
	places  map[string]standing
}

// standing is where a nested wait stands, in one queue.
type standing struct {
	q      *queue
	node   string // the contender that waits; "" for that of this client in the queue, whosever it is
	token  int64  // its czxid; 0 if it is not known
	behind bool   // it is another's
}

// nest makes the call's wait a nested one, if its caller holds something.
func (a *acquisition) nest(ctx context.Context) {
	for _, m := range a.members {
		if m.q.opts.lasting {
			return
		}
	}
	leases := leasesOf(ctx)
	if len(leases) == 0 {
		return
	}
	n := &nested{c: a.c, leases: leases, kick: make(chan struct{}, 1), over: make(chan struct{}), places: map[string]standing{}}
	n.ctx, n.end = context.WithCancelCause(a.wait)
	done := a.done
	a.nested, a.wait = n, n.ctx
	a.done = func() {
		n.finish()
		if done != nil {
			done()
		}
	}
}

// finish ends the looking.
func (n *nested) finish() {
	n.end(nil)
	n.mu.Lock()
	clear(n.places)
	watched, lives := n.timer != nil && !n.timer.Stop(), n.lives
	n.mu.Unlock()
	if watched && lives { // what is said would be said of nobody, or of another's wait
		<-n.over
	}
}

// counts reports whether the wait has lasted so long that it is said in a node, perhaps for a moment longer than it lasts.
func (n *nested) counts() bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counted
}

// at says that the call waits in a queue of ZooKeeper's.
func (n *nested) at(w *waiter) {
	if n != nil {
		token := w.node().czxid
		if token == 0 {
			token = w.own.czxid
		}
		n.stands(standing{q: w.q, node: w.node().path, token: token}, w.a.set)
	}
}

// behind says that the call waits for a contender that is not its own: that at path, or the one that its client has in the queue.
func (n *nested) behind(q *queue, path string, token int64) {
	if n != nil {
		n.stands(standing{q: q, node: path, token: token, behind: true}, false)
	}
}

// stands notes the place. A set has others beside it.
func (n *nested) stands(at standing, set bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.places, func(_ string, was standing) bool { return !set || was.behind })
	n.places[at.q.path] = at
	if n.timer == nil && n.ctx.Err() == nil {
		n.timer = time.AfterFunc(patience, func() { n.c.state.spawn(n.watch) })
	}
}

// goesOn says that the call waits no more for what behind has said.
func (n *nested) goesOn() {
	if n != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		clear(n.places)
	}
}

// watch looks for a circle until the wait is over.
func (n *nested) watch() {
	n.mu.Lock()
	n.counted = true
	n.mu.Unlock()
	p := n.c.state.program()
	p.mu.Lock()
	p.waits[n] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.waits, n)
		p.mu.Unlock()
		n.untell()
		close(n.over)
	}()
	var seen *inspect.Circle // of which this one is to end
	var since time.Time
	for pause := patience / 4; n.ctx.Err() == nil; pause *= 2 {
		n.tell()
		begun := time.Now()
		circle, read := n.look(nil)
		switch {
		case circle == nil:
		case !n.ends(circle):
			seen = nil
			n.pass(circle)
		case !circle.Same(seen):
			seen, since = circle, begun
			pause = min(pause, patience) // in which it is to be seen
		}
		// The threads of a foreign client get their second too.
		if n.ends(circle) && (!circle.Guessed || begun.Sub(since) >= patience) && n.again(circle, read) {
			n.end(&DeadlockError{Circle: circle.Steps})
			return
		}
		select {
		case <-time.After(min(pause, n.leases[0].h.e.s.Timeout())):
		case <-n.kick:
			pause = patience / 4
		case <-n.ctx.Done():
		}
	}
}

// ends reports whether this is the wait that the circle ends.
func (n *nested) ends(circle *inspect.Circle) bool {
	if circle == nil {
		return false
	}
	mine := false
	for _, w := range n.waits() {
		mine = mine || w.Node == circle.Ends.Node
	}
	return mine && slices.ContainsFunc(n.leases, func(l *Lease) bool {
		return l.ended() == nil && slices.ContainsFunc(l.h.speakers(), func(k *contender) bool { return k.path == circle.Holds.Path })
	})
}

// pass tells the wait of this program that the circle ends.
func (n *nested) pass(circle *inspect.Circle) {
	for _, other := range n.c.state.program().all() {
		if other != n && other.ends(circle) {
			select {
			case other.kick <- struct{}{}:
			default:
			}
		}
	}
}

// DeadlockError is the error of a wait that closed a circle. It matches ErrDeadlock.
type DeadlockError struct {
	// Circle is everybody in it; the first is the caller.
	Circle inspect.Deadlock
}

// Error names who is in the circle, what each holds and waits for, and since when.
func (e *DeadlockError) Error() string {
	return fmt.Sprintf("recipes: %v; the first wait was ended: give back what its caller holds, and take all again, or together with a MultiLock", e.Circle)
}

// Unwrap returns ErrDeadlock.
func (e *DeadlockError) Unwrap() error { return ErrDeadlock }
