package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// createAndList creates a node and lists the given parents in one round trip: the listings are put on the wire right
// behind the create, on one connection, and ZooKeeper serves a session in order, so every listing is of a state that
// includes the create. create.Path must be unique to this call (a contender's GUID makes it so). create.Flags as in
// Session.Create. children[i] belongs to lists[i].
//
// When the create's outcome is NotSent nothing was sent and listErr is createErr. When it failed otherwise the
// listings may have been read before or after its effect. When listErr is not nil children is nil: list again. Each
// is an *OpError. No part is retried after it was sent.
func (s *Session) createAndList(ctx context.Context, create *zk.CreateRequest, lists ...string) (created string, createErr error, children [][]string, listErr error) {
	o := op{name: "create", path: create.Path}
	if err := s.checkCreate(o, create); err != nil {
		return "", err, nil, err
	}
	return pipeline(ctx, s, opCreate, o, lists, func() (string, error) { return s.create(ctx, o, create) })
}

// multiAndList is createAndList for a transaction. The first operation's path must be unique to this call.
func (s *Session) multiAndList(ctx context.Context, ops []any, lists ...string) (results []zk.MultiResponse, multiErr error, children [][]string, listErr error) {
	o := op{name: "multi"}
	if err := s.checkMulti(&o, ops); err != nil {
		return nil, err, nil, err
	}
	return pipeline(ctx, s, opMulti, o, lists, func() ([]zk.MultiResponse, error) { return s.transact(ctx, o, ops) })
}

// errReconnected: the listings came over another connection than the write, perhaps from a server that lags behind.
var errReconnected = errors.New("the connection changed between the write and the listing")

// pipeline starts the write and, as its frame goes out, the listings. go-zookeeper has one queue and one writer for all
// goroutines but does not tell when something has entered it; the guard, which sees frames go by, does. (Left to
// the scheduler the listing came behind its create in 99 of 100 rounds, or in none, by how the goroutines were started.)
//
// The link the write went out on must still be the session's when the listings have come. Then all went over it, in
// order: links are not used again, and a request given to go-zookeeper never goes out on an older one. A listing from
// another server may be of a state before the write, and "nobody is ahead" read in it would be no grant.
func pipeline[T any](ctx context.Context, s *Session, code int32, o op, lists []string, write func() (T, error)) (v T, writeErr error, children [][]string, listErr error) {
	written, forget := s.guard.onWritten(code, o.path)
	defer forget()
	done := make(chan struct{})
	go func() {
		defer close(done)
		v, writeErr = write()
	}()
	var l *link
	select {
	case l = <-written:
	case <-done:
		select {
		case l = <-written: // both were ready: a reply that is quicker than this goroutine is no write that was not sent
		default: // never written
			return v, writeErr, nil, writeErr
		}
	}
	children, listErr = s.listAll(ctx, lists)
	if listErr == nil && len(lists) > 0 && !s.isOn(l) {
		listErr = s.opError(op{name: "children", path: lists[0]}, Definite, fmt.Errorf("list again: %w", errReconnected))
		children = nil
	}
	<-done
	return v, writeErr, children, listErr
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
