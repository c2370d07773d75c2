package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// op describes an operation: what is sent, and what its errors need.
type op struct {
	name    string
	code    int32
	path    string
	request any   // what is encoded; nil for reads, which send the path and, if they can watch, watch
	ops     []any // of a transaction
	read    bool  // changes nothing: repeated when its answer was lost with a connection
	watch   bool
	prompt  bool   // see call
	lane    lane   // laneAny: what its code says
	need    string // the permission that a transaction's failed operation needs
}

// maxRetries bounds how often a read is repeated, in case it is the answer that breaks the connection.
const maxRetries = 3

var errNotSent = errors.New("not sent")

// run performs an operation: it waits for a connection, sends the request, and waits for the answer, the end of ctx or the end
// of the session. When a server refuses the operation, run returns its reply together with the error.
func (s *Session) run(ctx context.Context, o *op) (*reply, error) { return s.await(ctx, o, nil) }

// await is run for an operation of which c was submitted already; nil if none was.
func (s *Session) await(ctx context.Context, o *op, c *call) (*reply, error) {
	for try := 0; ; c = nil {
		if c == nil {
			var err error
			if c, err = s.send(ctx, o); err != nil {
				return new(reply), err
			}
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return new(reply), s.failed(o, OutcomeUnknown, cause(ctx))
		}
		failed := s.outcome(o, c)
		if failed == nil {
			return &c.reply, nil
		}
		// Repeated only if the answer was lost: a definite one is final.
		if try++; s.Err() != nil || !o.read || failed.Outcome != OutcomeUnknown || try > maxRetries || ctx.Err() != nil {
			if c.err != nil {
				return new(reply), failed
			}
			return &c.reply, failed
		}
	}
}

// send submits an operation.
func (s *Session) send(ctx context.Context, o *op) (*call, error) {
	room := rooms.Get().(*frameRoom)
	defer rooms.Put(room)
	frame, err := s.encode(room[:0], o)
	if err != nil {
		return nil, err
	}
	c := o.call()
	c.done = make(chan struct{})
	return c, s.submit(ctx, o, frame, []*call{c}, true)
}

// frameRoom has space for the frames of most requests, until submit has copied them.
type frameRoom [512]byte

var rooms = sync.Pool{New: func() any { return new(frameRoom) }}

// call makes a request of the operation, to be sent once.
func (o *op) call() *call {
	c := new(call)
	o.ask(c)
	return c
}

// ask makes c a request of the operation.
func (o *op) ask(c *call) {
	c.op, c.ops, c.prompt = o.code, len(o.ops), o.prompt
	switch c.lane = o.lane; {
	case c.lane != laneAny:
	case o.code == jute.OpGetChildren2:
		c.lane = laneList
	case o.code == jute.OpDelete, slices.ContainsFunc(o.ops, func(part any) bool { _, deletes := part.(*zk.DeleteRequest); return deletes }):
		c.lane = laneRelease
	}
}

// submit hands calls to a connection, and waits for one if it is patient. They go out together, in this order and on one
// connection, or not at all: submit fails only if nothing was sent.
func (s *Session) submit(ctx context.Context, o *op, frames []byte, calls []*call, patient bool) error {
	calls[0].lane = laneOf(calls)
	slots := s.slots[calls[0].lane]
	for {
		l, err := s.awaitLink(ctx, patient)
		if err != nil {
			return s.opError(o, OutcomeNotSent, err)
		}
		select {
		case slots <- struct{}{}:
		default:
			if err := s.awaitSlot(ctx, slots); err != nil {
				return s.opError(o, OutcomeNotSent, err)
			}
		}
		calls[0].slot = true
		if l.submit(frames, calls) {
			return nil
		}
		<-slots
		s.lost(l) // the goroutine that found it dead has not called lost yet
	}
}

// awaitSlot waits until one of the operations under way is answered.
func (s *Session) awaitSlot(ctx context.Context, slots chan<- struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %d operations are under way: %w", errNotSent, cap(slots), cause(ctx))
	case <-s.done:
		return s.Err()
	}
}

// awaitLink returns the connection. A patient caller waits for one, until ctx ends. Giving up here leaves no doubt about the outcome:
// nothing was sent.
func (s *Session) awaitLink(ctx context.Context, patient bool) (*link, error) {
	for {
		s.mu.Lock()
		l, linked, err := s.link, s.linked, s.err
		s.mu.Unlock()
		ended := patient && ctx.Err() != nil
		switch {
		case ended && l == nil && err == nil:
			return nil, s.disconnected(ctx)
		case ended:
			return nil, cause(ctx)
		case err != nil: // first, because a lost session may still have its link
			return nil, s.over()
		case l != nil:
			return l, nil
		case !patient:
			return nil, fmt.Errorf("%w: there is no connection", errNotSent)
		}
		select {
		case <-linked:
		case <-s.done:
		case <-ctx.Done():
			return nil, s.disconnected(ctx)
		}
	}
}

// over is why a session that is lost is. Whoever holds something hears of that before any operation tells its caller.
func (s *Session) over() error {
	<-s.done
	return s.Err()
}

// disconnected is the error of a caller whose ctx ended while there was no connection.
func (s *Session) disconnected(ctx context.Context) error {
	return fmt.Errorf("%w while disconnected (%s)", cause(ctx), s.hosts.report())
}

// cause is ctx.Err(), together with context.Cause where that says more.
func cause(ctx context.Context) error {
	err, why := ctx.Err(), context.Cause(ctx)
	if why == nil || errors.Is(err, why) {
		return err
	}
	return fmt.Errorf("%w: %w", err, why)
}

// outcome is the error of an operation that was sent and has ended; nil if it succeeded.
func (s *Session) outcome(o *op, c *call) *OpError {
	switch {
	case c.err != nil:
		return s.failed(o, OutcomeUnknown, c.err)
	case c.reply.code == 0:
		return nil
	}
	if len(o.ops) > 0 && len(c.reply.results) > 0 {
		what, path := partOf(o.ops[c.reply.failed])
		o = &op{name: o.name, path: path, need: need(what, path)}
	}
	outcome, err := answer(c.reply.code)
	return s.failed(o, outcome, err)
}
