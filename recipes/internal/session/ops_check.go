package session

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// refuse is the error of an operation that is invalid and therefore not sent.
func (s *Session) refuse(o *op, err error, hint string) *OpError {
	return &OpError{Op: o.name, Path: o.path, Outcome: OutcomeNotSent, Err: err, Hint: hint}
}

// encode checks an operation and appends its frame to b. The xid is filled in by submit.
func (s *Session) encode(b []byte, o *op) ([]byte, error) {
	// A confirm goes through the quorum as a write does, but changes nothing.
	if s.client.cfg.ReadOnly && !o.read && o.name != "confirm" {
		return nil, s.refuse(o, ErrReadOnly, "")
	}
	if err := s.check(o); err != nil {
		return nil, err
	}
	start, e := len(b), newEncoder(append(b, 0, 0, 0, 0, 0, 0, 0, 0)) // length, xid
	e.Int32(o.code)
	if e.node(o.request) == 0 {
		e.other(o)
	}
	// A server accepts a frame of exactly this size and drops the connection at one byte more.
	n := len(e.B) - start - 4
	if n > maxRequest {
		return nil, s.refuse(o, fmt.Errorf("%w: a request of %d bytes; servers read up to %d", ErrTooLarge, n, maxRequest), "")
	}
	binary.BigEndian.PutUint32(e.B[start:], uint32(n))
	return e.B, nil
}

// other appends an operation that is no part of a transaction, or a transaction.
func (e *encoder) other(o *op) {
	switch r := o.request.(type) {
	case nil:
		if o.code == jute.OpMulti {
			e.multi(o.ops)
			break
		}
		e.Str(o.path)
		if o.code == jute.OpExists || o.code == jute.OpGetData || o.code == jute.OpGetChildren2 {
			e.Bool(o.watch)
		}
	case Auth:
		e.Int32(0)
		e.Str(r.Scheme)
		e.Buffer([]byte(r.Credentials))
	case *setACL:
		e.Str(o.path)
		e.acls(r.acl)
		e.Int32(r.version)
	case *watchKey:
		e.Str(r.path)
		e.Int32(r.watcherType())
	case *setWatches:
		e.Int64(r.since)
		e.paths(r.keys[:r.data])
		e.paths(nil) // whose creation is waited for
		e.paths(r.keys[r.data:])
	}
}

// setACL is what SetACL sends besides the path.
type setACL struct {
	acl     []zk.ACL
	version int32
}

// setWatches is what SetWatches sends.
type setWatches struct {
	since int64
	keys  []watchKey // on data, and then on lists of children
	data  int        // the number of the former
}

// check refuses what servers would refuse with a worse explanation, or answer by dropping the connection. A transaction is
// named after its first operation.
func (s *Session) check(o *op) error {
	if o.code != jute.OpMulti {
		return s.checkNode(o)
	}
	if len(o.ops) == 0 {
		return s.refuse(o, errors.New("recipes: a transaction needs at least one operation"), "")
	}
	for i, each := range o.ops {
		what, path := partOf(each)
		if i == 0 {
			o.path = path
		}
		part := &op{name: o.name, path: path, request: each}
		if what == "" {
			return s.refuse(part, fmt.Errorf("recipes: a transaction has no operation of type %T; use *zk.CreateRequest, SetDataRequest, DeleteRequest or CheckVersionRequest", each), "")
		}
		if err := s.checkNode(part); err != nil {
			return err
		}
	}
	return nil
}

// checkNode refuses a path, flags or an access list that no server accepts.
func (s *Session) checkNode(o *op) error {
	sequential, toNobody := false, false
	switch r := o.request.(type) {
	case Auth:
		return nil
	case *zk.CreateRequest:
		if r.Flags < 0 || r.Flags > zk.FlagEphemeralSequential {
			return s.refuse(o, fmt.Errorf("%w: %d", zk.ErrInvalidFlags, r.Flags), "use 0, ephemeral, sequence, or both")
		}
		sequential, toNobody = r.Flags&zk.FlagSequence != 0, len(r.Acl) == 0
	case *Container:
		toNobody = len(r.ACL) == 0
	case *setACL:
		toNobody = len(r.acl) == 0
	case *setWatches:
		for _, k := range r.keys[1:] {
			if jute.BadPath(k.path, false) != "" {
				o.path = k.path // refused below
			}
		}
	}
	if why := jute.BadPath(o.path, sequential); why != "" {
		return s.refuse(o, fmt.Errorf("%w: %s", zk.ErrInvalidPath, why), "")
	}
	if toNobody { // PrepRequestProcessor.fixupACL
		return s.refuse(o, fmt.Errorf("%w: it is empty", zk.ErrInvalidACL), "grant at least one permission to somebody")
	}
	return nil
}

// partOf says what an operation of a transaction does, and to which node; "" for other types.
func partOf(op any) (what, path string) {
	switch r := op.(type) {
	case *zk.CreateRequest:
		return "create", r.Path
	case *Container:
		return "create", r.Path
	case *zk.SetDataRequest:
		return "set", r.Path
	case *zk.DeleteRequest:
		return "delete", r.Path
	case *zk.CheckVersionRequest:
		return "check", r.Path
	}
	return "", ""
}
