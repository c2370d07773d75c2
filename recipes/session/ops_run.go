package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// op describes an operation under way: for errors, and for whether it may be asked twice.
type op struct {
	name string
	path string
	read bool // changes nothing: asked again when its answer was lost with a connection
	once bool // a read that must not be asked again
	// handed is closed when the operation is handed to go-zookeeper. With it ctx bounds the way there only: what was
	// handed over is waited for until it is answered, or never will be.
	handed chan struct{}
	need   string // the permission it needs, for a multi's failed operation
}

// maxRetries bounds how often a read is asked again, in case it is its answer that breaks the connection.
const maxRetries = 3

var errNotSent = errors.New("not sent")

// run performs an operation. It waits for a connection, hands the operation to go-zookeeper on a goroutine of its own
// (go-zookeeper has no contexts) and waits for its answer, ctx or the end of the session. An operation abandoned by
// ctx keeps its slot until go-zookeeper lets go of it, at the latest when the connection is lost.
func run[T any](ctx context.Context, s *Session, o op, fn func(*zk.Conn) (T, error)) (T, error) {
	var zero T
	// A confirm goes through the quorum as writes do, and changes nothing.
	if s.client.cfg.ReadOnly && !o.read && o.name != "confirm" {
		return zero, s.refuse(o, ErrReadOnly, "")
	}
	for try := 0; ; {
		if err := s.awaitLink(ctx); err != nil {
			return zero, s.opError(o, OutcomeNotSent, err)
		}
		v, err := attempt(ctx, s, o.handed, fn)
		if err == nil {
			return v, nil
		}
		wrapped := s.failed(o, err)
		if ctx.Err() != nil {
			return zero, wrapped
		}
		// Asked again only where the answer was lost: a definite one stands.
		if try++; s.Err() == nil && o.read && !o.once && wrapped.Outcome == OutcomeUnknown && try <= maxRetries {
			continue
		}
		return zero, wrapped
	}
}

// awaitLink waits until there is a connection. Nothing is given to go-zookeeper before: what waits in its queue
// cannot be taken back. It would be written into whatever connection comes next, when its caller has long been told that
// it was given up. (One that ends between this and the write leaves the request to the next one, or its outcome unknown.)
func (s *Session) awaitLink(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return cause(ctx)
	}
	s.mu.Lock()
	linked := s.linked
	s.mu.Unlock()
	// First, because a lost session may still have its link: which of two that are ready is taken is left to chance.
	select {
	case <-s.done:
		return s.Err()
	default:
	}
	select {
	case <-linked:
		return nil
	case <-s.done:
		return s.Err()
	case <-ctx.Done():
		return fmt.Errorf("%w while disconnected (%s)", cause(ctx), s.guard.hosts.report())
	}
}

// cause is ctx.Err, with the cause beside it when one was given.
func cause(ctx context.Context) error {
	err, why := ctx.Err(), context.Cause(ctx)
	if why == nil || errors.Is(err, why) {
		return err
	}
	return fmt.Errorf("%w: %w", err, why)
}

// attempt hands fn to go-zookeeper and waits: with handed until fn has returned, whatever becomes of ctx. Without it a
// caller whose ctx ends never sees the result, which is go-zookeeper's to write until fn returns. Such a caller knows
// nothing of the order either: fn may begin later than what is asked next.
func attempt[T any](ctx context.Context, s *Session, handed chan struct{}, fn func(*zk.Conn) (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	var zero T
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return zero, fmt.Errorf("%w: %d operations are under way: %w", errNotSent, maxInFlight, cause(ctx))
	case <-s.done:
		return zero, fmt.Errorf("%w: %w", errNotSent, s.Err())
	}
	if handed != nil {
		close(handed)
		ctx = context.WithoutCancel(ctx)
	}
	answered := make(chan result, 1)
	go func() {
		defer func() { <-s.slots }()
		if s.client.preempt != nil {
			s.client.preempt()
		}
		v, err := fn(s.conn)
		answered <- result{v, err}
	}()
	select {
	case r := <-answered:
		return r.v, r.err
	case <-ctx.Done():
		return zero, cause(ctx)
	case <-s.done:
	}
	// The answer may have come before the end. If not, closing the zk.Conn makes go-zookeeper let go at once.
	select {
	case r := <-answered:
		return r.v, r.err
	case <-ctx.Done():
		return zero, cause(ctx)
	}
}
