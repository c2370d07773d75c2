package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// A wait is nested if its caller holds something meanwhile: if its context comes from leases. Only such waits can close a circle, in
// which all wait for each other for ever (but see MultiLock). When one has lasted for a second, it is said in the nodes of those
// leases for what it waits (kind.Holder), and the call looks along the chain: the queue that it waits in, those of what it holds, and those
// that the contenders there say their holders wait in. inspect.FindCircle judges what it has read.
//
// One wait of a circle ends: the one whose place is the youngest. Everybody in the circle who has read the same comes to the same
// conclusion, so no two end for one circle; and only that one acts, after it has looked again behind a sync and found that nothing had
// happened to anybody in it. Usually it is the wait that closed the circle, because its place was created last; all others
// have told of theirs by then. What is not seen yet is seen at the next look.
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

// program are the nested waits of one program that count. Its clients know of each other's without a request, of those also that
// cannot be told in a node.
type program struct {
	mu    sync.Mutex
	waits map[*nested]struct{}
}

var thisProgram = &program{waits: map[*nested]struct{}{}}

// program is the one that the client is of.
func (st *clientState) program() *program { return cmp.Or(st.other, thisProgram) }

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

// deadlock is why the wait has ended, if that is one.
func (n *nested) deadlock() error {
	var found *DeadlockError
	if errors.As(context.Cause(n.ctx), &found) {
		return found
	}
	return nil
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
	timer := time.NewTimer(0)
	defer timer.Stop()
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
		}
		// The threads of a foreign client get their second too.
		if n.ends(circle) && (!circle.Guessed || begun.Sub(since) >= patience) && n.again(circle, read) {
			n.end(&DeadlockError{Circle: circle.Steps})
			return
		}
		timer.Reset(min(pause, n.leases[0].h.e.s.Timeout()))
		select {
		case <-timer.C:
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

func (p *program) all() []*nested {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.waits))
}

// waits is what is said of the wait.
func (n *nested) waits() (all []kind.Wait) {
	n.mu.Lock()
	places := slices.Collect(maps.Values(n.places))
	for _, at := range places {
		n.lives = n.lives || at.behind
	}
	n.mu.Unlock()
	for _, at := range places {
		if at.node == "" {
			at.node, at.token = at.q.standsFor()
		}
		if at.node != "" {
			all = append(all, kind.Wait{Lock: at.q.path, Node: at.node, Token: uint64(at.token), Behind: at.behind})
		}
	}
	return all
}

