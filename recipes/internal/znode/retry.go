package znode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/session"
)

// What is tried again, for how long, and where:
//
//	a place in a queue, made anew         while nothing was done (didNothing)      in the next session, if need be
//	an exchange of nodes that exist       while nothing was done                   in the session they are of
//	a read, a check, the mark of a grant  until a server answers (unanswered)      in the session it was asked in
//	a node that WithCreate makes          until a server answers                   in that session, or in the next one
//	a look at a node that is held         until one says if it is there (unseen)   in the session that holds it
//	what became of a transaction          until it is known (txn.resolve)          in its session, patiently, also without its caller
//	the deletion of what must not stay    until it is gone (janitor.work)          in its session, patiently
//	a campaign                            while it may still be won (Retryable)    in the next session, patiently
//
// A session itself asks again for an answer that was lost, a few times (session.Session).

// Retry calls try until it succeeds, or fails in a way that is not worth another try, or until ctx or s is over; without s
// the next session will do. Pauses grow from 10 ms to a second.
func Retry(ctx context.Context, s *session.Session, worth func(error) bool, try func() error) error {
	return retryWithin(ctx, s, time.Second, worth, try)
}

// Patiently is retry for what may take long, and nobody or few wait for: pauses grow to 5 s.
func Patiently(ctx context.Context, s *session.Session, worth func(error) bool, try func() error) error {
	return retryWithin(ctx, s, 5*time.Second, worth, try)
}

func retryWithin(ctx context.Context, s *session.Session, longest time.Duration, worth func(error) bool, try func() error) error {
	for t := (Tries{Longest: longest}); ; {
		if err := try(); t.Over(ctx, s, worth, &err) {
			return err
		}
	}
}

// Tries is retry as a loop, for what a waiter does: its stack is as deep as its calls.
type Tries struct{ wait, Longest time.Duration }

// Over reports whether err is final; else it has paused. What ends a pause becomes part of err.
func (t *Tries) Over(ctx context.Context, s *session.Session, worth func(error) bool, err *error) bool {
	if *err == nil || !worth(*err) {
		return true
	}
	t.wait = max(10*time.Millisecond, min(2*t.wait, cmp.Or(t.Longest, time.Second)))
	switch why := Pause(ctx, s, t.wait); {
	case why == nil:
		return false
	case ctx.Err() == nil && errors.Is(*err, why):
		*err = why
	case ctx.Err() == nil: // not %w: that nothing was done in this session is no reason to go on in the next one
		*err = errs.Errorf("%w: %v", why, *err)
	case !errors.Is(*err, why):
		*err = errs.Errorf("%w: %w", WhyEnded(ctx), *err)
	}
	return true
}

// Pause waits a little before another try; its error says why there must be none. A session that is over ends it at once,
// which is what bounds every loop that pauses; s is nil where no session is concerned.
func Pause(ctx context.Context, s *session.Session, d time.Duration) error {
	var over <-chan struct{}
	if s != nil {
		over = s.Done()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-over:
		return s.Err()
	}
}

// errNotQueued: the session was lost before it was used for more than reading.
var errNotQueued = errors.New("no place in the queue was asked for yet")

// NotQueued marks the error of a session that was lost while it was only read from: the next one will do.
func NotQueued(err error) error {
	if !errors.Is(err, session.ErrLost) {
		return err
	}
	return errs.Errorf("%w: %w", errNotQueued, err)
}

// DidNothing: nothing was done and another try may succeed.
func DidNothing(err error) bool {
	return errors.Is(err, ErrNotApplied) || errors.Is(err, errNotQueued) && !errors.Is(err, session.ErrClosed) || session.Retryable(err)
}

// Unanswered: no server has answered an operation, and this side did not refuse to send it. A session bounds how often it asks
// again; who waits in a queue must not lose its place to a network that cuts a fourth connection while session and context
// live. A request that was shed was not looked at: a place in the queue, or a grant, is too much to pay for it.
func Unanswered(err error) bool {
	var op *session.OpError
	switch {
	case !errors.As(err, &op), errors.Is(err, session.ErrClosed):
		return false
	case op.Outcome == session.OutcomeDefinite:
		return errors.Is(err, session.ErrThrottled)
	}
	return op.Outcome == session.OutcomeUnknown || session.Retryable(err)
}

// Unseen: no server has said that a node is gone, or asked back.
func Unseen(err error) bool { return !errors.Is(err, ErrLost) && !errors.Is(err, ErrRevoked) }

var (
	// ErrLost: the lease, or the place in the queue, ended without being given back. Final.
	ErrLost = errors.New("recipes: lock lost")
	// ErrRevoked: somebody asked the holder to give the lock back. It is still held until Unlock.
	ErrRevoked = errors.New("recipes: revocation requested")
	// ErrReleasePending: the lease is released, but its node is not yet known to be gone. The client keeps deleting
	// it in the background until that succeeds or the session is over; others may have to wait until then.
	ErrReleasePending = errors.New("recipes: release pending")
	// ErrKeyForeign: the node of a key has another access list than its family declares, so another program has made it. Whoever the
	// list admits could end the lock. Delete the node when nobody uses it, or declare the family with foreign = true.
	ErrKeyForeign = errors.New("recipes: the node of the key is another program's")
	// ErrSequenceExhausted: the node has numbered almost 2^31 contenders, and ZooKeeper would soon hand out
	// duplicates. Delete the node and apply it again while nobody queues.
	ErrSequenceExhausted = errors.New("recipes: sequence numbers exhausted")
	// ErrSessionFull: the paths of this session's contenders add up to more than 512 KiB. A server must be
	// able to list them all in the transaction that ends the session (ZOOKEEPER-4306). Release some locks, or
	// use another Client.
	ErrSessionFull = errors.New("recipes: too many contenders in one session")
)

// LostError is the cause that the context of a lost lease carries.
func LostError(path string, cause error) error {
	if cause == nil {
		cause = errors.New("its node is gone")
	}
	return errs.Errorf("%w: %s: %w", ErrLost, path, cause)
}

// WhyEnded is the cause of ctx's end, which matches ctx.Err too: callers ask for either, whatever cause somebody gave.
func WhyEnded(ctx context.Context) error {
	why, err := context.Cause(ctx), ctx.Err()
	if errors.Is(why, err) {
		return why
	}
	return fmt.Errorf("%w%.0w", why, err) // .0: the text is the cause's alone
}

// IsNoNode saves its callers the spelling.
func IsNoNode(err error) bool { return errors.Is(err, zk.ErrNoNode) }
