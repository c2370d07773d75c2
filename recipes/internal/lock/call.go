package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/turn"
	"github.com/locktree/locktree/recipes/internal/wait"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// Member is one of the locks that a call takes.
type Member struct {
	Handle  *Handle
	Permits int // the permits wanted; 0 if the kind has none
}

// NewCall makes a call that takes the members: several if set is true, otherwise one.
func (st *Client) NewCall(ctx context.Context, set, try bool, up caller, members ...Member) *Call {
	a := &Call{c: st, set: set, Try: try, start: time.Now(), caller: up, ticket: turn.Ticket[Handover]{Turns: &st.Turns}}
	a.want(append(a.one[:0], members...))
	return a
}

// Do takes the locks. The caller explains its error.
func (a *Call) Do(ctx context.Context) (*held.Use, error) {
	a.Wait = ctx
	most := time.Duration(0)
	for _, m := range a.members { // calls that cannot succeed are refused before anything is sent
		if m.Handle.Wrong != nil {
			return nil, m.Handle.Wrong
		}
		if m.Handle.Kind.Permits != nil && m.Permits < 1 {
			return nil, fmt.Errorf("recipes: semaphore %s: %d permits asked for, at least 1 is needed", m.Handle.Path, m.Permits)
		}
		most = Shorter(most, m.Handle.MaxWait)
	}
	switch {
	case ctx.Err() != nil:
		return nil, a.endedError(ctx)
	case a.Try: // the context of a Try also ends when no server can be reached
		a.Wait, a.done = a.c.Conn.WhileReachable(ctx)
	case most > 0:
		a.Wait, a.done = context.WithTimeoutCause(ctx, most, fmt.Errorf("%w: WithMaxWait(%v)", context.DeadlineExceeded, most))
	}
	if a.set {
		return a.follow(a.Wait, a.takeAll)
	}
	return a.follow(a.Wait, a.take)
}

// End releases the context that bounds the wait.
func (a *Call) End() {
	if a.done != nil {
		a.done()
	}
}

// Call is one call that takes a lock, or several locks. For several locks, one transaction creates a place in each queue.
type Call struct {
	c       *Client
	Path    string // the path of the lock; for a set, the paths of all members
	members []Member
	set     bool // the call is a MultiLock's
	Try     bool
	start   time.Time
	caller  caller
	Wait    context.Context    // the caller's context with the bound of the wait
	done    context.CancelFunc // ends the context Wait; nil if that is the caller's context

	one    [1]Member // the array behind members when the call takes one lock
	ticket turn.Ticket[Handover]
	places []*wait.Place     // the places whose nodes exist, or may exist
	undone []<-chan struct{} // each is closed when an abandoned request of ours is undone
	state  *SessionState     // of the session that the newest try uses
	asking chan struct{}     // the channel that holds an element for this call (crowd.asking in permits.go); nil if none does
}

func (a *Call) take(ctx context.Context) (*held.Use, error) {
	q, n := a.members[0].Handle, a.members[0].Permits
	if err := a.c.Decl.Elsewhere(&q.Name); err != nil {
		return nil, err
	}
	// Check this before the call joins the local queue: there the call would wait behind the caller's own lease.
	if l, err := a.reenter(ctx, q, n); l != nil || err != nil {
		return l, err
	}
	if err := a.inOrder(ctx); err != nil {
		return nil, err
	}
	if q.Kind.Permits != nil {
		return a.takePermits(ctx)
	}
	t, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	return a.contend(ctx, t)
}

// endedError returns the error of a call whose ctx ended before the call knew a contender ahead.
func (a *Call) endedError(ctx context.Context) error {
	return errs.Errorf("recipes: lock %s: %w", a.Path, retry.WhyEnded(ctx))
}

// enter waits for the turns of the members that exclude others, and takes all of them at one moment. Until then the call has neither
// a turn nor a node. A Try is refused without a request while another goroutine has the turn, unless that goroutine only deletes its
// nodes and no other goroutine waits.
//
// Readers need no turn: they wait only until the requests of abandoned calls are undone; see Turns.KeepOut.
func (a *Call) enter(ctx context.Context) (*Handover, error) {
	set := make([]turn.Member, 0, len(a.members))
	for _, m := range a.members {
		q := m.Handle
		if !q.Shared {
			set = append(set, turn.Member{Key: q.turnKey(), ID: q.ID})
		} else if ahead := a.c.Turns.Owner(ctx, q.turnKey()); ahead != nil && ahead.Ended {
			return nil, a.heldLocally(ctx, q.Path, ahead)
		}
	}
	if len(set) == 0 {
		return nil, nil
	}
	var waits func(int, *turn.Ahead)
	if a.caller.Observed() {
		waits = func(of int, ahead *turn.Ahead) {
			a.caller.Queued("", func() error { return a.heldLocally(ctx, set[of].Key.Path, ahead) })
		}
	}
	t, of, ahead := a.c.Turns.Enter(ctx, set, !a.set, a.Try, waits)
	if ahead != nil {
		return nil, a.heldLocally(ctx, set[of].Key.Path, ahead)
	}
	a.ticket.Set = set
	return t, nil
}