// standsFor is the contender that this client has in the queue; "" if there is none.
func (q *queue) standsFor() (path string, czxid int64) {
	st := &q.c.state
	st.mu.Lock()
	e := st.epoch
	st.mu.Unlock()
	if e == nil {
		return "", 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for k, path := range e.nodes {
		of, _ := kind.ParseContender(k.name)
		if path != "" && of.Shared == q.shared && (k.dir == q.entrance().Dir(q.path) || k.dir == q.dir()) {
			return path, k.czxid
		}
	}
	return "", 0
}

// told are the waits, by the contender that those hold who wait.
func (p *program) told() map[string][]claim {
	all := map[string][]claim{}
	for _, n := range p.all() {
		waits := n.waits()
		for _, l := range n.leases {
			if l.ended() != nil {
				continue
			}
			for _, k := range l.h.speakers() {
				for _, w := range waits {
					all[k.path] = append(all[k.path], claim{w, n.c})
				}
			}
		}
	}
	return all
}

// claim is a wait, and the client that waits.
type claim struct {
	kind.Wait
	c *Client
}

// tell says in the nodes of the leases for what those wait who hold them. What fails is said at the next look.
func (n *nested) tell() {
	for _, l := range n.leases {
		_ = l.h.tell(n.ctx)
	}
}

// untell takes back what would be true no more: that somebody waits for a contender that is another's. A place of the call's own goes with
// the call, or was granted. It does not wait long for servers that do not answer.
func (n *nested) untell() {
	n.mu.Lock()
	lives := n.lives
	n.mu.Unlock()
	for _, l := range n.leases {
		if lives {
			timer := time.NewTimer(l.h.e.s.Timeout() / 6)
			select {
			case <-l.h.retell():
			case <-timer.C:
			}
			timer.Stop()
		}
	}
}

// speakers are the contenders that tell: of a set that of each lock, of permits the first.
func (h *holding) speakers() []*contender {
	if h.members != nil {
		return h.ks
	}
	return h.ks[:1]
}

// tell writes what is said into the nodes, unless that is said already. Candidates' nodes, and those with kazoo's names, say nothing:
// their form is other libraries'.
func (h *holding) tell(ctx context.Context) error {
	h.mu.Lock()
	if h.telling == nil {
		h.telling = make(chan struct{}, 1)
	}
	telling := h.telling
	h.mu.Unlock()
	select {
	case telling <- struct{}{}: // else what one has found out earlier could be written later
		defer func() { <-telling }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var says []kind.Wait
	for _, c := range h.q.c.state.program().told()[h.ks[0].path] {
		says = append(says, c.Wait)
	}
	slices.SortFunc(says, func(a, b kind.Wait) int { return cmp.Compare(a.Node, b.Node) })
	says = says[:min(len(says), kind.MaxWaits)]
	h.mu.Lock()
	speaks := h.state == held && !slices.Equal(h.says, says)
	h.told = h.told || speaks
	h.mu.Unlock()
	if !speaks {
		return nil
	}
	var err error
	for i, k := range h.speakers() {
		if strings.HasPrefix(k.prefix, "_c_") && !h.locks()[i].decides().Plain {
			err = cmp.Or(k.tell(ctx, says), err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.says = says; err != nil {
		h.says = unknown // the next one tells again
	}
	return err
}

// retell says anew for what those wait who hold it, when somebody waits no more or has given a lease back, however long the servers
// do not answer. The channel is closed when it is said, or does not matter any more.
func (h *holding) retell() <-chan struct{} {
	done := make(chan struct{})
	h.mu.Lock()
	begun := h.telling != nil
	h.mu.Unlock()
	if !begun { // whoever tells later finds out later
		close(done)
		return done
	}
	h.q.c.state.spawn(func() {
		defer close(done)
		_ = retry(context.Background(), h.e.s, unwritten, func() error { return h.tell(context.Background()) }) // it fails if the node has gone
	})
	return done
}

// tell writes it into the node, guarded by its version: a grant's mark, and a request to step back, are not overwritten.
func (k *contender) tell(ctx context.Context, says []kind.Wait) error {
	data, stat, err := k.e.s.Get(ctx, k.path)
	if err != nil || stat.EphemeralOwner != k.e.s.ID() {
		return err
	}
	said, ok := kind.ParseHolder(data)
	if !ok {
		return nil
	}
	said.Waits = says
	_, err = k.e.s.Set(ctx, k.path, said.Encode(), stat.Version)
	return err
}

// unknown is what a node says if that is not known.
var unknown = []kind.Wait{{}}

// DeadlockError is the error of a wait that closed a circle. It matches ErrDeadlock.
type DeadlockError struct {
	// Circle is everybody in it; the first is the caller.
	Circle inspect.Deadlock
}

// Error names who is in the circle, what each holds and waits for, and since when.
func (e *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString(ErrDeadlock.Error() + ": ")
	for _, s := range e.Circle {
		verb := "holds"
		if s.Ahead {
			verb = "is ahead in"
		}
		fmt.Fprintf(&b, "%s %s %s%s and waits for %s%s; ", s.Who, verb, s.Holds, at(s.Held), s.Waits, at(s.Since))
	}
	b.WriteString("the first wait was ended: give back what its caller holds, and take all again, or together with a MultiLock")
	return b.String()
}

// Unwrap returns ErrDeadlock.
func (e *DeadlockError) Unwrap() error { return ErrDeadlock }

func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " (since " + t.UTC().Format("15:04:05.000Z") + ")"
}
