package session

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// Pipelined is a write followed immediately by listings, on one connection. ZooKeeper serves a session in order, so every
// listing shows a state that includes the write.
//
// When the write's outcome is OutcomeNotSent nothing was sent and ListErr is Err. When it failed otherwise the listings may
// show the state before or after its effect. When ListErr is not nil Children is nil: list again. Each error is an
// *OpError. Nothing is retried after it was sent.
type Pipelined struct {
	s    *Session
	o    op
	Done chan struct{} // closed when the write was answered or never will be; then Names, Zxid and Err are set
	name [1]string     // where Names is, unless it is of a transaction
	room [1]call       // of the write, where nothing is listed

	Names    []string // for each operation: the path of the node it created, or ""
	Zxid     int64    // of the write: the czxid of every node it created
	Err      error
	Children [][]string // of the node lists[i]
	ListErr  error
}

// CreateAndList creates a node and lists the given parents in one round trip. create.Flags as in Session.Create.
func (s *Session) CreateAndList(ctx context.Context, create *zk.CreateRequest, lists ...string) *Pipelined {
	return s.pipeline(ctx, &Pipelined{o: op{name: "create", code: opCreate, path: create.Path, request: create}}, lists)
}

// MultiAndList is CreateAndList for a transaction.
func (s *Session) MultiAndList(ctx context.Context, ops []any, lists ...string) *Pipelined {
	return s.pipeline(ctx, &Pipelined{o: op{name: "multi", code: opMulti, ops: ops}}, lists)
}

// pipeline sends the write of p and the listings together, and returns when both are answered or ctx ends.
func (s *Session) pipeline(ctx context.Context, p *Pipelined, lists []string) *Pipelined {
	p.s, p.Done = s, make(chan struct{})
	room := rooms.Get().(*frameRoom)
	defer rooms.Put(room)
	calls := p.room[:]
	if len(lists) > 0 {
		calls = make([]call, 1+len(lists))
	}
	frames, err := s.encode(room[:0], &p.o)
	if err == nil {
		p.o.ask(&calls[0])
		calls[0].done, calls[0].lead = p.Done, p
		frames, err = s.listings(frames, calls[1:], lists)
	}
	if err == nil {
		err = s.submit(ctx, &p.o, frames, calls)
	}
	if err != nil {
		p.Err, p.ListErr = err, err
		close(p.Done)
		return p
	}
	p.Children, p.ListErr = s.collect(ctx, calls[1:])
	select {
	case <-p.Done:
	case <-ctx.Done():
	}
	return p
}

// answered stores the write's result.
func (p *Pipelined) answered(c *call) {
	if failed := p.s.outcome(&p.o, c); failed != nil {
		p.Err = failed
	}
	if c.err != nil {
		return
	}
	p.Zxid, p.name[0] = c.reply.zxid, c.reply.path
	if p.Names = p.name[:]; c.op == opMulti {
		p.Names = make([]string, len(c.reply.results))
		for i, r := range c.reply.results {
			p.Names[i] = r.String
		}
	}
}

// Answered reports whether Done is closed.
func (p *Pipelined) Answered() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Outcome returns the write's error. If ctx ended before the answer came, the outcome is unknown until Done is closed.
func (p *Pipelined) Outcome(ctx context.Context) error {
	if p.Answered() {
		return p.Err
	}
	return p.s.failed(&p.o, OutcomeUnknown, cause(ctx))
}

// ListAll lists several nodes at once. It never repeats a listing: the second answer might come over another connection, and
// whether to ask again is the caller's decision.
func (s *Session) ListAll(ctx context.Context, paths []string) ([][]string, error) {
	calls := make([]call, len(paths))
	frames, err := s.listings(nil, calls, paths)
	if err == nil && len(calls) > 0 {
		err = s.submit(ctx, &op{name: "children", path: paths[0]}, frames, calls)
	}
	if err != nil {
		return nil, err
	}
	return s.collect(ctx, calls)
}

// listings makes calls those that list the nodes, and appends their frames to b.
func (s *Session) listings(b []byte, calls []call, paths []string) (frames []byte, err error) {
	for i, path := range paths {
		o := readList(path)
		if b, err = s.encode(b, o); err != nil {
			return nil, err
		}
		o.ask(&calls[i])
		calls[i].done = make(chan struct{})
	}
	return b, nil
}

// collect waits for the listings.
func (s *Session) collect(ctx context.Context, calls []call) ([][]string, error) {
	all := make([][]string, len(calls))
	for i := range calls {
		c := &calls[i]
		o := &op{name: "children", path: c.path}
		select {
		case <-c.done:
		case <-ctx.Done():
			return nil, s.failed(o, OutcomeUnknown, cause(ctx))
		}
		if failed := s.outcome(o, c); failed != nil {
			return nil, failed
		}
		all[i] = c.reply.names
	}
	return all, nil
}

// DeleteSent returns a channel that is closed when the next delete of path goes out, alone or (inMulti) as the first operation
// of a transaction, and a function that stops waiting for it. Servers obey a session in order: every later request of this
// session finds the node deleted, unless the delete fails.
func (s *Session) DeleteSent(path string, inMulti bool) (sent <-chan struct{}, forget func()) {
	code := opDelete
	if inMulti {
		code = opMulti
	}
	return s.guard.onSubmitted(writeKey{code, path})
}
