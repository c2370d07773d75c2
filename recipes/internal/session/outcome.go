package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"
)

// failed makes the *OpError of an operation that was sent, and then refused by a server or cut short: by ctx, or by the end of
// the connection or the session.
func (s *Session) failed(o *op, outcome Outcome, err error) *OpError {
	if outcome != OutcomeDefinite { // after an answer, even an error, there is no reason to suspect the session
		s.look() // no timer has run yet on a machine just resumed
	}
	// If the session is over, that says more than the end of the connection. But it replaces neither a server's definite
	// answer nor the fact that the caller gave up. The outcome stays the same, whichever error is returned.
	if lost := s.Err(); lost != nil && !errors.Is(err, ErrLost) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded) && (outcome != OutcomeDefinite || errors.Is(err, zk.ErrSessionExpired)) {
		err = s.over()
	}
	return s.opError(o, outcome, err)
}

// opError makes the error that callers see: with a hint where there is one, and with better words where ZooKeeper's mislead.
func (s *Session) opError(o *op, outcome Outcome, err error) *OpError {
	e := &OpError{Op: o.name, Path: o.path, Outcome: outcome, Err: err}
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		// go-zookeeper words it "not authenticated", which sends people to the wrong place.
		e.Err = deniedError{fmt.Sprintf("permission denied: needs %s; connected as %s", cmp.Or(o.need, need(o.name, o.path)), s.Whoami())}
		e.Hint = "ask for that right, or check the credentials: ZooKeeper accepts a wrong digest password, and then grants nothing to it"
	case errors.Is(err, zk.ErrInvalidACL):
		e.Hint = "an ACL must not be empty, its schemes must be known to the servers, and scheme auth needs credentials"
	}
	return e
}

// deniedError is zk.ErrNoAuth in better words.
type deniedError struct{ text string }

func (e deniedError) Error() string        { return e.text }
func (e deniedError) Is(target error) bool { return target == zk.ErrNoAuth }

// need names the permission an operation needs, and the node it needs it on. Creating and deleting need it on the parent,
// where few people look; a check in a transaction needs READ (PrepRequestProcessor).
func need(op, node string) string {
	switch op {
	case "create":
		return "CREATE on " + path.Dir(node)
	case "delete":
		return "DELETE on " + path.Dir(node)
	case "set":
		return "WRITE on " + node
	case "setACL":
		return "ADMIN on " + node
	case "getACL":
		return "READ or ADMIN on " + node
	}
	return "READ on " + node
}
