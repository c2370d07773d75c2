package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
)

// Lease is one grant of a lock, from its acquisition to its release or loss. It is never used again.
type Lease struct {
	h      *holding
	g      *tenure         // its holder's, who may have entered it several times
	caller context.Context // of the call that took the lock

	// The holding's mu guards the rest.
	ctx      context.Context // nil while nobody asks for it
	cancel   context.CancelCauseFunc
	why      error     // it ended before the holding did
	released time.Time // when Unlock was called
	became   *Lease    // what Downgrade has turned it into, if it has
}

// leaseKey finds the lease of a lock in the contexts derived from it.
type leaseKey struct {
	c    *Client
	path string
}

// leaseOf hands out a Lease on the holding.
func (h *holding) leaseOf(ctx context.Context, g *tenure) *Lease {
	return &Lease{h: h, g: g, caller: ctx}
}

// end cancels the context of a lease that ends before its holding, also if it is asked for later.
func (l *Lease) end(why error) {
	l.h.mu.Lock()
	l.why = why
	delete(l.h.contexts, l)
	cancel := l.cancel
	l.h.mu.Unlock()
	if cancel != nil {
		cancel(why)
	}
}

// leased is a context in which what l holds, of a set each member, is found by its leaseKey; the last of all leases by leasesKey.
type leased struct {
	context.Context
	l *Lease
}

type leasesKey struct{}

func (l *Lease) within(ctx context.Context) context.Context { return &leased{ctx, l} }

func (c *leased) Value(key any) any {
	switch key.(type) {
	case leaseKey:
		if key == c.l.h.q.key || slices.ContainsFunc(c.l.h.members, func(q *queue) bool { return q.key == key }) {
			return c.l
		}
	case leasesKey:
		return c
	}
	return c.Context.Value(key)
}

// leasesOf are the leases that ctx comes from, the last first.
func leasesOf(ctx context.Context) (all []*Lease) {
	for {
		c, ok := ctx.Value(leasesKey{}).(*leased)
		if !ok {
			return all
		}
		if c.l.ended() == nil {
			all = append(all, c.l)
		}
		ctx = c.Context
	}
}

// looking is a context that ends with a lease, and whose Err reads the clock: after a process or its machine was stopped for
// longer than a lease lasts, no timer has run yet when it asks.
type looking struct {
	context.Context
	h *holding
}

func (c looking) Err() error {
	if err := c.Context.Err(); err != nil || !c.h.overdue() {
		return err
	}
	<-c.Context.Done() // what has ended the lease ends this too
	return c.Context.Err()
}

// overdue looks at the clock; when it reports true the lease is lost.
func (h *holding) overdue() bool {
	if time.Now().Before(h.e.S.Deadline()) || h.e.S.State() != session.StateLost {
		return false
	}
	h.lose(h.e.S.Err()) // which the session does too, but perhaps it has just begun to
	return true
}

// Context is cancelled when the lease is released, lost, or asked back. context.Cause tells which: it is ErrReleased,
// ErrLost (with why) or ErrRevoked. It is cancelled before a rival can be granted the lock, as long as this process's
// clock runs and this process is scheduled. Otherwise only the fencing token can stop what is done later. Its Err
// method, and that of the context which Do passes on, reads the clock: in a process that was stopped for too long,
// the first call reports the loss. A context derived from it ends a moment later.
//
// If somebody deletes the lease's node by hand, or asks for the lock back, Context is cancelled when this process
// hears of it. In the first 100 ms of a lease the node is not watched, so that may be only when they are over.
func (l *Lease) Context() context.Context {
	h := l.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.ctx != nil {
		return l.ctx
	}
	// The caller's values go along, its deadline does not: it bounded the wait.
	ctx, cancel := context.WithCancelCause(l.within(context.WithoutCancel(l.caller)))
	l.ctx, l.cancel = looking{ctx, h}, cancel
	switch {
	case l.why != nil:
		cancel(l.why)
	case h.cause != nil:
		cancel(h.cause)
	default:
		if h.contexts == nil {
			h.contexts = map[*Lease]struct{}{}
		}
		h.contexts[l] = struct{}{}
	}
	return l.ctx
}

// Path returns the lock's path.
func (l *Lease) Path() string { return l.h.path }

// Node returns the path of the contender that holds the lock; for several permits, that of the first.
func (l *Lease) Node() string { return l.h.ks[0].Path }

