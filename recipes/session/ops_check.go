package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"
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
	start, e := len(b), encoder{append(b, 0, 0, 0, 0, 0, 0, 0, 0)} // length, xid
	e.int32(o.code)
	if e.node(o.request) == 0 {
		e.other(o)
	}
	// A server accepts a frame of exactly this size and drops the connection at one byte more.
	n := len(e.b) - start - 4
	if n > maxRequest {
		return nil, s.refuse(o, fmt.Errorf("%w: %d bytes, servers read at most %d", ErrTooLarge, n, maxRequest), "")
	}
	binary.BigEndian.PutUint32(e.b[start:], uint32(n))
	return e.b, nil
}

// other appends an operation that is no part of a transaction, or a transaction.
func (e *encoder) other(o *op) {
	switch r := o.request.(type) {
	case nil:
		if o.code == opMulti {
			e.multi(o.ops)
			break
		}
		e.str(o.path)
		if o.code == opExists || o.code == opGetData || o.code == opGetChildren2 {
			e.bool(o.watch)
		}
	case Auth:
		e.int32(0)
		e.str(r.Scheme)
		e.buffer([]byte(r.Credentials))
	case *setACL:
		e.str(o.path)
		e.acls(r.acl)
		e.int32(r.version)
	case *watchKey:
		e.str(r.path)
		e.int32(r.watcherType())
	case *setWatches:
		e.int64(r.since)
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
	if o.code != opMulti {
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
	case *setACL:
		toNobody = len(r.acl) == 0
	case *setWatches:
		for _, k := range r.keys[1:] {
			if badPath(k.path, false) != "" {
				o.path = k.path // refused below
			}
		}
	}
	if why := badPath(o.path, sequential); why != "" {
		return s.refuse(o, fmt.Errorf("%w: %s", zk.ErrInvalidPath, why), "")
	}
	if toNobody { // PrepRequestProcessor.fixupACL
		return s.refuse(o, fmt.Errorf("%w: it is empty", zk.ErrInvalidACL), "grant at least one permission to somebody")
	}
	return nil
}

// badPath says what is wrong with a path, or returns "", by the rules of the servers (PathUtils.validatePath), which answer
// only "bad arguments". They compare UTF-16 units, so they also refuse everything beyond U+FFFF. The path of a sequential
// create may end with a slash: the number is then the whole name.
func badPath(path string, sequential bool) string {
	switch {
	case path == "" || path[0] != '/':
		return "a path begins with /"
	case path == "/":
		return ""
	case !utf8.ValidString(path):
		return "it is not valid UTF-8"
	case path[len(path)-1] == '/' && !sequential:
		return "a path does not end with /"
	}
	start := 1
	for i := 1; i <= len(path); i++ { // up to len(path), because the end of the path also ends an element
		if i < len(path) && path[i] != '/' {
			continue
		}
		switch name := path[start:i]; {
		case name == "" && i < len(path):
			return "it has an empty element (//)"
		case name == "." || name == "..":
			return "it has the element " + name
		}
		start = i + 1
	}
	for _, r := range path {
		if r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
			return fmt.Sprintf("it has the character %U", r)
		}
	}
	return ""
}

// partOf says what an operation of a transaction does, and to which node; "" for other types.
func partOf(op any) (what, path string) {
	switch r := op.(type) {
	case *zk.CreateRequest:
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
