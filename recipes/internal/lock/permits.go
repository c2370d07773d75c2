package lock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/wait"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// permits takes the permits of one semaphore: directly if no goroutine of this client waits, otherwise with the turn of the local queue
// and through the gate. The turn is passed on once the permits are ours: many goroutines of one client hold permits.
func (a *Call) permits(ctx context.Context) (*held.Use, error) {
	q, st := a.members[0].Handle, a.c
	if a.Try {
		if ahead := st.Turns.Owner(ctx, q.turnKey()); ahead != nil {
			return nil, a.heldLocally(ctx, q.Path, ahead)
		}
		return a.direct(ctx)
	}
	if !st.Turns.Taken(q.turnKey()) {
		h, err := a.direct(ctx)
		if !errors.Is(err, ErrHeld) {
			return h, err
		}
		// Another call was first: from here on the local queue and the gate keep the order.
	}
	t, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	h, err := a.contend(ctx, t)
	if err == nil {
		st.Turns.Leave(q.turnKey())
	}
	return h, err
}

// direct takes the permits at once, in one transaction, if they are free; otherwise it fails with ErrHeld. It tries again while a try has
// done nothing, in the next session if need be. Once the nodes exist there is one try.
func (a *Call) direct(ctx context.Context) (h *held.Use, err error) {
	defer a.asked()
	var arrived []arrival
	err = retry.Do(ctx, nil, znode.DidNothing, func() error {
		arrived, err = a.create(ctx)
		return err
	})
	var ahead error
	if err == nil {
		ahead, err = a.atOnce(ctx, arrived)
	}
	if err = cmp.Or(err, ahead); err == nil {
		h, err = a.hold(ctx, wait.Grant{Entries: a.places})
	}
	if err != nil {
		return nil, a.giveUp(ctx, err)
	}
	return h, nil
}

// create makes the nodes of the permits, unless they are known not to be free.
func (a *Call) create(ctx context.Context) ([]arrival, error) {
	all, err := a.open(ctx, nil)
	if err != nil {
		return nil, err
	}
	t := &all[0]
	if err = a.ask(ctx, t); err == nil {
		err = a.look(ctx, t)
	}
	if err != nil {
		return nil, znode.NotQueued(t.TimedOut(ctx, err))
	}
	e, err := t.Entry(t.Handle.Decides())
	if err != nil {
		return nil, err
	}
	return a.join(ctx, e)
}

// atOnce returns the error that names the contender ahead of the new places; nil if all were granted at once. A listing that was lost is
// read again: a later one shows all contenders still ahead, and our places as long as they exist.
//
// The order of the permits alone keeps a semaphore's limit:
//  1. A permit is granted when, in a listing behind its creation, fewer than the limit are older.
//  2. Of all permits held at some moment, the others are older than the newest, and were in the listing that granted it. So they were
//     fewer than the limit.
//
// The gate is looked at for fairness only: a place given up between our create and our listing leaves no trace.
func (a *Call) atOnce(ctx context.Context, arrived []arrival) (ahead, err error) {
	opened := make([]*wait.Opened, len(arrived))
	for i, at := range arrived {
		if err := at.Exhausted(); err != nil {
			return nil, err
		}
		opened[i] = at.Opened
	}
	// Behind the transaction and before the listings are judged: a limit lowered before our permits were created counts.
	if err := wait.Obey(ctx, opened...); err != nil {
		return nil, err
	}
	for i := range arrived {
		if err := a.relist(ctx, &arrived[i]); err != nil {
			return nil, arrived[i].TimedOut(ctx, a.missingNode(err))
		}
	}
	for _, at := range arrived {
		if ahead := a.granted(&at); ahead != nil {
			return ahead, nil
		}
	}
	return nil, nil
}

