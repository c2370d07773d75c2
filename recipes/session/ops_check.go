package session

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"
)

// refuse is the error of an operation that is wrong before it is sent.
func (s *Session) refuse(o op, err error, hint string) *OpError {
	return &OpError{Op: o.name, Path: o.path, Outcome: OutcomeNotSent, Err: err, Hint: hint}
}

// first returns the first of joined errors: one mistake at a time reads better, and callers expect an *OpError.
func first(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()[0]
	}
	return err
}

// checkPath refuses what the servers would refuse (PathUtils.validatePath), with a reason. Servers are written in Java and
// compare UTF-16 units, so everything beyond U+FFFF, being surrogates there, is refused too. A server says no more than
// "bad arguments" about it, and go-zookeeper does not look at the paths of a transaction at all.
func (s *Session) checkPath(o op, sequential bool) error {
	if why := badPath(o.path, sequential); why != "" {
		return s.refuse(o, fmt.Errorf("%w: %s", zk.ErrInvalidPath, why), "")
	}
	return nil
}

// badPath says what is wrong with a path, or "". A sequential create's may end with a slash: the server looks at it with
// a number behind it, which is then the whole name.
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
	for i := 1; i <= len(path); i++ { // the end closes the last element, as a slash does the others
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

// checkACL refuses the list that no server takes (PrepRequestProcessor.fixupACL).
func (s *Session) checkACL(o op, acl []zk.ACL) error {
	if len(acl) == 0 {
		return s.refuse(o, fmt.Errorf("%w: it is empty", zk.ErrInvalidACL), "grant at least one permission to somebody")
	}
	return nil
}

// checkSize compares a request body's size, with its header (xid and operation), with what a server reads. The sizes are
// those of the encoding, to the byte: a server takes a frame of its limit and drops the connection at one byte more.
func (s *Session) checkSize(o op, body int) error {
	if n := 8 + body; n > maxRequest {
		return s.refuse(o, fmt.Errorf("%w: %d bytes, servers read at most %d", ErrTooLarge, n, maxRequest), "")
	}
	return nil
}

// checkMulti checks a transaction and names it after its first operation.
func (s *Session) checkMulti(o *op, ops []any) error {
	if len(ops) == 0 {
		return s.refuse(*o, errors.New("recipes: a transaction needs at least one operation"), "")
	}
	size := 9 // the header that ends the operations
	for i, each := range ops {
		part := op{name: o.name, path: pathOf(each)}
		if i == 0 {
			o.path = part.path
		}
		sequential := false
		if create, ok := each.(*zk.CreateRequest); ok {
			if create.Flags < 0 || create.Flags > zk.FlagEphemeral|zk.FlagSequence {
				return s.refuse(part, fmt.Errorf("%w: %d in a transaction", zk.ErrInvalidFlags, create.Flags),
					"go-zookeeper cannot read the result of a container or TTL create in a transaction")
			}
			if err := s.checkACL(part, create.Acl); err != nil {
				return err
			}
			sequential = create.Flags&zk.FlagSequence != 0
		}
		n := opSize(each)
		if n == 0 {
			return s.refuse(part, fmt.Errorf("recipes: operation %d of the transaction is a %T", i, each), "")
		}
		if err := s.checkPath(part, sequential); err != nil {
			return err
		}
		size += 9 + n // its header: type, done, error
	}
	return s.checkSize(*o, size)
}

// pathOf returns the path of a transaction's operation, "" for a stranger.
func pathOf(op any) string {
	switch r := op.(type) {
	case *zk.CreateRequest:
		return r.Path
	case *zk.SetDataRequest:
		return r.Path
	case *zk.DeleteRequest:
		return r.Path
	case *zk.CheckVersionRequest:
		return r.Path
	}
	return ""
}

// needOf returns the permission an operation needs, and where: of a check READ on its node
// (PrepRequestProcessor, case check).
func needOf(op any) string {
	switch r := op.(type) {
	case *zk.CreateRequest:
		return need("create", r.Path)
	case *zk.SetDataRequest:
		return need("set", r.Path)
	case *zk.DeleteRequest:
		return need("delete", r.Path)
	}
	return need("get", pathOf(op))
}

// opSize is the encoded size of an operation's body, 0 for a stranger: strings, byte arrays and vectors with four bytes
// of length, flags and versions of four bytes.
func opSize(op any) int {
	switch r := op.(type) {
	case *zk.CreateRequest:
		return 4 + len(r.Path) + 4 + len(r.Data) + aclSize(r.Acl) + 4
	case *zk.SetDataRequest:
		return 4 + len(r.Path) + 4 + len(r.Data) + 4
	case *zk.DeleteRequest:
		return 4 + len(r.Path) + 4
	case *zk.CheckVersionRequest:
		return 4 + len(r.Path) + 4
	}
	return 0
}

// aclSize is the encoded size of an access list: of each entry the permissions and two strings.
func aclSize(acl []zk.ACL) int {
	n := 4
	for _, a := range acl {
		n += 12 + len(a.Scheme) + len(a.ID)
	}
	return n
}
