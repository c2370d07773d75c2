package lock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/locktree/locktree/recipes/internal/wait"

	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/locktree/locktree/recipes/kind"
)

// crowd is what the calls of one client share that ask for permits of one semaphore directly. Each creates its permits itself,
// and needs a listing behind that, which names all permits that exist. If each of a thousand listed them, a thousand would read a
// million names. So a bounded number ask at a time, and all but a few of those share listings: in a crowd what a client reads
// grows with the permits, not with its callers.
type crowd struct {
	asking chan struct{} // one for each call that asks
	busy   atomic.Bool   // permits created directly were refused the last time; see look

	mu      sync.Mutex
	listing *listing // the newest
}

const (
	// maxAsking bounds the calls that ask at a time, and so the permits that a crowd creates and withdraws when there are too few.
	// The next calls wait for those, and not in the local queue: permits may be free.
	maxAsking = 64
	// ownListings is how many calls list behind their own create, in one round trip. The others list when that is answered.
	ownListings = 8
)

// maxCrowds bounds for how many semaphores a crowd is kept. Another one begins where it was forgotten: then its calls share less.
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
		own = newCrowd()
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

// crowd is what the calls for the lock share.
func (a *Call) crowd(t *wait.Opened) *crowd { return a.e.Crowds.of(t.Q.Path) }

func newCrowd() *crowd { return &crowd{asking: make(chan struct{}, maxAsking)} }

// listing is one reading of a semaphore's permits and of its gate, in this order.
type listing struct {
	done  chan struct{}
	lists [][]string
	err   error
}

// ask waits until the call may ask for permits directly. It fails with ErrHeld if others of this client wait in the local queue
// by then: an Acquire joins them.
func (a *Call) ask(ctx context.Context, t *wait.Opened) error {
	if a.asking != nil { // by an earlier try
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
	if q := a.members[0].Q; true {
		if ahead := a.c.Turns.Owner(ctx, q.localKey()); ahead != nil {
			return a.heldLocally(ctx, q, ahead)
		}
	}
	return wait.Obey(ctx, t) // the wait may have been long
}

// asked ends what ask began.
func (a *Call) asked() {
	if a.asking != nil {
		<-a.asking
		a.asking = nil
	}
}

// crowded reports whether so many calls ask for permits that this one shares a listing.
func (a *Call) crowded(e *wait.Place) bool { return e.Permits() && len(a.asking) > ownListings }

// listed returns a listing that shows our permits. They exist, so one that begins now shows them; one that is under way may. A
// listing that shows them is behind their creation, and so is that of the gate, which is read after it.
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

// join returns the listing that is under way, or begins one. It goes on without its callers, because they
// may have ended when others wait for it.
func (c *crowd) join(t *wait.Opened, spawn func(func())) (l *listing, begun bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listing != nil {
		return c.listing, false
	}
	l = &listing{done: make(chan struct{})}
	c.listing = l
	dirs := []string{t.Q.Decides().Dir(t.Q.Path), t.Q.Entrance().Dir(t.Q.Path)}
	spawn(func() {
		l.lists, l.err = znode.ListAll(context.Background(), t.S.S, dirs, t.D.OfKey())
		for i, names := range l.lists { // once for all, who sort again what is in order
			l.lists[i] = inOrder(names)
		}
		c.mu.Lock()
		c.listing = nil
		c.mu.Unlock()
		close(l.done)
	})
	return l, true
}
