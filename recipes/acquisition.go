package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/wait"

	"github.com/locktree/locktree/recipes/internal/turn"
	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/locktree/locktree/recipes/internal/session"
)

// member is one of the locks that an acquisition takes.
type member struct {
	q *queue
	n int // permits wanted; 0 where the kind has none
}

// acquisition is one call that takes a lock, or several in one transaction: an entry for each.
type acquisition struct {
	c       *Client
	path    string // of the lock; of a set, of all its members
	members []member
	set     bool // a MultiLock's
	try     bool
	start   time.Time
	call    *call
	wait    context.Context    // the caller's, bounded
	done    context.CancelFunc // of the bound; nil if there is none

	tickets []string          // of the local queues, by key
	entries []*wait.Place     // whose nodes exist, or may
	undone  []<-chan struct{} // each is closed when something that we asked for and left is undone
	e       *epoch            // of the newest try
	asking  chan struct{}     // of the crowd that it is one of; see terms.ask
}

func (q *queue) acquisition(ctx context.Context, n int, try bool) *acquisition {
	m := member{q, n}
	return &acquisition{c: q.c, path: q.Path, members: []member{m}, try: try, start: time.Now(), call: q.c.call(ctx, q.Path, m)}
}

// lock takes the lock, or n permits of a semaphore. It waits unless try.
func (q *queue) lock(ctx context.Context, n int, try bool) (*Lease, error) {
	a := q.acquisition(ctx, n, try)
	if err := a.begun(ctx); err != nil {
		return a.conclude(ctx, nil, err)
	}
	u, err := a.follow(a.wait, a.take)
	return a.conclude(ctx, u, err)
}

// conclude completes what the call returns, and tells the Observer of a refusal.
func (a *acquisition) conclude(ctx context.Context, u *held.Use, err error) (*Lease, error) {
	if a.done != nil {
		defer a.done()
	}
	if err != nil {
		err = a.explain(ctx, err)
		a.refused(err)
		return nil, err
	}
	u.Caller = ctx
	return &Lease{u}, nil
}

// begun refuses what cannot succeed, before anything is sent. Else it bounds the wait: of a Try by what is known of the servers,
// of another call by WithMaxWait.
func (a *acquisition) begun(ctx context.Context) error {
	if a.wait = ctx; a.try {
		a.wait, a.done = a.c.conn.WhileReachable(ctx)
	}
	most := time.Duration(0)
	for _, m := range a.members {
		most = shorter(most, m.q.opts.maxWait)
	}
	if most > 0 && !a.try {
		a.wait, a.done = context.WithTimeoutCause(ctx, most, fmt.Errorf("%w: WithMaxWait(%v)", context.DeadlineExceeded, most))
	}
	if ctx.Err() != nil {
		return a.ended(ctx)
	}
	for _, m := range a.members {
		if m.q.Wrong != nil {
			return m.q.Wrong
		}
		if m.q.Kind.Permits != nil && m.n < 1 {
			return fmt.Errorf("recipes: semaphore %s: %d permits asked for, at least 1 is needed", m.q.Path, m.n)
		}
	}
	return nil
}

