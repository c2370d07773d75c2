package session

import (
	"errors"
	"fmt"
	"strings"
)

// The sentinels of the session and its operations. Test with errors.Is: they always arrive wrapped in a text that says what
// happened, where, and what to do next. ZooKeeper's own errors keep go-zookeeper's sentinels (zk.ErrNoNode, zk.ErrBadVersion...).
// What programs see of these, package recipes explains; its ErrSessionLost is ErrLost.
var (
	ErrClosed = errors.New("recipes: client closed")
	ErrLost   = errors.New("recipes: session lost")
	// errExpired: a server said that the session has expired, or silently handed out another. Always wrapped with ErrLost.
	errExpired       = errors.New("recipes: session expired")
	ErrUnreachable   = errors.New("recipes: ZooKeeper unreachable")
	ErrAuth          = errors.New("recipes: authentication refused")
	ErrReadOnly      = errors.New("recipes: read-only client")
	ErrTooLarge      = errors.New("recipes: too large") // a request that is sent all the same would cost every other one its connection
	ErrQuotaExceeded = errors.New("recipes: quota exceeded")
	ErrThrottled     = errors.New("recipes: throttled by the server")
	ErrServer        = errors.New("recipes: server error")
	// ErrProtocol: the peer sent bytes that are not ZooKeeper's protocol. The connection was dropped.
	ErrProtocol = errors.New("recipes: protocol violation")
	// ErrCannotHeartbeat: the node's ACL does not let us read it, so it cannot carry the heartbeats that prove the session.
	ErrCannotHeartbeat = errors.New("recipes: cannot heartbeat")
	// errStaleProof: no write of this session was committed recently enough to start holding something.
	errStaleProof = errors.New("recipes: no recent committed write")
)

// prefix begins the errors of this library.
const prefix = "recipes: "

// Errorf is fmt.Errorf for an error that wraps others of this library: its text has one prefix.
func Errorf(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &worded{err, OnePrefix(err.Error())}
}

// OnePrefix moves the prefixes in a text to its beginning.
func OnePrefix(text string) string {
	rest, begins := strings.CutPrefix(text, prefix)
	plain := strings.ReplaceAll(rest, ": "+prefix, ": ")
	if begins || plain != rest {
		return prefix + plain
	}
	return text
}

// worded is an error with another text.
type worded struct {
	error
	text string
}

func (e *worded) Error() string { return e.text }
func (e *worded) Unwrap() error { return e.error }

// Outcome says what is known about a failed operation's effect on the servers.
type Outcome int

const (
	// OutcomeUnknown: the operation may have been applied, may still be applied, or may never be. It is the zero value
	// because it must be assumed when nothing is known.
	OutcomeUnknown Outcome = iota
	// OutcomeDefinite: a server answered. The operation was refused and had no effect.
	OutcomeDefinite
	// OutcomeNotSent: the operation never left this process.
	OutcomeNotSent
)

// String returns "unknown", "definite" or "not sent".
func (o Outcome) String() string {
	switch o {
	case OutcomeDefinite:
		return "definite"
	case OutcomeNotSent:
		return "not sent"
	default:
		return "unknown"
	}
}

// OpError is the error of every Session operation; recipes.OpError says more.
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

// Retryable reports whether an operation that failed with err was never sent and may succeed if it is tried again, in the
// next session if this one is lost. (An operation with an invalid path or flag is not sent either, but will fail again.)
func Retryable(err error) bool {
	return OutcomeOf(err) == OutcomeNotSent && (errors.Is(err, errNotSent) || errors.Is(err, ErrLost)) && !errors.Is(err, ErrClosed)
}