// heldLocally returns the error of a call that waits for goroutines of this client.
func (a *Call) heldLocally(ctx context.Context, path string, ahead *turn.Ahead) error {
	b := &Blocked{Path: path, Position: ahead.Position, At: ahead.At}
	if ahead.Holder != nil {
		b.Holder = ahead.Holder.Party()
	} else {
		b.Holder, b.Local, b.State = kind.Party{ID: ahead.ID, Host: znode.Hostname(), PID: os.Getpid()}, true, ahead.State
	}
	if ahead.Ended {
		b.Cause, b.Waited = retry.WhyEnded(ctx), time.Since(a.start)
	}
	return a.heldError(b)
}

// heldError returns the error of a call that is blocked. If the contender ahead is this client's own, the error says so.
func (a *Call) heldError(b *Blocked) error {
	if k := a.c.Own(b.Holder.Path); k != nil && !b.Local {
		work := k.Work.Load()
		switch b.Local, b.State = true, turn.Leaves; {
		case work == nil:
			b.State = turn.Asks
		case (*work).InUse():
			b.State = turn.Holds
		}
	}
	return a.caller.Held(b)
}

// Handover is a place in the queue, created for the next goroutine by the last owner of the turn.
type Handover struct {
	node  *znode.Node
	queue []string // the queue when the node was created; nil if unknown
}

// contend queues until the lock is granted. After an error our nodes are deleted, in the background if necessary, and then the turn
// is passed on.
func (a *Call) contend(ctx context.Context, t *Handover) (h *held.Use, err error) {
	for try := (retry.Tries{}); ; t = nil { // an inherited place serves for the first try only
		h, err = a.tryOnce(ctx, t)
		switch {
		case err == nil:
			return h, nil
		case len(a.places)+len(a.undone) > 0 || try.Over(ctx, nil, znode.DidNothing, &err): // no further try while a place exists: giveUp deletes it
			return nil, a.giveUp(ctx, err)
		}
	}
}

