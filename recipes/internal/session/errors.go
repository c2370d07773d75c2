package session

import (
	"errors"
	"fmt"
	"strings"

	"github.com/locktree/locktree/recipes/internal/session/sasl"
	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// The sentinels of the session and its operations. Test with errors.Is: they always arrive wrapped in a text that says what
// happened, where, and what to do next. ZooKeeper's own errors keep go-zookeeper's sentinels (zk.ErrNoNode, zk.ErrBadVersion...).
// Package recipes explains those that programs see; its ErrSessionLost is ErrLost.
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
	// errStaleProof: no write of this session was committed recently enough to start holding something.
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
	Path    string  // the node; of a multi, that of the first operation that failed, or of the first one
	Outcome Outcome // what is known about the effect
	Err     error   // the cause
	Hint    string  // what would help, a clause; may be empty
}

// Error returns "op path: cause (outcome unknown: it may or may not have been applied); hint".
func (e *OpError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %v", e.Op, e.Path, e.Err)
	if e.Outcome == OutcomeUnknown && writes(e.Op) {
		b.WriteString(" (outcome unknown: it may or may not have been applied)")
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// writes reports whether an operation changes the tree.
func writes(op string) bool {
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

// Retryable reports whether an operation that failed with err was never sent and may succeed when it is tried again, in the next
// session if this one is lost. An operation with an invalid path or flag is not sent either, but will fail again.
func Retryable(err error) bool {
	return OutcomeOf(err) == OutcomeNotSent && (errors.Is(err, errNotSent) || errors.Is(err, ErrLost)) && !errors.Is(err, ErrClosed)
}
