package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"
)

// Codes that mean more than an error.
const (
	codeSessionExpired int32 = -112
	codeSASLRequired   int32 = -124
	codeRolledBack     int32 = -2 // in a transaction's results
)

// definite are the answers of a server that did not apply the operation. A moved or expired session is among them:
// requests are held against the session's owner before anything is made of them (SessionTrackerImpl.checkSession).
var definite = map[int32]error{
	-8: zk.ErrBadArguments, -101: zk.ErrNoNode, -102: zk.ErrNoAuth, -103: zk.ErrBadVersion, -108: zk.ErrNoChildrenForEphemerals,
	-110: zk.ErrNodeExists, -111: zk.ErrNotEmpty, codeSessionExpired: zk.ErrSessionExpired, -114: zk.ErrInvalidACL,
	-115: zk.ErrAuthFailed, -118: zk.ErrSessionMoved, -123: zk.ErrReconfigDisabled,
}

// unnamed are the codes that go-zookeeper has no error for, with what they mean for a write. Definite are those
// that a server gives before it proposes anything; of what went wrong within a server nothing is assumed.
var unnamed = map[int32]struct {
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

// errRolledBack is the result of operations of a transaction that failed because another one did.
var errRolledBack = errors.New("unknown error: -2") // as go-zookeeper words it

// answer says what an error code means for the operation's effect, and gives the error its callers should see.
func answer(code int32) (Outcome, error) {
	if err, ok := definite[code]; ok {
		return OutcomeDefinite, err
	}
	known, ok := unnamed[code]
	switch {
	case !ok:
		return OutcomeUnknown, fmt.Errorf("%w: code %d", ErrServer, code)
	case known.text == "":
		return known.outcome, fmt.Errorf("%w (code %d)", known.err, code)
	}
	return known.outcome, fmt.Errorf("%w: %s (code %d)", known.err, known.text, code)
}

// failed makes the *OpError of an operation that a server, ctx or the end of the connection or the session cut short.
func (s *Session) failed(o op, outcome Outcome, err error) *OpError {
	if outcome != OutcomeDefinite { // an answer, whatever it says, is no sign of a session that is over
		s.look() // a machine just resumed has run no timer yet
	}
	// What the end of the connection says is less than the end of the session. Not so a server's definite answer, nor
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
