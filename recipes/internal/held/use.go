package held

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
)

// Use is one use of a lock, by the caller that took the lock or by a caller that entered it again. recipes.Lease is a Use.
type Use struct {
	H      *Lock
	g      *tenure
	Caller context.Context // the context of the call

	// The lock's mu guards the rest.
	state    useState
	ctx      context.Context // nil until a caller asks for it
	cancel   context.CancelCauseFunc
	why      error     // why the use ended before its lock; nil if it did not end earlier
	released time.Time // when the use was given back
	became   *Use      // the use for which this use was exchanged; nil if there is none
}

// useState says whether a use was given back.
type useState int

const (
	used      useState = iota // the use is held while its lock is held
	released                  // its owner has given the use back
	exchanged                 // Unlock gives back another use: the one in the field became
)

var useMoves = map[useState][]useState{used: {released}, released: {exchanged}}

// Listener returns the listener that received the grant.
func (l *Use) Listener() Listener { return l.g.told }

// Enter returns another use of the lock, for a caller with a context of l; nil if l has ended. If listener is not nil, it
// receives a grant.
func (l *Use) Enter(ctx context.Context, listener Listener) *Use {
	h := l.H
	h.mu.Lock()
	if h.state == over || l.state != used {
		h.mu.Unlock()
		return nil
	}
	h.leases++
	if listener == nil {
		l.g.leases++
	}
	h.mu.Unlock()
	g := l.g
	if listener != nil {
		g = new(tenure)
		h.begin(g, listener)
	}
	return &Use{H: h, g: g, Caller: ctx}
}

// Do runs fn under the lock, and then gives the lock back. The function releasing makes the context for the giving back.
func (l *Use) Do(ctx context.Context, fn func(context.Context) error, releasing func() (context.Context, context.CancelFunc)) (err error) {
	inner, cancel := context.WithCancelCause(l.within(ctx))
	l.H.runs.Add(1)
	stop := context.AfterFunc(l.Context(), func() { cancel(context.Cause(l.Context())) })
	defer func() {
		stop()
		cancel(nil)
		l.H.runs.Add(-1)
		unlock, done := releasing()
		defer done()
		err = AfterGrant(errors.Join(err, l.Unlock(unlock)))
		l.H.workEnded() // fn may have called Unlock itself
	}()
	return fn(lookingContext{inner, l.H})
}

// end cancels the context of a use that ends before its lock.
func (l *Use) end(why error) {
	l.H.mu.Lock()
	l.why = why
	delete(l.H.contexts, l)
	cancel := l.cancel
	l.H.mu.Unlock()
	if cancel != nil {
		cancel(why)
	}
}

// endIfOverdue ends the lock if the session is lost by the clock, and reports whether the session is lost.
func (h *Lock) endIfOverdue() bool {
	if time.Now().Before(h.owner.Session.Deadline()) || h.owner.Session.State() != session.StateLost {
		return false
	}
	h.Lose(h.owner.Session.Err()) // the session also calls Lose, but perhaps has not finished
	return true
}

// Context implements Lease.Context of package recipes.
func (l *Use) Context() context.Context {
	h := l.H
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.ctx != nil {
		return l.ctx
	}
	// The context has the caller's values, but not its deadline, which bounded the wait.
	ctx, cancel := context.WithCancelCause(l.within(context.WithoutCancel(l.Caller)))
	l.ctx, l.cancel = lookingContext{ctx, h}, cancel
	switch {
	case l.why != nil:
		cancel(l.why)
	case h.cause != nil:
		cancel(h.cause)
	default:
		if h.contexts == nil {
			h.contexts = map[*Use]struct{}{}
		}
		h.contexts[l] = struct{}{}
	}
	return l.ctx
}

