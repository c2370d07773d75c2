package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// definite are the error codes of a server that did not apply the operation. A moved or expired session is among them: the
// server checks that the session is its own before it processes a request (SessionTrackerImpl.checkSession).
var definite = map[int32]error{
	jute.CodeBadArguments: zk.ErrBadArguments, jute.CodeNoNode: zk.ErrNoNode, jute.CodeNoAuth: zk.ErrNoAuth,
	jute.CodeBadVersion: zk.ErrBadVersion, jute.CodeNoChildrenForEphemerals: zk.ErrNoChildrenForEphemerals,
	jute.CodeNodeExists: zk.ErrNodeExists, jute.CodeNotEmpty: zk.ErrNotEmpty, jute.CodeSessionExpired: zk.ErrSessionExpired,
	jute.CodeInvalidACL: zk.ErrInvalidACL, jute.CodeAuthFailed: zk.ErrAuthFailed, jute.CodeSessionMoved: zk.ErrSessionMoved,
	jute.CodeReconfigDisabled: zk.ErrReconfigDisabled,
}

// unnamed are the codes for which go-zookeeper has no error, with their meaning for a write. Those that a server returns
// before it proposes anything are definite; for internal failures of a server nothing is assumed.
var unnamed = map[int32]struct {
	outcome Outcome
	err     error
	text    string
}{
	jute.CodeSystemError:             {OutcomeUnknown, ErrServer, "system error"},
	jute.CodeRuntimeInconsistency:    {OutcomeUnknown, ErrServer, "runtime inconsistency"},
	jute.CodeDataInconsistency:       {OutcomeUnknown, ErrServer, "data inconsistency"},
	jute.CodeConnectionLoss:          {OutcomeUnknown, ErrServer, "the server lost its leader"},
	jute.CodeMarshallingError:        {OutcomeUnknown, ErrServer, "it could not read the request"},
	jute.CodeUnimplemented:           {OutcomeDefinite, ErrServer, "it does not implement the operation"},
	jute.CodeOperationTimeout:        {OutcomeUnknown, ErrServer, "operation timeout"},
	jute.CodeInvalidState:            {OutcomeUnknown, ErrServer, "invalid state"},
	jute.CodeNewConfigNoQuorum:       {OutcomeUnknown, ErrServer, "no new configuration"},
	jute.CodeNotReadOnly:             {OutcomeDefinite, ErrServer, "it is in read-only mode"},
	jute.CodeEphemeralOnLocalSession: {OutcomeDefinite, ErrServer, "a local session cannot create ephemeral nodes"},
	jute.CodeRequestTimeout:          {OutcomeUnknown, ErrServer, "request timeout"},
	jute.CodeSASLRequired: {OutcomeDefinite, ErrAuth, "the servers admit only connections with an identity of certain schemes, and ours has none of them (sessionRequireClientSASLAuth, enforce.auth.schemes); " +
		`to log in by SASL, in Go set the field SASL, in a configuration an auth block "sasl" or "kerberos"`},
	jute.CodeQuotaExceeded: {OutcomeDefinite, ErrQuotaExceeded, ""},
	jute.CodeThrottled:     {OutcomeDefinite, ErrThrottled, ""},
}

// errRolledBack is the result of a transaction's operations that failed only because another one did.
var errRolledBack = errors.New("unknown error: -2") // as go-zookeeper words it

// answer returns what an error code means for the operation's effect, and the error that callers should see.
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

// failed makes the *OpError of an operation that was sent and then refused by a server, or cut short by ctx or by the end of
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
