package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// pipelined is a write with listings right behind it, on one connection. ZooKeeper serves a session in order, so every
// listing is of a state that includes the write.
//
// When the write's outcome is NotSent nothing was sent and listErr is err. When it failed otherwise the listings may
// have been read before or after its effect. When listErr is not nil children is nil: list again. Each error is an
// *OpError. No part is retried after it was sent.
type pipelined struct {
	s    *Session
	o    op
	done chan struct{} // closed when the write was answered or will never be; then names and err are set

	names    []string // what each operation answered with: of a create, the path
	err      error
	children [][]string // of the node lists[i]
	listErr  error
}

// createAndList creates a node and lists the given parents in one round trip. create.Path must be unique to this call (a
// contender's GUID makes it so). create.Flags as in Session.Create.
func (s *Session) createAndList(ctx context.Context, create *zk.CreateRequest, lists ...string) *pipelined {
	o := op{name: "create", path: create.Path, handed: make(chan struct{})}
	if err := s.checkCreate(o, create); err != nil {
		return s.notPipelined(o, err)
	}
	return s.pipeline(ctx, opCreate, o, lists, func() ([]string, error) {
		name, err := s.create(ctx, o, create)
		return []string{name}, err
	})
}

// multiAndList is createAndList for a transaction. The first operation's path must be unique to this call.
func (s *Session) multiAndList(ctx context.Context, ops []any, lists ...string) *pipelined {
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

func (s *Session) notPipelined(o op, err error) *pipelined {
	p := &pipelined{s: s, o: o, done: make(chan struct{}), err: err, listErr: err}
	close(p.done)
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
func (s *Session) pipeline(ctx context.Context, code int32, o op, lists []string, write func() ([]string, error)) *pipelined {
	written, forget := s.guard.onWritten(code, o.path)
	defer forget()
	p := &pipelined{s: s, o: o, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.names, p.err = write()
	}()
	var l *link
	select {
	case l = <-written:
	case <-ctx.Done():
		select { // one of the two at once: what has not been handed over by now never will be
		case <-p.done:
		case <-o.handed:
		}
		p.listErr = p.outcome(ctx)
		return p
	case <-p.done:
		select {
		case l = <-written: // both were ready: a reply that is quicker than this goroutine is no write that was not sent
		default: // never written
			p.listErr = p.err
			return p
		}
	}
	p.children, p.listErr = s.listAll(ctx, lists)
	if p.listErr == nil && len(lists) > 0 && !s.isOn(l) {
		p.listErr = s.opError(op{name: "children", path: lists[0]}, Definite, fmt.Errorf("list again: %w", errReconnected))
		p.children = nil
	}
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	return p
}

// answered reports whether names and err are set.
func (p *pipelined) answered() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// outcome returns the write's error. One that ctx ended before the answer came is of unknown outcome for the moment: done
// tells when there is more to know.
func (p *pipelined) outcome(ctx context.Context) error {
	if p.answered() {
		return p.err
	}
	return p.s.failed(p.o, cause(ctx))
}

// listAll lists several nodes at once. None is asked again: the second answer might come over another connection, and is
// the caller's to ask for.
func (s *Session) listAll(ctx context.Context, paths []string) ([][]string, error) {
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
