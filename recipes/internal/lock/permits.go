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

// takePermits takes the permits of one semaphore. It first tries directly, if no goroutine of this client waits. Otherwise it takes
// its turn and waits at the gate. It passes the turn on once it has the permits, because many goroutines of one client may hold
// permits at a time.
func (a *Call) takePermits(ctx context.Context) (*held.Use, error) {
	q, st := a.members[0].Handle, a.c
	if a.Try {
		if ahead := st.Turns.Owner(ctx, q.turnKey()); ahead != nil {
			return nil, a.heldLocally(ctx, q.Path, ahead)
		}
		return a.takeDirectly(ctx)
	}
	if !st.Turns.Taken(q.turnKey()) {
		h, err := a.takeDirectly(ctx)
		if !errors.Is(err, ErrHeld) {
			return h, err
		}
		// The direct try was refused: from here on turns and the gate keep the order of arrival.
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

// takeDirectly takes the permits at once, in one transaction, if they are free; otherwise it fails with ErrHeld. It repeats a try that
// had no effect, in the next session if necessary. Once the nodes exist it does not try again.
func (a *Call) takeDirectly(ctx context.Context) (h *held.Use, err error) {
	defer a.letNextAsk()
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

// create creates the nodes of the permits, unless it knows that the permits are not free.
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

// atOnce returns nil if all new places were granted when they were created, otherwise an error with the contender ahead. It reads a
// lost listing again. A later listing serves as well: it shows all contenders that are still ahead, and our places while they exist.
//
// The order of the permits alone keeps a semaphore's limit:
//  1. A permit is granted if a listing made after its creation shows fewer older permits than the limit.
//  2. Consider the newest of all permits that are held at one moment. The others are older, so the listing that granted the newest
//     showed them. So the others are fewer than the limit, and all permits together are no more than the limit.
//
// The gate is listed for fairness only: permits are not granted directly while another contender waits there.
func (a *Call) atOnce(ctx context.Context, arrived []arrival) (ahead, err error) {
	opened := make([]*wait.Opened, len(arrived))
	for i, at := range arrived {
		if err := at.Exhausted(); err != nil {
			return nil, err
		}
		opened[i] = at.Opened
	}
	for i := range arrived {
		if err := a.relist(ctx, &arrived[i]); err != nil {
			return nil, arrived[i].TimedOut(ctx, a.missingNode(err))
		}
	}
	// Obey reads a declaration that has changed. Obey comes before the listings are judged, because a limit that was lowered before
	// our permits existed applies to them. Obey comes after relist, because a repeated listing came over a new connection, and the
	// declaration may have changed before that listing.
	if err := wait.Obey(ctx, opened...); err != nil {
		return nil, err
	}
	for _, at := range arrived {
		if ahead := a.checkGranted(&at); ahead != nil {
			return ahead, nil
		}
	}
	return nil, nil
}

// relist reads listings that a crowd shares, or that were lost with the connection. The gate may be missing: another program is
// creating the layout, or the servers deleted the gate that Curator made, a container node.
func (a *Call) relist(ctx context.Context, at *arrival) error {
	if at.lists != nil {
		return nil
	}
	return retry.Do(ctx, at.Owner.Session, znode.DidNothing, func() (err error) {
		if at.AmongPermits() {
			at.lists, err = a.listOwn(ctx, at.Place)
		} else {
			at.lists, err = znode.ListAllAgain(ctx, at.Owner.Session, at.Dirs(), at.Declared.OfKey())
		}
		return at.Handle.Complete(ctx, at.Owner.Session, err)
	})
}

// checkGranted returns nil if the place was granted when it was created, otherwise an error with the contender ahead. The create is
// the committed write that proves the grant: see prove of package wait.
func (a *Call) checkGranted(at *arrival) error {
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

// look refuses permits without creating any, if the last direct try of this client was refused. So a caller that polls a busy
// semaphore writes nothing. Permits that are created only to be withdrawn are in the way of other tries, and of Curator's
// clients, which count every permit. When permits are free again, the first try costs one round trip more.
//
// The first waiter at the gate relies on this. Once the waiter has queued, another client creates direct permits only in its calls
// under way, and in one more call at most. That call lists the gate and sees the waiter, and so does every later look of that client
// in its session.
func (a *Call) look(ctx context.Context, t *wait.Opened) error {
	if !a.crowd(t).busy.Load() {
		return nil
	}
	// A listing that began before the call will not do: the caller may have released permits meanwhile.
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

// heldBy returns the error of a try with these permits and waiters ahead.
func (a *Call) heldBy(t *wait.Opened, line, waiting []kind.Contender) error {
	if err := t.Possible(); err != nil { // the number may have been lowered
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

// crowd is shared by the calls of one client that ask for permits of one semaphore directly. Each call creates its own permits, and
// then needs a listing. A thousand calls that each listed a thousand permits would read a million names. So a bounded number of calls
// ask at a time, and most of them share listings.
type crowd struct {
	asking chan struct{} // holds an element for each call that asks
	busy   atomic.Bool   // the last direct try was refused; see look

	mu      sync.Mutex
	listing *listing // the listing under way; nil if none is
}

const (
	// maxAsking bounds the calls that ask at a time. So it also bounds the permits that a crowd creates in vain. Further calls wait until
	// one of these calls has finished. They take no turn, because permits may be free.
	maxAsking = 64
	// ownListings is the number of calls that list in the same round trip as their create. The others list when the create is
	// answered.
	ownListings = 8
)

// maxCrowds bounds the semaphores with a crowd. Calls of a crowd that was forgotten share fewer listings.
const maxCrowds = 256

// crowds has the crowds of a session, by path.
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
		for path := range cs.All { // a random one, because Go ranges over a map in random order
			if len(cs.All) >= maxCrowds {
				delete(cs.All, path)
			}
			break
		}
		cs.All[path] = own
	}
	return own
}

// crowd returns the crowd of the lock.
func (a *Call) crowd(t *wait.Opened) *crowd { return a.state.Crowds.of(t.Handle.Path) }

// listing has a semaphore's permits and then its gate, read in this order.
type listing struct {
	done  chan struct{}
	lists [][]string
	err   error
}

// ask waits until the call may ask for permits directly. It fails with ErrHeld if by then other goroutines of this client have or
// want the turn: an Acquire then queues after them.
func (a *Call) ask(ctx context.Context, t *wait.Opened) error {
	if a.asking != nil { // an earlier try was admitted
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
		return a.endedError(ctx)
	}
	q := a.members[0].Handle
	if ahead := a.c.Turns.Owner(ctx, q.turnKey()); ahead != nil {
		return a.heldLocally(ctx, q.Path, ahead)
	}
	return wait.Obey(ctx, t) // the wait may have been long
}

// letNextAsk lets the next call ask.
func (a *Call) letNextAsk() {
	if a.asking != nil {
		<-a.asking
		a.asking = nil
	}
}

// listOwn returns a listing that shows our permits. The permits exist, so a listing that begins now shows them, and a listing under way may
// show them. If a listing shows our permits, it listed them after their creation, and it listed the gate even later.
func (a *Call) listOwn(ctx context.Context, e *wait.Place) ([][]string, error) {
	return a.listWithOthers(ctx, e.Opened, func(l *listing) bool { return l.err == nil && slices.Contains(l.lists[0], e.Node().Name) })
}

// listWithOthers returns a listing that began after the call, or one that was under way if willDo accepts it. At most one listing is
// under way.
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

// inOrder returns the names of the contenders among the children, in the order of the queue.
func inOrder(children []string) []string {
	line, _ := kind.SortContenders(children)
	names := make([]string, len(line))
	for i, k := range line {
		names[i] = k.Name
	}
	return names
}

// join returns the listing that is under way, or begins one. The listing goes on if its callers end, because others may wait for
// it.
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
		for i, names := range l.lists { // sorted once for all callers: a second sort of sorted names is cheap
			l.lists[i] = inOrder(names)
		}
		c.mu.Lock()
		c.listing = nil
		c.mu.Unlock()
		close(l.done)
	})
	return l, true
}