// Token is the fencing token: larger for every later exclusive grant of this lock, across sessions, restarts and a
// lock node that was deleted and created again. It is ZooKeeper's czxid of the contender, so anybody can check it. A
// store that remembers the largest token it has seen and refuses smaller ones never obeys a stale holder. If a place
// passes from one holder of this client to the next ([WithLocalHandoff], [WithRetention]), they all have the same
// token.
//
// The reply to the create contains it. If that reply was lost, the token is read after the grant, and Token waits for
// it: one round trip at most. Token then returns 0, which is not a valid token, if the lease ended first, or if the ACL
// denies the client READ on its own node (ZooKeeper 3.8.4+ and 3.9.2+ then hide it). Readers of one lock, and permits of
// one semaphore, have tokens too, but these order grants, not holders: compare them per slot. After a restored backup
// ZooKeeper counts from an older state again, and tokens may repeat: "locktree help restore-backup" says how to prevent
// that.
func (l *Lease) Token() uint64 {
	h := l.h
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

// Deadline returns the time until which the lease is safe without another reply from ZooKeeper: half a session
// timeout after the last committed write of its session was sent. It advances while the connection is good. For a
// lease that has ended it is no later than the end.
func (l *Lease) Deadline() time.Time {
	at := l.h.e.S.Deadline()
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	for _, ended := range []time.Time{l.released, l.h.ended} {
		if !ended.IsZero() && ended.Before(at) {
			at = ended
		}
	}
	return at
}

// Verify proves, by a committed write, that the lease is held at a moment after the call began. It takes one round
// trip; if the reply is lost with the connection, it tries again until ctx or the lease ends. It returns ErrLost,
// ErrReleased, or an error that says why the proof failed.
func (l *Lease) Verify(ctx context.Context) error {
	if err := l.ended(); err != nil {
		return err
	}
	err := znode.Retry(ctx, l.h.e.S, func(err error) bool { return znode.Unanswered(err) && l.ended() == nil }, func() error {
		return l.h.e.S.Confirm(ctx, znode.Paths(l.h.ks)...)
	})
	if znode.IsNoNode(err) {
		l.h.sessionSays(err)
	}
	return cmp.Or(l.ended(), afterGrant(err))
}

// ended says why the lease is no longer held; nil while it is, also while it is asked back.
func (l *Lease) ended() error {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return l.over()
}

// over is ended for callers that hold the holding's mu.
func (l *Lease) over() error {
	return cmp.Or(l.why, l.h.why)
}

// Multi applies ops as one transaction that fails as a whole if the lease's node is gone when ZooKeeper applies it. So
// a holder that has lost its lock without knowing it writes nothing once somebody else has been granted the lock.
// Multi then returns ErrLost, and the lease has ended. The results are those of ops. The operations are
// *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest and *zk.CheckVersionRequest; together they must fit into
// one request (1,048,575 bytes); otherwise Multi sends nothing and returns ErrTooLarge.
//
// When the reply is lost the outcome of the error, an *OpError, is unknown: read to find out. Such a write may still be
// applied after the lease has ended, as long as its node exists: until the servers have deleted it or, of a lost
// session, have expired it; for readers of one client, which share a node, until the last of them has released it.
func (l *Lease) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	if err := l.ended(); err != nil {
		return nil, err
	}
	guarded := make([]any, 0, len(l.h.ks)+len(ops))
	for _, k := range l.h.ks {
		guarded = append(guarded, &zk.CheckVersionRequest{Path: k.Path, Version: -1})
	}
	res, err := l.h.e.S.Multi(ctx, append(guarded, ops...)...)
	if len(res) == 0 { // the reply did not come
		return nil, afterGrant(err)
	}
	own := len(l.h.ks)
	for _, check := range res[:own] {
		if errors.Is(check.Error, zk.ErrNoNode) {
			l.h.sessionSays(check.Error)
			return nil, cmp.Or(l.ended(), afterGrant(err))
		}
	}
	return res[own:], afterGrant(err)
}

// Unlock gives the lock back. It returns nil when that is done, and also on later calls. ctx bounds only the wait for
// the confirmation: if ctx has ended, the lock is given back all the same, and the error is ErrReleasePending until
// that is confirmed. ErrLost means that the lease was lost earlier, so another holder may have interfered with what
// it guarded.
//
// ctx may be the lease's own Context, or the one that Do passes on. Unlock ends both, and goes on waiting all the same: until
// their deadline, for a session timeout at most.
//
// For a lock entered several times (see WithReentrancy), the last Unlock gives it back.
//
// Unlock of a nil Lease does nothing, so it can be deferred before an error is looked at.
func (l *Lease) Unlock(ctx context.Context) error {
	if l == nil {
		return nil
	}
	if now := l.turnedInto(); now != nil {
		return now.Unlock(ctx)
	}
	ctx, done := l.outlived(ctx)
	defer done()
	if l.release() {
		return nil
	}
	last, err := l.h.leave(l)
	if last {
		err = l.h.giveBack(ctx)
	}
	return afterGrant(err)
}