// relist reads listings that were shared in a crowd, or lost with their connection. The gate may be missing: another program creates the
// layout now, or Curator's, a container, was reaped.
func (a *Call) relist(ctx context.Context, at *arrival) error {
	if at.lists != nil {
		return nil
	}
	return retry.Do(ctx, at.Owner.Session, znode.DidNothing, func() (err error) {
		if at.AmongPermits() {
			at.lists, err = a.listed(ctx, at.Place)
		} else {
			at.lists, err = znode.ListAllAgain(ctx, at.Owner.Session, at.Dirs(), at.Declared.OfKey())
		}
		return at.Handle.Complete(ctx, at.Owner.Session, err)
	})
}

// granted returns nil if the place was granted when it was created, otherwise the error that names the contender in the way. The create
// before the listings is the committed write that proves the grant: see prove of package wait.
func (a *Call) granted(at *arrival) error {
	// The last of a transaction's permits decides: they have consecutive numbers.
	var v wait.Verdict
	err := v.Decide(at.In, at.Declared.Params, at.lists[0], at.Node().Name)
	at.Seen(&v)
	var waiting []kind.Contender
	if at.AmongPermits() {
		waiting, _ = kind.SortContenders(at.lists[1])
	}
	held := err != nil || !v.Granted || len(waiting) > 0
	if at.AmongPermits() {
		a.crowd(at.Opened).busy.Store(held)
	}
	if !held {
		return nil
	}
	line, _ := kind.SortContenders(at.lists[0])
	return a.heldBy(at.Opened, line[:max(0, v.Position+1-len(at.Nodes))], waiting)
}

// look refuses permits without creating any, if those created directly were refused the last time. So a caller that polls a busy
// semaphore writes nothing. A permit that is created only to be withdrawn is in the way of other tries, and of Curator's clients, which
// count every permit. The first try after that costs one round trip more.
//
// Once a waiter has a place at the gate, a client creates such permits in the calls that are under way and in one more. The listing of
// that one shows the place, and so does every later look of that session.
func (a *Call) look(ctx context.Context, t *wait.Opened) error {
	if !a.crowd(t).busy.Load() {
		return nil
	}
	// Not a listing that began before the call: the caller may have released permits meanwhile.
	lists, err := a.listWithOthers(ctx, t, func(*listing) bool { return false })
	if err != nil {
		if znode.IsNoNode(err) { // the create reports what the layout lacks
			err = nil
		}
		return err
	}
	permits, _ := kind.SortContenders(lists[0])
	waiting, _ := kind.SortContenders(lists[1])
	if len(permits)+t.Permits > t.Limit() || len(waiting) > 0 {
		return a.heldBy(t, permits, waiting)
	}
	return nil
}

// heldBy is the error of a try that these contenders and waiters are ahead of.
func (a *Call) heldBy(t *wait.Opened, line, waiting []kind.Contender) error {
	if err := t.Possible(); err != nil { // any more
		return err
	}
	t.Position = len(line) + len(waiting)
	switch {
	case len(line) > 0:
		t.Holder = &wait.Rival{Contender: line[0], Dir: t.Handle.Decides().Dir(t.Handle.Path)}
	case len(waiting) > 0:
		t.Holder = &wait.Rival{Contender: waiting[0], Dir: t.Handle.Entrance().Dir(t.Handle.Path)}
	}
	return a.Held(t)
}

// crowd is shared by the calls of one client that ask for permits of one semaphore directly. Each creates its permits itself, and needs a
// listing behind that. If each of a thousand listed them, they would read a million names. So a bounded number ask at a time, and most of
// those share listings: the bytes that a client reads grow with the permits, not with its callers.
type crowd struct {
	asking chan struct{} // one for each call that asks
	busy   atomic.Bool   // permits created directly were refused the last time; see look

	mu      sync.Mutex
	listing *listing // the newest
}

const (
	// maxAsking bounds the calls that ask at a time, and so the permits that a crowd creates and withdraws when there are too few. The
	// next calls wait for those, and not in the local queue: permits may be free.
	maxAsking = 64
	// ownListings is how many calls list behind their own create, in one round trip. The others list when that is answered.
	ownListings = 8
)

