package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session/sasl"
	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// The sentinels of the session and its operations. Test with errors.Is: they always arrive wrapped in a text that says what
// happened, where, and what to do next. ZooKeeper's own errors keep go-zookeeper's sentinels (zk.ErrNoNode, zk.ErrBadVersion...).
// Package recipes explains the sentinels that programs see; its ErrSessionLost is ErrLost.
var (
	ErrClosed = errors.New("recipes: client closed")
	ErrLost   = errors.New("recipes: session lost")
	// errExpired: a server said that the session has expired, or silently handed out another. Always wrapped with ErrLost.
	errExpired       = errors.New("recipes: session expired")
	ErrUnreachable   = errors.New("recipes: ZooKeeper unreachable")
	ErrAuth          = wire.ErrAuth
	ErrReadOnly      = errors.New("recipes: read-only client")
	ErrTooLarge      = wire.ErrTooLarge
	ErrQuotaExceeded = wire.ErrQuotaExceeded
	ErrThrottled     = wire.ErrThrottled
	ErrServer        = wire.ErrServer
	ErrProtocol      = wire.ErrProtocol
	// ErrCannotHeartbeat: the node's ACL does not let us read it, so it cannot carry the heartbeats that prove the session.
	ErrCannotHeartbeat = errors.New("recipes: cannot heartbeat")
	// errStaleProof: the session must commit a write before it starts holding something.
	errStaleProof = errors.New("recipes: no recent committed write")
)

// Outcome says what is known about a failed operation's effect on the servers.
type Outcome = wire.Outcome

// The outcomes; see package wire.
const (
	OutcomeUnknown  = wire.OutcomeUnknown
	OutcomeDefinite = wire.OutcomeDefinite
	OutcomeNotSent  = wire.OutcomeNotSent
)

// Secret is a string that must not be shown to people; see package sasl.
type Secret = sasl.Secret

// Container is an operation of a transaction; see package wire.
type Container = wire.Container

// OpError is the error of every Session operation; direct.OpError says more.
type OpError struct {
	Op      string  // "create", "get", "multi", ...
	Path    string  // the node; for a multi, the node of the operation that failed first, or of the first operation if that is not known
	Outcome Outcome // what is known about the effect
	Err     error   // the cause
	Hint    string  // what would help, a clause; may be empty
}

// Error returns "op path: cause (outcome unknown: it may or may not have been applied); hint".
func (e *OpError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %v", e.Op, e.Path, e.Err)
	if e.Outcome == OutcomeUnknown && isWrite(e.Op) {
		b.WriteString(" (outcome unknown: it may or may not have been applied)")
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// isWrite reports whether an operation changes the tree.
func isWrite(op string) bool {
	switch op {
	case "create", "set", "setACL", "delete", "multi":
		return true
	}
	return false
}

// OutcomeOf returns what err says about an operation's effect; OutcomeUnknown for errors that are not an *OpError.
func OutcomeOf(err error) Outcome {
	var op *OpError
	if errors.As(err, &op) {
		return op.Outcome
	}
	return OutcomeUnknown
}

// Retryable reports whether an operation that failed with err was never sent and may succeed when it is tried again. If this
// session is lost, the next session makes that try. An operation with an invalid path or flag is not sent either, but will fail
// again.
func Retryable(err error) bool {
	return OutcomeOf(err) == OutcomeNotSent && (errors.Is(err, errNotSent) || errors.Is(err, ErrLost)) && !errors.Is(err, ErrClosed)
}

// newOpError makes the *OpError of an operation that was sent. A server refused it, or it was cut short: by ctx, or by the end of
// the connection or the session.
func (s *Session) newOpError(o *op, outcome Outcome, err error) *OpError {
	if outcome != OutcomeDefinite { // after an answer, even an error, there is no reason to suspect the session
		s.look() // on a machine that has just resumed, no timer has run yet
	}
	// If the session is over, that says more than the end of the connection. But the end of the session replaces neither a
	// server's definite answer nor the fact that the caller gave up. The outcome stays the same, whichever error is returned.
	if lost := s.Err(); lost != nil && !errors.Is(err, ErrLost) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded) && (outcome != OutcomeDefinite || errors.Is(err, zk.ErrSessionExpired)) {
		err = s.whyLost()
	}
	return s.opError(o, outcome, err)
}

// opError makes the error that callers see: with a hint where there is one, and with better words where ZooKeeper's mislead.
func (s *Session) opError(o *op, outcome Outcome, err error) *OpError {
	e := &OpError{Op: o.name, Path: o.path, Outcome: outcome, Err: err}
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		// go-zookeeper words it "not authenticated", which sends people to the wrong place.
		e.Err = deniedError{fmt.Sprintf("permission denied: needs %s; connected as %s", cmp.Or(o.need, neededRight(o.name, o.path)), s.Whoami())}
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

// neededRight names the permission that an operation needs, and the node on which it needs it. Creating and deleting need a
// permission on the parent, where few people look; a check in a transaction needs READ (PrepRequestProcessor).
func neededRight(op, node string) string {
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
