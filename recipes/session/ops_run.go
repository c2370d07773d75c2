package session

import (
	"context"
	"errors"
	"fmt"
)

// op describes an operation: what is sent, and what its errors say.
type op struct {
	name    string
	code    int32
	path    string
	request any   // what is encoded; of a read the path and, where it may watch, watch
	ops     []any // of a transaction
	read    bool  // changes nothing: asked again when its answer was lost with a connection
	watch   bool
	need    string // the permission it needs, for a multi's failed operation
}

// maxRetries bounds how often a read is asked again, in case it is its answer that breaks the connection.
const maxRetries = 3

var errNotSent = errors.New("not sent")

// run performs an operation: it waits for a connection, sends, and waits for the answer, ctx or the end of the session. Of an
// operation that failed the reply has what a server said beside the error.
func (s *Session) run(ctx context.Context, o op) (reply, error) {
	frame, err := s.encode(&o)
	if err != nil {
		return reply{}, err
	}
	for try := 0; ; {
		c := o.call(frame)
		if err := s.submit(ctx, o, c); err != nil {
			return reply{}, err
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return reply{}, s.failed(o, OutcomeUnknown, cause(ctx))
		}
		failed := s.outcome(o, c)
		if failed == nil {
			return c.reply, nil
		}
		// Asked again only where the answer was lost: a definite one stands.
		if try++; s.Err() != nil || !o.read || failed.Outcome != OutcomeUnknown || try > maxRetries || ctx.Err() != nil {
			if c.err != nil {
				return reply{}, failed
			}
			return c.reply, failed
		}
	}
}

// call makes of an operation something that can be sent once.
func (o *op) call(frame []byte) *call {
	return &call{op: o.code, path: o.path, watch: o.watch, ops: len(o.ops), frame: frame, done: make(chan struct{})}
}

// submit hands calls to the connection, and waits until there is one. They go out together, in this order and on one
// connection, or not at all: it fails only if nothing was sent.
func (s *Session) submit(ctx context.Context, o op, calls ...*call) error {
	for {
		l, err := s.awaitLink(ctx)
		if err != nil {
			return s.opError(o, OutcomeNotSent, err)
		}
		select {
		case s.guard.slots <- struct{}{}:
		default:
			select {
			case s.guard.slots <- struct{}{}:
			case <-ctx.Done():
				return s.opError(o, OutcomeNotSent, fmt.Errorf("%w: %d operations are under way: %w", errNotSent, maxInFlight, cause(ctx)))
			case <-s.done:
				return s.opError(o, OutcomeNotSent, s.Err())
			}
		}
		calls[0].slot = true
		if l.submit(calls...) {
			return nil
		}
		<-s.guard.slots
		s.lost(l) // which whoever found it dead has not come to say yet
	}
}

// awaitLink waits until there is a connection: what is not sent yet can be given up without a doubt.
func (s *Session) awaitLink(ctx context.Context) (*link, error) {
	for {
		if ctx.Err() != nil {
			return nil, cause(ctx)
		}
		s.mu.Lock()
		l, linked, err := s.link, s.linked, s.err
		s.mu.Unlock()
		switch {
		case err != nil: // first, because a lost session may still have its link
			return nil, err
		case l != nil:
			return l, nil
		}
		select {
		case <-linked:
		case <-s.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w while disconnected (%s)", cause(ctx), s.guard.hosts.report())
		}
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

// outcome is the error of an operation that was sent and is over.
func (s *Session) outcome(o op, c *call) *OpError {
	switch {
	case c.err != nil:
		return s.failed(o, OutcomeUnknown, c.err)
	case c.reply.code == 0:
		return nil
	}
	if len(o.ops) > 0 && len(c.reply.results) > 0 {
		o.path, o.need = pathOf(o.ops[c.reply.failed]), needOf(o.ops[c.reply.failed])
	}
	outcome, err := answer(c.reply.code)
	return s.failed(o, outcome, err)
}