// maxCrowds bounds the semaphores with a crowd. Calls of one that was forgotten share less.
const maxCrowds = 256

// crowds are those of a session, by path.
type crowds struct {
	mu  sync.Mutex
	All map[string]*crowd
}

func (cs *crowds) of(path string) *crowd {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	own := cs.All[path]
	if own == nil {
		own = &crowd{asking: make(chan struct{}, maxAsking)}
		if cs.All == nil {
			cs.All = map[string]*crowd{}
		}
		for path := range cs.All { // another one each time
			if len(cs.All) >= maxCrowds {
				delete(cs.All, path)
			}
			break
		}
		cs.All[path] = own
	}
	return own
}

// crowd is that of the lock.
func (a *Call) crowd(t *wait.Opened) *crowd { return a.state.Crowds.of(t.Handle.Path) }

// listing is one reading of a semaphore's permits and of its gate, in this order.
type listing struct {
	done  chan struct{}
	lists [][]string
	err   error
}

// ask waits until the call may ask for permits directly. It fails with ErrHeld if others of this client wait in the local queue by then:
// an Acquire joins them.
func (a *Call) ask(ctx context.Context, t *wait.Opened) error {
	if a.asking != nil { // an earlier try has the right
		return nil
	}
	asking := a.crowd(t).asking
	select {
	case asking <- struct{}{}:
		a.asking = asking
		return nil
	default:
	}
	select {
	case asking <- struct{}{}:
		a.asking = asking
	case <-ctx.Done():
		return a.ended(ctx)
	}
	q := a.members[0].Handle
	if ahead := a.c.Turns.Owner(ctx, q.turnKey()); ahead != nil {
		return a.heldLocally(ctx, q.Path, ahead)
	}
	return wait.Obey(ctx, t) // the wait may have been long
}

// asked ends the right that ask gave.
func (a *Call) asked() {
	if a.asking != nil {
		<-a.asking
		a.asking = nil
	}
}

// listed returns a listing that shows our permits. They exist, so one that begins now shows them; one that is under way may. Such a
// listing is behind their creation, and so is that of the gate, which is read after it.
func (a *Call) listed(ctx context.Context, e *wait.Place) ([][]string, error) {
	return a.listWithOthers(ctx, e.Opened, func(l *listing) bool { return l.err == nil && slices.Contains(l.lists[0], e.Node().Name) })
}

// listWithOthers returns a listing that begins now, or one that is under way if that will do. At most one is under way.
func (a *Call) listWithOthers(ctx context.Context, t *wait.Opened, willDo func(*listing) bool) ([][]string, error) {
	for begunBefore := true; ; begunBefore = false {
		l, begun := a.crowd(t).join(t, a.c.Spawn)
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if begun || !begunBefore || willDo(l) {
			return l.lists, l.err
		}
	}
}

// inOrder are the names of the contenders among the children, in their order.
func inOrder(children []string) []string {
	line, _ := kind.SortContenders(children)
	names := make([]string, len(line))
	for i, k := range line {
		names[i] = k.Name
	}
	return names
}

// join returns the listing that is under way, or begins one. It goes on without its callers, which may end while others wait for it.
func (c *crowd) join(t *wait.Opened, spawn func(func())) (l *listing, begun bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listing != nil {
		return c.listing, false
	}
	l = &listing{done: make(chan struct{})}
	c.listing = l
	dirs := []string{t.Handle.Decides().Dir(t.Handle.Path), t.Handle.Entrance().Dir(t.Handle.Path)}
	spawn(func() {
		l.lists, l.err = znode.ListAll(context.Background(), t.Owner.Session, dirs, t.Declared.OfKey())
		for i, names := range l.lists { // once for all callers, because sorting again is cheap
			l.lists[i] = inOrder(names)
		}
		c.mu.Lock()
		c.listing = nil
		c.mu.Unlock()
		close(l.done)
	})
	return l, true
}