// Release gives the lock back as Unlock does, but waits for no answer: it ends the lease, sends what deletes its node, and returns.
// It is for programs that take one lock after another. What the client asks for next goes out behind that request, on the same
// connection, so each lock costs one round trip, and the servers commit the delete and the next create together.
//
// Not guaranteed: that the lock is free when Release returns. Others are granted it when the servers have deleted the node, half a
// round trip later if the connection holds; use Unlock to know that they can be. The client goes on deleting as behind
// ErrReleasePending, so there is no error that a caller could act on. If the lease was lost before, the cause of its Context is
// ErrLost. A program that ends calls [Client.Close], which frees whatever is left.
//
// The next call of this client that takes the same lock alone waits until the node is gone. Permits, readers, and writers that
// follow readers of their client do not wait for that: they are served behind the delete. If the connection is cut
// at that moment, they may find their client's own old node ahead of them until it is deleted, and a Try is refused because of it.
//
// Of one client, 256 deletes are under way at most, those of Unlock included. Release waits while there are as many, but for no more
// than a sixth of the session timeout. If it cannot send the request by then, or there is no connection, that is left to
// the background too. Until a node is known to be gone it counts towards the limit of the session (512 KiB of paths).
//
// WithLocalHandoff, WithRetention, WithReentrancy, second calls, and a nil Lease: as for Unlock.
func (l *Lease) Release() {
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
	if last, _ := l.h.leave(l); last {
		l.h.letGo()
	}
}

// outlived is ctx, without the end that the release of l would bring it.
func (l *Lease) outlived(ctx context.Context) (context.Context, context.CancelFunc) {
	own, _ := ctx.Value(l.h.q.key).(*Lease)
	if own == nil || own.h != l.h || ctx.Err() != nil {
		return ctx, func() {}
	}
	until := time.Now().Add(l.h.e.S.Timeout())
	if at, ok := ctx.Deadline(); ok && at.Before(until) {
		until = at
	}
	return context.WithDeadline(context.WithoutCancel(ctx), until)
}

// release marks the lease as given back, and reports whether it was before.
func (l *Lease) release() (again bool) {
	l.h.overdue()
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	if again = !l.released.IsZero(); !again {
		l.released = time.Now()
	}
	if l.over() == nil {
		l.why = releasedError(l.Path())
	}
	return again
}

// become ends the lease in favour of now, which its Unlock gives back from then on.
func (l *Lease) become(now *Lease) {
	l.release()
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	l.became = now
}

func (l *Lease) turnedInto() *Lease {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return l.became
}

// do takes a lock, and runs fn under its lease.
func do(ctx context.Context, take func(context.Context) (*Lease, error), fn func(context.Context, *Lease) error) error {
	l, err := take(ctx)
	if err != nil {
		return err
	}
	return l.do(ctx, fn)
}

// do runs fn under the lease and gives it back.
func (l *Lease) do(ctx context.Context, fn func(context.Context, *Lease) error) (err error) {
	inner, cancel := context.WithCancelCause(l.within(ctx))
	l.h.runs.Add(1)
	stop := context.AfterFunc(l.Context(), func() { cancel(context.Cause(l.Context())) })
	defer func() {
		stop()
		cancel(nil)
		l.h.runs.Add(-1)
		unlock, done := l.releasing(ctx)
		defer done()
		err = afterGrant(errors.Join(err, l.Unlock(unlock)))
		l.h.workEnded() // fn may have called Unlock itself
	}()
	return fn(looking{inner, l.h}, l)
}

// releasing bounds the release of a lock whose work is done: see WithMaxRelease. A session timeout is the longest time that a
// session can survive without its server.
func (l *Lease) releasing(ctx context.Context) (context.Context, context.CancelFunc) {
	most, set := l.h.e.S.Timeout(), l.g.q.opts.maxRelease
	for _, q := range l.h.members {
		set = shorter(set, q.opts.maxRelease)
	}
	late := shorter(most/6, set)
	most = shorter(most, set)
	unlock, end := context.WithTimeoutCause(context.WithoutCancel(ctx), most, fmt.Errorf("%w: not confirmed within %v", context.DeadlineExceeded, most))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(late):
			end()
		case <-unlock.Done():
		}
	})
	return unlock, func() { stop(); end() }
}