// tryOnce tries to take one lock, in one session.
func (a *Call) tryOnce(ctx context.Context, t *Handover) (*held.Use, error) {
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

// arrive creates a place in the queue, or takes over the place that came with the turn.
func (a *Call) arrive(ctx context.Context, t *Handover) (arrival, error) {
	var inherited *znode.Node
	if t != nil {
		inherited = t.node
	}
	all, err := a.open(ctx, inherited)
	if err != nil {
		return arrival{}, err
	}
	if len(a.places) > 0 { // inherited
		e := a.places[0]
		if t.queue == nil {
			return arrival{Place: e}, e.Exhausted()
		}
		return arrival{e, [][]string{t.queue}}, e.Exhausted() // this session listed the queue after it had created our node
	}
	own := &all[0]
	e, err := own.Entry(own.Handle.Entrance())
	if err != nil {
		return arrival{}, err
	}
	arrived, err := a.join(ctx, e)
	if err != nil {
		return arrival{}, err
	}
	return arrived[0], e.Exhausted()
}

// open finds the session, and the declaration of each member.
func (a *Call) open(ctx context.Context, inherited *znode.Node) ([]wait.Opened, error) {
	a.places = nil
	all := make([]wait.Opened, len(a.members))
	for i, m := range a.members {
		all[i] = wait.Opened{Handle: &m.Handle.Handle, Permits: m.Permits, Listener: a, Try: a.Try, Many: a.c.Crowd}
	}
	if inherited != nil {
		a.places = []*wait.Place{{Opened: &all[0], In: all[0].Handle.Entrance(), Nodes: []*znode.Node{inherited}}}
	}
	if ctx.Err() != nil {
		return nil, a.endedError(ctx)
	}
	e, err := a.c.Live(ctx)
	if err != nil {
		return nil, err
	}
	a.state = e
	if inherited != nil && inherited.Owner != e.SessionNodes { // the inherited node belongs to a lost session
		a.places = nil
	}
	for i := range all {
		t := &all[i]
		t.Owner, t.Reader = e.SessionNodes, e.Decl
		if t.Declared, err = e.Decl.Of(ctx, &t.Handle.Name); err != nil {
			if len(a.places) == 0 {
				err = znode.NotQueued(err) // only reads were sent, so nothing is queued
			}
			return nil, err
		}
		if err := t.Possible(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// join creates the nodes of the entries in one transaction and then lists their queues, in one round trip. After success the entries
// are the call's places.
func (a *Call) join(ctx context.Context, entries ...*wait.Place) ([]arrival, error) {
	t := &znode.Txn{Owner: entries[0].Owner, Born: entries[0].Nodes}
	var dirs []string
	for i, e := range entries {
		if i > 0 {
			t.Born = append(slices.Clip(t.Born), e.Nodes...)
		}
		if !e.AmongPermits() || len(a.asking) <= ownListings { // in a larger crowd the call shares a listing with others
			dirs = append(dirs, e.Dirs()...)
		}
		if n := e.Node().Key; n != nil {
			t.Keys = append(t.Keys, n)
		}
	}
	lists, err := t.RunKeyed(ctx, dirs...)
	if t.Left != nil {
		a.undone = append(a.undone, t.Left)
	}
	if err != nil {
		for _, e := range entries {
			err = e.Handle.Complete(ctx, e.Owner.Session, err) // this completes the first layout that lacks a node; the next try completes others
		}
		return nil, a.missingNode(a.reread(ctx, entries, err))
	}
	a.places = entries
	if err := t.Admits(ctx); err != nil {
		return nil, err
	}
	arrived := make([]arrival, len(entries))
	for i, e := range entries {
		arrived[i].Place = e
		if n := len(e.Dirs()); n <= len(lists) { // otherwise the listings were lost with the connection, or the call shares a listing
			arrived[i].lists, lists = lists[:n], lists[n:]
		}
	}
	return arrived, nil
}

// missingNode explains that a queue does not exist.
func (a *Call) missingNode(err error) error {
	if !znode.IsNoNode(err) {
		return err
	}
	return errs.Errorf("%w: %s, or a child that its layout needs, does not exist; run apply: %w", declare.ErrNotProvisioned, a.Path, err)
}

// nodes returns the nodes of the call's places.
func (a *Call) nodes() (ks []*znode.Node) {
	for _, e := range a.places {
		ks = append(ks, e.Nodes...)
	}
	return ks
}

// hold turns a grant into a held lock. The session sends heartbeats from then on.
func (a *Call) hold(ctx context.Context, g wait.Grant) (*held.Use, error) {
	first := g.Entries[0]
	t := &heldTurns{
		Subject: Subject{path: a.Path, Handle: a.members[0].Handle, declared: first.Declared},
		turns:   turns{Ticket: turn.Ticket[Handover]{Turns: &a.c.Turns}, set: a.set, of: first.Opened},
	}
	for i, e := range g.Entries {
		if at := e.Declared.Place; at != nil {
			t.places = append(t.places, orderedLock{e.Handle.Path, *at})
		}
		if a.set {
			t.Members = append(t.Members, a.members[i].Handle)
		}
	}
	if a.set || first.Permits == 0 && !first.Handle.Shared { // otherwise other goroutines of this client may hold the lock too
		t.Set = a.ticket.Set
	}
	nodes := a.nodes()
	told := a.caller.Tenure(nodes[0].Path, a.state.Session.ID())
	return held.Hold(ctx, held.Grant{Of: &t.Subject, Owner: a.state.SessionNodes, Nodes: nodes, Turns: &t.turns, Token: g.Czxid}, told)
}

// heldTurns has the subject and the turns of a held lock, in one allocation.
type heldTurns struct {
	Subject
	turns
}

// turns passes on the turns of a held lock, which goroutines of this client wait for. Readers and permits have no turn.
type turns struct {
	turn.Ticket[Handover]
	set  bool
	of   *wait.Opened
	next Handover // what the next goroutine gets
}

// Next returns a node for the next goroutine. A set has several turns, which may go to different goroutines, so Next returns nil for
// a set.
func (t *turns) Next() *znode.Node {
	if t.set || len(t.Set) == 0 {
		return nil
	}
	id, waits := t.Turns.Next(t.Set[0].Key)
	if !waits {
		return nil
	}
	k, err := t.of.Handle.Contender(t.of.Owner, t.of.Declared, t.of.Handle.Decides(), znode.HolderSelf(id))
	if err != nil {
		return nil
	}
	return k
}

func (t *turns) HandOver(k *znode.Node, queue []string) bool {
	t.next = Handover{k, queue}
	return t.Turns.HandOver(t.Set[0].Key, &t.next)
}

// giveUp leaves the queues. The nodes that exist, or may exist, are deleted in the background. Then the turns are passed on, so
// no goroutine of this client has to wait for these nodes. If many callers give up before the network answers, one node at most
// is left for each lock.
func (a *Call) giveUp(ctx context.Context, err error) error {
	st, ticket, nodes, left := a.c, a.ticket, a.nodes(), a.undone
	a.ticket.Set, a.places, a.undone = nil, nil, nil
	ticket.Leaving()
	for _, m := range a.members {
		if key := m.Handle.turnKey(); len(left) > 0 && st.Turns.KeepOut(key) { // a call without a turn, such as a reader's, keeps others out too
			st.whenLeft(left, func() { st.Turns.Leave(key) })
		}
	}
	znode.LeaveBehind(ctx, nodes, func() { st.whenLeft(left, ticket.Leave) })
	return err
}

// whenLeft calls f when all abandoned requests are undone: at once, if there are none.
func (st *Client) whenLeft(left []<-chan struct{}, f func()) {
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

// The listener of a wait: see package wait.

// Ahead reports the contender ahead to the goroutines of this client that wait for our turn, and to the Observer.
func (a *Call) Ahead(e *wait.Place) {
	if q := a.members[0].Handle; !a.set && len(a.ticket.Set) > 0 {
		a.c.Turns.WaitsFor(q.turnKey(), e.Holder, e.Position)
	}
	if a.caller.Observed() {
		a.caller.Queued(e.Node().Path, func() error { return a.Held(e.Opened) })
	}
}

func (a *Call) Held(t *wait.Opened) error { return a.heldError(a.describeAhead(t)) }

// describeAhead describes the contender ahead.
func (a *Call) describeAhead(t *wait.Opened) *Blocked {
	b := &Blocked{Path: t.Handle.Path, Position: t.Position, At: time.Now()}
	if t.Holder != nil {
		b.Holder = t.Holder.Party()
	}
	return b
}

func (a *Call) TimedOut(t *wait.Opened, cause error) error {
	b := a.describeAhead(t)
	b.Waited, b.Cause = time.Since(a.start), cause
	return a.heldError(b)
}

func (a *Call) Left(undone <-chan struct{}) {
	a.undone, a.places = append(a.undone, undone), nil
}

func (a *Call) GoesOn(e *wait.Place) { a.places = []*wait.Place{e} }

// arrival is a place with listings of its queues (see Dirs) that were made after its creation.
type arrival struct {
	*wait.Place
	lists [][]string // nil if they were lost with the connection, or the call shares a listing
}

// Shorter returns the shorter of two bounds; 0 is no bound.
func Shorter(d, e time.Duration) time.Duration {
	if d == 0 || 0 < e && e < d {
		return e
	}
	return d
}

// follow takes the locks. If a declaration shows that one of them is a key's lock with another name, follow tries again with that
// name.
func (a *Call) follow(ctx context.Context, take func(context.Context) (*held.Use, error)) (*held.Use, error) {
	needs := declare.Pins{In: &a.c.Decl}
	defer needs.End()
	for {
		for _, m := range a.members {
			needs.Add(m.Handle.DeclaredAt())
		}
		l, err := take(ctx)
		if err == nil {
			return l, nil
		}
		var key *declare.KeyPathError
		if !errors.As(err, &key) {
			return nil, err
		}
		a.usePathOfKey(key)
	}
}

// want sets the locks that the call takes.
func (a *Call) want(members []Member) {
	paths := make([]string, len(members))
	for i, m := range members {
		paths[i] = m.Handle.Path
	}
	a.members, a.Path = members, strings.Join(paths, " + ")
	a.caller.Names(a.Path, members)
}

// reread finds out whether a server refused our nodes because a declaration has changed.
func (a *Call) reread(ctx context.Context, entries []*wait.Place, refusal error) error {
	older := errors.Is(refusal, zk.ErrBadVersion) // the family of a key has another declaration by now
	if !older && !znode.IsNoNode(refusal) && !errors.Is(refusal, zk.ErrNoAuth) {
		return refusal
	}
	for _, e := range entries {
		e.Reader.Outdated(e.Declared)
		switch d, err := e.Reader.Of(ctx, &e.Handle.Name); {
		case err != nil:
			return znode.NotQueued(err)
		case d.Mzxid != e.Declared.Mzxid || older: // if older is set, our server may lag and still show the former declaration
			return errs.Errorf("%w: %s has another declaration by now (%v)", znode.ErrNotApplied, e.Handle.Path, refusal)
		}
	}
	return refusal
}

// usePathOfKey replaces a member by a handle with the right name of its key's lock.
func (a *Call) usePathOfKey(e *declare.KeyPathError) {
	members := slices.Clone(a.members)
	for i, m := range members {
		if m.Handle.Path == e.Was.Path {
			members[i].Handle = m.Handle.withName(e.Is)
		}
	}
	a.want(members)
}

// Subject says which locks are held. It implements [held.Subject].
type Subject struct {
	path     string
	Handle   *Handle   // for a multi-lock, the handle of its first member
	Members  []*Handle // nil if it is no multi-lock
	declared *declare.Declaration
	places   []orderedLock // the locks' places in the declared orders
}

// SubjectOf returns the subject of a use.
func SubjectOf(u *held.Use) *Subject { return u.H.Of.(*Subject) }

// Path returns the lock's path; for a multi-lock, the paths of all its members.
func (s *Subject) Path() string { return s.path }

// Has reports whether the key is that of the lock, or of a member.
func (s *Subject) Has(key held.Key) bool {
	if s.Members == nil {
		return s.Handle.ctxKey == key
	}
	return slices.ContainsFunc(s.Members, func(q *Handle) bool { return q.ctxKey == key })
}

// handleAt returns the handle that took the lock at path.
func (s *Subject) handleAt(path string) *Handle {
	for _, q := range s.Members {
		if q.Path == path {
			return q
		}
	}
	return s.Handle
}

// reenter handles a call whose context shows that the caller already holds the lock. The parameter permits is the number of permits
// that the call wants; 0 if the kind has none.
func (a *Call) reenter(ctx context.Context, q *Handle, permits int) (*held.Use, error) {
	outer, _ := ctx.Value(q.key).(*held.Use)
	if outer == nil || outer.Ended() != nil {
		return nil, nil
	}
	way := SubjectOf(outer).handleAt(q.Path)
	if way.Kind != q.Kind { // the handle is of another kind: the declaration will refuse it
		return nil, nil
	}
	if way.Shared && !q.Shared {
		return nil, fmt.Errorf("%w: the context comes from a read lease of %s, which the writer would wait for; give it back first",
			ErrWouldDeadlock, q.Path)
	}
	if !q.Reentrant {
		return nil, fmt.Errorf("%w: the context comes from a lease of %s; to nest, open the handle WithReentrancy; to wait in another goroutine, use a context that is not derived from the lease",
			ErrWouldDeadlock, q.Path)
	}
	if have := len(outer.H.Nodes()); permits > have {
		return nil, fmt.Errorf("%w: the context comes from a lease of %d permits of %s, %d are wanted; take them all at once",
			ErrWouldDeadlock, have, q.Path, permits)
	}
	// The call queued at the key's former path, and EventQueued was sent. So the Observer receives the end of this lease too.
	if a.caller.WasQueued() {
		return outer.Enter(ctx, a.caller.Tenure(outer.H.Nodes()[0], outer.H.Session().Session.ID())), nil
	}
	return outer.Enter(ctx, nil), nil
}

// orderedLock is a lock with a place in a declared order.
type orderedLock struct {
	path string
	kind.Place
}

// inOrder refuses a lock that a declared order puts before one of the caller's. The caller's context shows what it holds. inOrder
// reads declarations only if the caller holds a lock with a place in an order. It ignores errors, which open reports.
func (a *Call) inOrder(ctx context.Context) error {
	var has []orderedLock
	for _, l := range held.UsesOf(ctx) {
		if of := SubjectOf(l); of.Handle.C == a.c { // another client's path may be on other servers
			has = append(has, of.places...)
		}
	}
	if len(has) == 0 {
		return nil
	}
	e, err := a.c.Live(ctx)
	if err != nil {
		return nil
	}
	for _, m := range a.members {
		d, err := e.Decl.Of(ctx, &m.Handle.Name)
		if err != nil || d.Place == nil {
			continue
		}
		for _, has := range has {
			if has.Of == d.Place.Of && d.Place.Rank < has.Rank {
				return fmt.Errorf("%w: %s comes before %s in the order that %s declares, and the caller's context comes from a lease of %s; take %s first",
					ErrLockOrder, m.Handle.Path, has.path, has.Of, has.path, m.Handle.Path)
			}
		}
	}
	return nil
}