// Token implements Lease.Token of package recipes.
func (l *Use) Token() uint64 {
	h := l.H
	if h.known != nil {
		select {
		case <-h.known:
		case <-l.Context().Done():
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return uint64(h.czxid)
}

// Deadline implements Lease.Deadline of package recipes.
func (l *Use) Deadline() time.Time {
	at := l.H.owner.Session.Deadline()
	l.H.mu.Lock()
	defer l.H.mu.Unlock()
	for _, ended := range []time.Time{l.released, l.H.ended} {
		if !ended.IsZero() && ended.Before(at) {
			at = ended
		}
	}
	return at
}

// Verify implements Lease.Verify of package recipes.
func (l *Use) Verify(ctx context.Context) error {
	if err := l.Ended(); err != nil {
		return err
	}
	err := retry.Do(ctx, l.H.owner.Session, func(err error) bool { return znode.Unanswered(err) && l.Ended() == nil }, func() error {
		return l.H.owner.Session.Confirm(ctx, znode.Paths(l.H.nodes)...)
	})
	if znode.IsNoNode(err) {
		l.H.sessionSays(err)
	}
	return cmp.Or(l.Ended(), AfterGrant(err))
}

// Ended returns why the lease is no longer held; nil while it is held, also after it was revoked.
func (l *Use) Ended() error {
	l.H.mu.Lock()
	defer l.H.mu.Unlock()
	return l.endedLocked()
}

// endedLocked is Ended for callers that hold the lock's mu.
func (l *Use) endedLocked() error {
	return cmp.Or(l.why, l.H.why)
}

// Multi implements Lease.Multi of package recipes.
func (l *Use) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	if err := l.Ended(); err != nil {
		return nil, err
	}
	guarded := make([]any, 0, len(l.H.nodes)+len(ops))
	for _, k := range l.H.nodes {
		guarded = append(guarded, &zk.CheckVersionRequest{Path: k.Path, Version: -1})
	}
	res, err := l.H.owner.Session.Multi(ctx, append(guarded, ops...)...)
	if len(res) == 0 { // the reply did not come
		return nil, AfterGrant(err)
	}
	own := len(l.H.nodes)
	for _, check := range res[:own] {
		if errors.Is(check.Error, zk.ErrNoNode) {
			l.H.sessionSays(check.Error)
			return nil, cmp.Or(l.Ended(), AfterGrant(err))
		}
	}
	return res[own:], AfterGrant(err)
}

// Unlock implements Lease.Unlock of package recipes.
func (l *Use) Unlock(ctx context.Context) error {
	if l == nil {
		return nil
	}
	if now := l.turnedInto(); now != nil {
		return now.Unlock(ctx)
	}
	// A context of l ends when l is released. So Unlock waits with a context of its own, which goes on.
	if ctx.Value(l.H) != nil && ctx.Err() == nil {
		until := time.Now().Add(l.H.owner.Session.Timeout())
		if at, ok := ctx.Deadline(); ok && at.Before(until) {
			until = at
		}
		longer, done := context.WithDeadline(context.WithoutCancel(ctx), until)
		defer done()
		ctx = longer
	}
	if l.release() {
		return nil
	}
	last, err := l.H.leave(l)
	if last {
		err = l.H.giveBack(ctx)
	}
	return AfterGrant(err)
}

// Release implements Lease.Release of package recipes.
func (l *Use) Release() {
	if l == nil {
		return
	}
	if now := l.turnedInto(); now != nil {
		now.Release()
		return
	}
	if l.release() {
		return
	}
	if last, _ := l.H.leave(l); last {
		l.H.releaseAsync()
	}
}

// release marks the lease as given back. It reports whether the lease had been given back before.
func (l *Use) release() (again bool) {
	l.H.endIfOverdue()
	l.H.mu.Lock()
	defer l.H.mu.Unlock()
	if again = !step(useMoves, &l.state, released); !again {
		l.released = time.Now()
	}
	if l.endedLocked() == nil {
		l.why = Released(l.H.Of.Path())
	}
	return again
}

// become ends the lease. From then on its Unlock gives back successor.
func (l *Use) become(successor *Use) {
	l.release()
	l.H.mu.Lock()
	defer l.H.mu.Unlock()
	if step(useMoves, &l.state, exchanged) {
		l.became = successor
	}
}

func (l *Use) turnedInto() *Use {
	l.H.mu.Lock()
	defer l.H.mu.Unlock()
	return l.became
}

// Key is a key for Context.Value. For the Key of a lock, a context derived from a lease returns the Use of that lease.
type Key struct {
	Of   any // the client
	Path string
}

type usesKey struct{}

// leaseContext is a context under l. Value returns l if it is asked for the lock of l, for the Key of that lock, or for the Key
// of a member. For usesKey it returns the context itself: see UsesOf.
type leaseContext struct {
	context.Context
	l *Use
}

func (l *Use) within(ctx context.Context) context.Context { return &leaseContext{ctx, l} }

func (c *leaseContext) Value(key any) any {
	switch key := key.(type) {
	case Key:
		if c.l.H.Of.Has(key) {
			return c.l
		}
	case *Lock:
		if c.l.H == key {
			return c.l
		}
	case usesKey:
		return c
	}
	return c.Context.Value(key)
}

// UsesOf returns the uses that have not ended and from which ctx is derived, the innermost first.
func UsesOf(ctx context.Context) (all []*Use) {
	for {
		c, ok := ctx.Value(usesKey{}).(*leaseContext)
		if !ok {
			return all
		}
		if c.l.Ended() == nil {
			all = append(all, c.l)
		}
		ctx = c.Context
	}
}

// Detach returns a context with the values of ctx, but without its uses, deadline and cancellation.
func Detach(ctx context.Context) context.Context { return useless{context.WithoutCancel(ctx)} }

type useless struct{ context.Context }

func (c useless) Value(key any) any {
	switch key.(type) {
	case Key, *Lock, usesKey:
		return nil
	}
	return c.Context.Value(key)
}

// lookingContext is a context that ends with a lease. Its Err reads the clock, because no timer has run yet if the process was
// stopped for longer than a lease lasts.
type lookingContext struct {
	context.Context
	h *Lock
}

func (c lookingContext) Err() error {
	if err := c.Context.Err(); err != nil || !c.h.endIfOverdue() {
		return err
	}
	<-c.Context.Done() // it ends with the lease
	return c.Context.Err()
}
