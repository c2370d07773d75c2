package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// Pipelined is a write with listings right behind it, on one connection. ZooKeeper serves a session in order, so every
// listing is of a state that includes the write.
//
// When the write's outcome is NotSent nothing was sent and listErr is err. When it failed otherwise the listings may
// have been read before or after its effect. When listErr is not nil children is nil: list again. Each error is an
// *OpError. No part is retried after it was sent.
type Pipelined struct {
	s    *Session
	o    op
	Done chan struct{} // closed when the write was answered or will never be; then names and err are set

	Names    []string // what each operation answered with: of a create, the path
	Err      error
	Children [][]string // of the node lists[i]
	ListErr  error
}

// CreateAndList creates a node and lists the given parents in one round trip. create.Path must be unique to this call (a
// contender's GUID makes it so). create.Flags as in Session.Create.
func (s *Session) CreateAndList(ctx context.Context, create *zk.CreateRequest, lists ...string) *Pipelined {
	o := op{name: "create", path: create.Path, handed: make(chan struct{})}
	if err := s.checkCreate(o, create); err != nil {
		return s.notPipelined(o, err)
	}
	return s.pipeline(ctx, opCreate, o, lists, func() ([]string, error) {
		name, err := s.create(ctx, o, create)
		return []string{name}, err
	})
}

// MultiAndList is CreateAndList for a transaction. The first operation's path must be unique to this call.
func (s *Session) MultiAndList(ctx context.Context, ops []any, lists ...string) *Pipelined {
	o := op{name: "multi", handed: make(chan struct{})}
	if err := s.checkMulti(&o, ops); err != nil {
		return s.notPipelined(o, err)
	}
	return s.pipeline(ctx, opMulti, o, lists, func() ([]string, error) {
		results, err := s.transact(ctx, o, ops)
		names := make([]string, len(results))
		for i, r := range results {
			names[i] = r.String
		}
		return names, err
	})
}

func (s *Session) notPipelined(o op, err error) *Pipelined {
	p := &Pipelined{s: s, o: o, Done: make(chan struct{}), Err: err, ListErr: err}
	close(p.Done)
	return p
}

// errReconnected: the listings came over another connection than the write, perhaps from a server that lags behind.
var errReconnected = errors.New("the connection changed between the write and the listing")

// pipeline starts the write and, as its frame goes out, the listings, and returns when both are answered or ctx ends. The
// write goes on then: see wait.
//
// go-zookeeper has one queue and one writer for all goroutines but does not tell when something has entered it; the
// guard, which sees frames go by, does. (Left to the scheduler the listing came behind its create in 99 of 100 rounds, or
// in none, by how the goroutines were started.)
//
// The link the write went out on must still be the session's when the listings have come. Then all went over it, in
// order: links are not used again, and a request given to go-zookeeper never goes out on an older one. A listing from
// another server may be of a state before the write, and "nobody is ahead" read in it would be no grant.
func (s *Session) pipeline(ctx context.Context, code int32, o op, lists []string, write func() ([]string, error)) *Pipelined {
	w, forget := s.guard.onWritten(code, o.path)
	defer forget()
	p := &Pipelined{s: s, o: o, Done: make(chan struct{})}
	go func() {
		defer close(p.Done)
		p.Names, p.Err = write()
	}()
	select {
	case <-w.done:
	case <-ctx.Done():
		select { // one of the two at once: what has not been handed over by now never will be
		case <-p.Done:
		case <-o.handed:
		}
		p.ListErr = p.Outcome(ctx)
		return p
	case <-p.Done:
		select {
		case <-w.done: // both were ready: a reply that is quicker than this goroutine is no write that was not sent
		default: // never written
			p.ListErr = p.Err
			return p
		}
	}
	p.Children, p.ListErr = s.ListAll(ctx, lists)
	if p.ListErr == nil && len(lists) > 0 && !s.isOn(w.link) {
		p.ListErr = s.opError(op{name: "children", path: lists[0]}, OutcomeDefinite, fmt.Errorf("list again: %w", errReconnected))
		p.Children = nil
	}
	select {
	case <-p.Done:
	case <-ctx.Done():
	}
	return p
}

// Answered reports whether names and err are set.
func (p *Pipelined) Answered() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Outcome returns the write's error. One that ctx ended before the answer came is of unknown outcome for the moment: done
// tells when there is more to know.
func (p *Pipelined) Outcome(ctx context.Context) error {
	if p.Answered() {
		return p.Err
	}
	return p.s.failed(p.o, cause(ctx))
}

// ListAll lists several nodes at once. None is asked again: the second answer might come over another connection, and is
// the caller's to ask for.
func (s *Session) ListAll(ctx context.Context, paths []string) ([][]string, error) {
	all, errs := make([][]string, len(paths)), make([]error, len(paths))
	done := make(chan struct{})
	for i, path := range paths {
		go func() {
			o := op{name: "children", path: path, read: true, once: true}
			l, err := s.children(ctx, o, (*zk.Conn).Children)
			all[i], errs[i] = l.names, err
			done <- struct{}{}
		}()
	}
	for range paths {
		<-done
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// isOn says whether l is still the session's connection. A link is used once.
func (s *Session) isOn(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link == l
}

// linkNumber counts the connections so far.
func (s *Session) linkNumber() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links
}

// DeleteSent returns a channel that is closed as the next delete of path goes out, alone or as the first operation of a
// transaction, and a function to stop waiting for it. Servers obey a session in order: whatever it asks after that finds the
// node deleted, unless the delete fails.
func (s *Session) DeleteSent(path string, inMulti bool) (sent <-chan struct{}, forget func()) {
	code := opDelete
	if inMulti {
		code = opMulti
	}
	w, forget := s.guard.onWritten(code, path)
	return w.done, forget
}