// explain tells an outage from contention: the error of a call that ends while the session is not active says so. A
// goroutine of this client that asks for the lock is then no proof that it is held.
func (a *acquisition) explain(ctx context.Context, err error) error {
	var held *HeldError
	known := errors.As(err, &held) && (!held.Local || held.owner == turn.Holds)
	ended := a.wait.Err() != nil && errors.Is(err, a.wait.Err())
	switch {
	case a.try && ended && ctx.Err() == nil:
		return fmt.Errorf("recipes: lock %s: %w", a.path, context.Cause(a.wait))
	case errors.Is(err, ErrUnreachable), errors.Is(err, ErrClosed), a.c.conn.Newest().State() == session.StateActive:
		return err
	case held != nil && !known:
		return fmt.Errorf("%w: %v%.0w", ErrUnreachable, held, cmp.Or(held.Cause, ErrUnreachable))
	case ended:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

func (a *acquisition) take(ctx context.Context) (*held.Use, error) {
	q, n := a.members[0].q, a.members[0].n
	if err := a.c.state.decl.Elsewhere(&q.Name); err != nil {
		return nil, err
	}
	// Before the local queue, in which the caller's own lease is ahead.
	if l, err := a.reenter(ctx, q, n); l != nil || err != nil {
		return l, err
	}
	if err := a.inOrder(ctx); err != nil {
		return nil, err
	}
	var h *held.Use
	var err error
	if q.Kind.Permits != nil {
		h, err = a.permits(ctx)
	} else {
		var t *place
		if t, err = a.enter(ctx, q); err != nil {
			return nil, err
		}
		h, err = a.contend(ctx, t)
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// ended is the error of a call whose ctx has ended before there was anybody to wait for.
func (a *acquisition) ended(ctx context.Context) error {
	return fmt.Errorf("recipes: lock %s: %w", a.path, znode.WhyEnded(ctx))
}

// enter waits in the local queue of q. A Try for an exclusive lock is refused without a request while another goroutine has
// the ticket: that goroutine holds the lock or is ahead of us.
//
// Readers need no ticket: they wait only for what others have given up and is not undone; see clientState.keepOut.
func (a *acquisition) enter(ctx context.Context, q *queue) (*place, error) {
	if q.Shared {
		if ahead := a.c.state.turns.Owner(ctx, q.localKey()); ahead != nil && ahead.Ended {
			return nil, a.heldLocally(ctx, q, ahead)
		}
		return nil, nil
	}
	var waits func(*turn.Ahead)
	if a.call != nil {
		waits = func(ahead *turn.Ahead) {
			a.queued("", func() *HeldError { return a.heldLocally(ctx, q, ahead) })
		}
	}
	t, ahead := a.c.state.turns.Enter(ctx, q.localKey(), q.Id, a.try, !a.set, waits)
	if ahead != nil {
		return t, a.heldLocally(ctx, q, ahead)
	}
	a.tickets = append(a.tickets, q.localKey())
	return t, nil
}

// heldLocally is the error of a call that others of this client are ahead of.
func (a *acquisition) heldLocally(ctx context.Context, q *queue, ahead *turn.Ahead) *HeldError {
	held := &HeldError{Path: q.Path, Position: ahead.Position, c: a.c, at: ahead.At}
	if ahead.Holder != nil {
		held.Holder = *ahead.Holder
	} else {
		held.Holder, held.Local, held.owner = Contender{ID: ahead.ID, Host: znode.Hostname(), PID: os.Getpid()}, true, ahead.State
	}
	if ahead.Ended {
		held.Cause, held.Waited = znode.WhyEnded(ctx), time.Since(a.start)
	}
	return held.described()
}

// place is in the queue already: made for whoever has the turn next by who had it last.
type place struct {
	k        *znode.Node
	children []string // the queue as of k's creation, or nil
}

// contend queues until granted. On an error the ticket has been passed on and the contender is gone or going.
func (a *acquisition) contend(ctx context.Context, t *place) (h *held.Use, err error) {
	for try := (znode.Tries{}); ; t = nil { // what was inherited is used up, or went with its session
		h, err = a.once(ctx, t)
		switch {
		case err == nil:
			return h, nil
		case len(a.entries)+len(a.undone) > 0 || try.Over(ctx, nil, znode.DidNothing, &err): // never while a place exists: giveUp deletes it, or passes it on
			return nil, a.giveUp(ctx, err)
		}
	}
}

// once is one try, in one session. It is for acquisitions of one lock.
func (a *acquisition) once(ctx context.Context, t *place) (*held.Use, error) {
	arrived, err := a.arrive(ctx, t)
	if err != nil {
		return nil, err
	}
	w := arrived.Waiter()
	defer w.End()
	g, err := w.Reach(ctx, arrived.lists)
	if err != nil {
		return nil, err
	}
	return a.hold(ctx, g)
}

// arrive queues, or takes over the place that came with the ticket.
func (a *acquisition) arrive(ctx context.Context, t *place) (arrival, error) {
	var inherited *znode.Node
	if t != nil {
		inherited = t.k
	}
	all, err := a.open(ctx, inherited)
	if err != nil {
		return arrival{}, err
	}
	if len(a.entries) > 0 { // inherited
		e := a.entries[0]
		if t.children == nil {
			return arrival{Place: e}, e.Exhausted()
		}
		return arrival{e, [][]string{t.children}}, e.Exhausted() // it was listed behind a create of this session
	}
	own := &all[0]
	e, err := own.Entry(own.Q.Entrance())
	if err != nil {
		return arrival{}, err
	}
	arrived, err := a.join(ctx, e)
	if err != nil {
		return arrival{}, err
	}
	return arrived[0], e.Exhausted()
}

// open finds the session, and the declaration of each member. Only a place that is inherited has a node yet.
func (a *acquisition) open(ctx context.Context, inherited *znode.Node) ([]wait.Opened, error) {
	a.entries = nil
	all := make([]wait.Opened, len(a.members))
	for i, m := range a.members {
		all[i] = wait.Opened{Q: &m.q.Handle, N: m.n, Up: a, Try: a.try, Many: a.c.state.crowd}
	}
	if inherited != nil {
		a.entries = []*wait.Place{{Opened: &all[0], In: all[0].Q.Entrance(), Nodes: []*znode.Node{inherited}}}
	}
	if ctx.Err() != nil {
		return nil, a.ended(ctx)
	}
	e, err := a.c.epoch(ctx)
	if err != nil {
		return nil, err
	}
	a.e = e
	if inherited != nil && inherited.E != e.Session { // it went with its session
		a.entries = nil
	}
	for i := range all {
		t := &all[i]
		t.S, t.Decl = e.Session, e.decl
		if t.D, err = e.decl.Of(ctx, &t.Q.Name); err != nil {
			if len(a.entries) == 0 {
				err = znode.NotQueued(err) // reads are all there was so far
			}
			return nil, err
		}
		if err := t.Possible(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// join creates the nodes of the entries in one transaction, and lists the queues behind it: one round trip. When it succeeds they
// are the acquisition's.
func (a *acquisition) join(ctx context.Context, entries ...*wait.Place) ([]arrival, error) {
	t := &znode.Txn{E: entries[0].S, Born: entries[0].Nodes}
	var dirs []string
	for i, e := range entries {
		if i > 0 {
			t.Born = append(slices.Clip(t.Born), e.Nodes...)
		}
		if !a.crowded(e) {
			dirs = append(dirs, e.Dirs()...)
		}
		if n := e.Key(); n != nil {
			t.Keys = append(t.Keys, n)
		}
	}
	lists, err := t.RunKeyed(ctx, dirs...)
	if t.Left != nil {
		a.undone = append(a.undone, t.Left)
	}
	for _, e := range entries {
		err = e.Q.Complete(ctx, e.S.S, err) // the first that may be completed; the next try finds what else is missing
	}
	if err = a.reread(ctx, entries, err); err != nil {
		return nil, a.halfMade(err)
	}
	a.entries = entries
	if err := t.Admits(ctx); err != nil {
		return nil, err
	}
	arrived := make([]arrival, len(entries))
	for i, e := range entries {
		arrived[i].Place = e
		if n := len(e.Dirs()); n <= len(lists) { // else they were lost with their connection, or others list for it
			arrived[i].lists, lists = lists[:n], lists[n:]
		}
	}
	return arrived, nil
}

// halfMade says what a NoNode for a queue means.
func (a *acquisition) halfMade(err error) error {
	if !znode.IsNoNode(err) {
		return err
	}
	return fmt.Errorf("%w: %s, or a child that its layout needs, does not exist; run apply: %w", ErrNotProvisioned, a.path, err)
}

// nodes are our contenders.
func (a *acquisition) nodes() (ks []*znode.Node) {
	for _, e := range a.entries {
		ks = append(ks, e.Nodes...)
	}
	return ks
}

// hold makes a lock of what is granted: the session heartbeats from here on.
func (a *acquisition) hold(ctx context.Context, g wait.Grant) (*held.Use, error) {
	first := g.Entries[0]
	b := &about{path: a.path, q: a.members[0].q, d: first.D}
	for _, e := range g.Entries {
		b.places = ordersOf(e.Opened, b.places)
	}
	if a.set {
		for _, m := range a.members {
			b.members = append(b.members, m.q)
		}
	}
	t := &turns{c: a.c, set: a.set, of: first.Opened}
	if a.set || first.N == 0 && !first.Q.Shared { // others may hold permits too
		t.keys = a.tickets
	}
	nodes := a.nodes()
	told := &tenure{q: b.q, call: a.call, wait: time.Since(a.start), node: nodes[0].Path, session: a.e.S.ID()}
	return held.Hold(ctx, held.Grant{Path: a.path, Keys: b.keys(), S: a.e.Session, Nodes: nodes, Turns: t, Token: g.Czxid, About: b}, told)
}

// turns are the goroutines of this client that wait behind a lock that is held.
type turns struct {
	c    *Client
	keys []string // of their queues; readers and permits have none
	set  bool
	of   *wait.Opened
}

func (t *turns) each(f func(key string)) {
	for _, key := range t.keys {
		f(key)
	}
}

func (t *turns) Granted() { t.each(t.c.state.turns.Granted) }
func (t *turns) Leaving() { t.each(t.c.state.turns.Leaving) }
func (t *turns) Free()    { t.each(t.c.state.turns.Leave) }

// Next is for who waits for one lock: a place in a set would be of another transaction than the set's.
func (t *turns) Next() *znode.Node {
	if t.set || len(t.keys) == 0 {
		return nil
	}
	id, waits := t.c.state.turns.Next(t.keys[0])
	if !waits {
		return nil
	}
	k, err := t.of.Q.Contender(t.of.S, t.of.D, t.of.Q.Decides(), znode.HolderSelf(id))
	if err != nil {
		return nil
	}
	return k
}

func (t *turns) HandOver(k *znode.Node, queue []string) bool {
	return t.c.state.turns.HandOver(t.keys[0], &place{k, queue})
}

// giveUp leaves the queues. The nodes are deleted in the background, and the tickets are passed on after that, so that no goroutine of this client meets the nodes as rivals. That
// includes nodes that may or may not exist: callers that give up before the network answers leave one behind at most.
func (a *acquisition) giveUp(ctx context.Context, err error) error {
	st, tickets, nodes, left := &a.c.state, a.tickets, a.nodes(), a.undone
	a.tickets, a.entries, a.undone = nil, nil, nil
	for _, key := range tickets {
		st.turns.Leaving(key)
	}
	for _, m := range a.members {
		if key := m.q.localKey(); len(left) > 0 && st.turns.KeepOut(key) { // where no ticket is needed
			st.whenLeft(left, func() { st.turns.Leave(key) })
		}
	}
	a.c.state.LeaveBehind(ctx, nodes, func() {
		st.whenLeft(left, func() {
			for _, key := range tickets {
				st.turns.Leave(key)
			}
		})
	})
	return err
}

// whenLeft calls f when all that is left is undone: at once, if there is nothing to wait for.
func (st *clientState) whenLeft(left []<-chan struct{}, f func()) {
	if len(left) == 0 {
		f()
		return
	}
	st.Spawn(func() {
		for _, each := range left {
			<-each
		}
		f()
	})
}

// What a wait tells and asks: see listener.

// ahead tells the goroutines of this client that wait behind us who holds the lock.
func (a *acquisition) Ahead(t *wait.Opened) {
	if q := a.members[0].q; !a.set && len(a.tickets) > 0 {
		holder := t.Holder.Party()
		a.c.state.turns.WaitsFor(q.localKey(), &holder, t.Position)
	}
}

func (a *acquisition) Waits(t *wait.Opened, node string) {
	a.queued(node, func() *HeldError { return a.heldError(t) })
}

func (a *acquisition) Held(t *wait.Opened) error { return a.heldError(t) }

// heldError says who is in the way.
func (a *acquisition) heldError(t *wait.Opened) *HeldError {
	held := &HeldError{Path: t.Q.Path, Position: t.Position, c: a.c, at: time.Now()}
	if t.Holder != nil {
		held.Holder = t.Holder.Party()
	}
	return held.described()
}

func (a *acquisition) TimedOut(t *wait.Opened, cause error) error {
	held := a.heldError(t)
	held.Waited, held.Cause = time.Since(a.start), cause
	return held
}

func (a *acquisition) Left(undone <-chan struct{}) {
	a.undone, a.entries = append(a.undone, undone), nil
}

func (a *acquisition) GoesOn(e *wait.Place) { a.entries = []*wait.Place{e} }

// arrival is an entry with the listings of its queues (see dirs) behind the transaction that made it.
type arrival struct {
	*wait.Place
	lists [][]string // nil where they were lost with their connection, or others list for it
}
