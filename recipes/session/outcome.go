package session

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"
)

// Codes servers send that go-zookeeper has no name for, or that end the session.
const (
	codeSessionExpired int32 = -112
	codeSASLRequired   int32 = -124
)

// definite are the answers of a server that did not apply the operation. A moved or expired session is among them:
// requests are held against the session's owner before anything is made of them (SessionTrackerImpl.checkSession).
var definite = []error{
	zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoAuth, zk.ErrInvalidACL, zk.ErrAuthFailed,
	zk.ErrNoChildrenForEphemerals, zk.ErrBadArguments, zk.ErrReconfigDisabled, zk.ErrSessionMoved, zk.ErrSessionExpired,
}

// unnamed are the codes go-zookeeper turns into "unknown error: N", with what they mean for a write. Definite are those
// that a server gives before it proposes anything; of what went wrong within a server nothing is assumed.
var unnamed = map[int]struct {
	outcome Outcome
	err     error
	text    string
}{
	-1:   {OutcomeUnknown, ErrServer, "system error"},
	-2:   {OutcomeUnknown, ErrServer, "runtime inconsistency"},
	-3:   {OutcomeUnknown, ErrServer, "data inconsistency"},
	-4:   {OutcomeUnknown, ErrServer, "the server lost its leader"},
	-5:   {OutcomeUnknown, ErrServer, "it could not read the request"},
	-6:   {OutcomeDefinite, ErrServer, "it does not implement the operation"},
	-7:   {OutcomeUnknown, ErrServer, "operation timeout"},
	-9:   {OutcomeUnknown, ErrServer, "invalid state"},
	-13:  {OutcomeUnknown, ErrServer, "no new configuration"},
	-119: {OutcomeDefinite, ErrServer, "it is in read-only mode"},
	-120: {OutcomeDefinite, ErrServer, "a local session cannot create ephemeral nodes"},
	-122: {OutcomeUnknown, ErrServer, "request timeout"},
	-124: {OutcomeDefinite, ErrAuth, "the servers require SASL, which this library does not speak"},
	-125: {OutcomeDefinite, ErrQuotaExceeded, ""},
	-127: {OutcomeDefinite, ErrThrottled, ""},
}

// classify says what an error of go-zookeeper, of attempt or of a context means for the operation's effect, and gives
// the error its callers should see. What it does not know is Unknown: raw network errors escape go-zookeeper too.
func classify(err error) (Outcome, error) {
	switch {
	case errors.Is(err, errNotSent), errors.Is(err, zk.ErrInvalidPath), errors.Is(err, zk.ErrInvalidFlags):
		return OutcomeNotSent, err
	case errors.Is(err, zk.ErrNoServer): // of what was still in go-zookeeper's queue (flushUnsentRequests), and of nothing else
		return OutcomeNotSent, err
	}
	for _, d := range definite {
		if errors.Is(err, d) {
			return OutcomeDefinite, err
		}
	}
	digits, found := strings.CutPrefix(err.Error(), "unknown error: ")
	code, bad := strconv.Atoi(digits)
	if !found || bad != nil {
		return OutcomeUnknown, err
	}
	known, ok := unnamed[code]
	if !ok {
		return OutcomeUnknown, fmt.Errorf("%w: code %d", ErrServer, code)
	}
	if known.text == "" {
		return known.outcome, fmt.Errorf("%w (code %d)", known.err, code)
	}
	return known.outcome, fmt.Errorf("%w: %s (code %d)", known.err, known.text, code)
}

// failed makes the *OpError of an operation that go-zookeeper, a server, ctx or the end of the session cut short.
func (s *Session) failed(o op, err error) *OpError {
	outcome, err := classify(err)
	if errors.Is(err, zk.ErrSessionExpired) {
		// The link tells the session after it has handed the reply on: the caller may be here first, and must find the
		// Session over, as it is.
		s.lose(ErrExpired)
	}
	if outcome != OutcomeDefinite { // an answer, whatever it says, is no sign of a session that is over
		s.look() // a machine just resumed has run no timer yet
	}
	// What go-zookeeper says once the session is over is less than what we know. Not so a server's definite answer, nor
	// that the caller gave up: the outcome stays what it was, whichever error tells it.
	if lost := s.Err(); lost != nil && !errors.Is(err, ErrLost) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded) && (outcome != OutcomeDefinite || errors.Is(err, zk.ErrSessionExpired)) {
		err = lost
	}
	return s.opError(o, outcome, err)
}

// opError makes the error callers see: with the hint where one is known, and in words for what ZooKeeper words badly.
func (s *Session) opError(o op, outcome Outcome, err error) *OpError {
	e := &OpError{Op: o.name, Path: o.path, Outcome: outcome, Err: err}
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		if o.need == "" {
			o.need = need(o.name, o.path)
		}
		// go-zookeeper words it "not authenticated", which sends people to the wrong place.
		e.Err = deniedError{fmt.Sprintf("permission denied: it needs %s, and we are %s", o.need, s.Whoami())}
		e.Hint = "have that right granted, or check the credentials: ZooKeeper accepts a wrong digest password and then knows nobody by that name"
	case errors.Is(err, zk.ErrInvalidACL):
		e.Hint = "an ACL must not be empty, its schemes must be known to the servers, and scheme auth needs credentials"
	case errors.Is(err, zk.ErrConnectionClosed):
		s.mu.Lock()
		loss := s.lastLoss
		s.mu.Unlock()
		e.Err = fmt.Errorf("%w before the answer came", err)
		if loss != nil {
			e.Err = fmt.Errorf("%w before the answer came: %w", err, loss)
		}
	}
	return e
}

// deniedError is zk.ErrNoAuth in better words.
type deniedError struct{ text string }

func (e deniedError) Error() string        { return e.text }
func (e deniedError) Is(target error) bool { return target == zk.ErrNoAuth }

// need names the permission an operation needs, and on which node: creating and deleting are rights of the parent
// (PrepRequestProcessor), which is what people look for in the wrong place.
func need(op, path string) string {
	switch op {
	case "create":
		return "CREATE on " + parent(path)
	case "delete":
		return "DELETE on " + parent(path)
	case "set":
		return "WRITE on " + path
	case "setACL":
		return "ADMIN on " + path
	case "getACL":
		return "READ or ADMIN on " + path
	}
	return "READ on " + path
}

func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}
