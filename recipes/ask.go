package recipes

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/lock"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/turn"
)

// A callReport sends the events of one call, and makes its errors.
type callReport struct {
	c     *Client
	q     *handle // the handle of the call; for a set of locks, the handle of its first member
	call  *call   // nil without an Observer
	start time.Time
	lease tenure // the tenure of the call's lease, if the call is granted
}

// lock takes the lock, or n permits of a semaphore. If the parameter try is true, it waits for a connection at most, and never
// for the lock.
func (q *handle) lock(ctx context.Context, n int, try bool) (*Lease, error) {
	return q.c.take(ctx, q, false, try, lock.Member{Handle: &q.Handle, Permits: n})
}

func (c *Client) take(ctx context.Context, q *handle, set, try bool, members ...lock.Member) (*Lease, error) {
	k := &callReport{c: c, q: q, start: time.Now(), call: c.call(ctx, "", members...)}
	ended := ctx.Err() != nil // before anything was tried
	a := c.state.NewCall(ctx, set, try, k, members...)
	defer a.End()
	u, err := a.Do(ctx)
	if err != nil {
		if !ended {
			err = k.explain(ctx, a, err)
		}
		k.sendRefused(err)
		return nil, err
	}
	u.Caller = ctx
	return &Lease{u}, nil
}

// explain separates an outage from contention. If the session is not active when a wait ends, the error matches ErrUnreachable.
// But a Try that knows the holder returns the HeldError alone. A call knows the holder in two cases: another client's contender
// is ahead, or a goroutine of this client holds the lock.
func (k *callReport) explain(ctx context.Context, a *lock.Call, err error) error {
	var held *HeldError
	known := errors.As(err, &held) && (!held.Local || held.owner == turn.Holds)
	ended := a.Wait.Err() != nil && errors.Is(err, a.Wait.Err())
	switch {
	case a.Try && ended && ctx.Err() == nil:
		return errs.Errorf("recipes: lock %s: %w", a.Path, context.Cause(a.Wait))
	case errors.Is(err, ErrUnreachable), errors.Is(err, ErrClosed), k.c.conn.Newest().State() == session.StateActive:
		return err
	case held != nil && !known:
		return errs.Errorf("%w: %v%.0w", ErrUnreachable, held, cmp.Or(held.Cause, ErrUnreachable))
	case ended:
		return errs.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// These methods implement caller, an interface of package lock.

func (k *callReport) Observed() bool { return k.call != nil }

func (k *callReport) Names(path string, members []lock.Member) {
	if k.call != nil {
		k.call.about.Path, k.call.about.Locks = path, eventLocks(members)
	}
}

// Queued sends EventQueued. The event's Cause is the error that the function why returns. Only the first call of Queued sends it.
func (k *callReport) Queued(node string, why func() error) {
	if k.call != nil && !k.call.queued.Swap(true) {
		k.call.tell(Event{Type: EventQueued, Node: node, Wait: time.Since(k.start), Cause: why()})
	}
}

func (k *callReport) WasQueued() bool { return k.call != nil && k.call.queued.Load() }

func (k *callReport) Held(b *lock.Blocked) error {
	held := &HeldError{Path: b.Path, Holder: b.Holder, Position: b.Position, Waited: b.Waited, Local: b.Local, Cause: b.Cause, c: k.c, owner: b.State, at: b.At}
	return held.describeHolder()
}

func (k *callReport) Tenure(node string, session int64) held.Listener {
	k.lease = tenure{q: k.q, call: k.call, wait: time.Since(k.start), node: node, session: session}
	return &k.lease
}

// sendRefused sends EventRefused, for a call that ended without a lease.
func (k *callReport) sendRefused(err error) {
	if k.call != nil {
		k.call.tell(Event{Type: EventRefused, Wait: time.Since(k.start), Result: resultOf(err), Cause: err})
	}
}

// A call has the values that all events of one call and of its lease share. It is nil without an Observer.
type call struct {
	c      *Client
	about  Event
	queued atomic.Bool // whether EventQueued was sent
}

var calls atomic.Uint64

func (c *Client) call(ctx context.Context, path string, members ...lock.Member) *call {
	if c.cfg.Observer == nil {
		return nil
	}
	return &call{c: c, about: Event{Context: context.WithoutCancel(ctx), Call: calls.Add(1), Path: path, Locks: eventLocks(members)}}
}

func eventLocks(members []lock.Member) []EventLock {
	locks := make([]EventLock, len(members))
	for i, m := range members {
		locks[i] = EventLock{Path: m.Handle.Path, Kind: m.Handle.Kind, Shared: m.Handle.Shared, Permits: m.Permits}
	}
	return locks
}

func (k *call) tell(e Event) {
	e.Context, e.Call, e.Path, e.Locks = k.about.Context, k.about.Call, k.about.Path, k.about.Locks
	k.c.observe(e)
}

// tenure sends the Observer the events of one lease: Acquired, and then Released or Lost, each at most once. A lease that enters
// a lock again belongs to the outer lease's tenure, with one exception. A call may first queue at a key's former path, and then
// find at the present path that its caller holds the lock. EventQueued was sent for that call, so its lease has its own tenure.
type tenure struct {
	q       *handle // the handle that took the lease
	call    *call
	since   time.Time
	wait    time.Duration
	node    string
	session int64
}

// The caller of Granted and of Ended holds the lock's mutex mu, so the events come in order.
func (g *tenure) Granted(token int64) {
	if g.call != nil {
		g.since = time.Now()
		g.tell(EventAcquired, token, nil)
	}
}

func (g *tenure) Ended(token int64, lost bool, why error) {
	if lost {
		g.tell(EventLost, token, why)
	} else {
		g.tell(EventReleased, token, nil)
	}
}

func (g *tenure) tell(what EventType, token int64, cause error) {
	if g.call == nil {
		return
	}
	e := Event{Type: what, Node: g.node, Token: uint64(token), Wait: g.wait, Held: time.Since(g.since), Cause: cause, Session: g.session}
	if what == EventAcquired {
		e.Result = resultAcquired
	}
	g.call.tell(e)
}
