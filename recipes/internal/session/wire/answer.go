package wire

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// The errors of a server's answer, or of bytes that are no answer. They always arrive wrapped in a text.
var (
	ErrAuth          = errors.New("recipes: authentication refused")
	ErrTooLarge      = errors.New("recipes: too large") // a request that is sent all the same would cost every other one its connection
	ErrQuotaExceeded = errors.New("recipes: quota exceeded")
	ErrThrottled     = errors.New("recipes: throttled by the server")
	ErrServer        = errors.New("recipes: server error")
	// ErrProtocol: the peer sent bytes that are not ZooKeeper's protocol. The connection was dropped.
	ErrProtocol = errors.New("recipes: protocol violation")
)

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

// definite are the error codes of a server that did not apply the operation. A moved or expired session is among them: the
// server checks that the session is its own before it processes a request (SessionTrackerImpl.checkSession).
var definite = map[int32]error{
	CodeBadArguments: zk.ErrBadArguments, CodeNoNode: zk.ErrNoNode, CodeNoAuth: zk.ErrNoAuth,
	CodeBadVersion: zk.ErrBadVersion, CodeNoChildrenForEphemerals: zk.ErrNoChildrenForEphemerals,
	CodeNodeExists: zk.ErrNodeExists, CodeNotEmpty: zk.ErrNotEmpty, CodeSessionExpired: zk.ErrSessionExpired,
	CodeInvalidACL: zk.ErrInvalidACL, CodeAuthFailed: zk.ErrAuthFailed, CodeSessionMoved: zk.ErrSessionMoved,
	CodeReconfigDisabled: zk.ErrReconfigDisabled,
}

// unnamed has the codes that go-zookeeper has no error for, with their meaning for a write. Those that a server returns before it
// proposes anything are definite; for internal failures of a server nothing is assumed.
var unnamed = map[int32]struct {
	outcome Outcome
	err     error
	text    string
}{
	CodeSystemError:             {OutcomeUnknown, ErrServer, "system error"},
	CodeRuntimeInconsistency:    {OutcomeUnknown, ErrServer, "runtime inconsistency"},
	CodeDataInconsistency:       {OutcomeUnknown, ErrServer, "data inconsistency"},
	CodeConnectionLoss:          {OutcomeUnknown, ErrServer, "the server lost its leader"},
	CodeMarshallingError:        {OutcomeUnknown, ErrServer, "it could not read the request"},
	CodeUnimplemented:           {OutcomeDefinite, ErrServer, "it does not implement the operation"},
	CodeOperationTimeout:        {OutcomeUnknown, ErrServer, "operation timeout"},
	CodeInvalidState:            {OutcomeUnknown, ErrServer, "invalid state"},
	CodeNewConfigNoQuorum:       {OutcomeUnknown, ErrServer, "no new configuration"},
	CodeNotReadOnly:             {OutcomeDefinite, ErrServer, "it is in read-only mode"},
	CodeEphemeralOnLocalSession: {OutcomeDefinite, ErrServer, "a local session cannot create ephemeral nodes"},
	CodeRequestTimeout:          {OutcomeUnknown, ErrServer, "request timeout"},
	CodeSASLRequired: {OutcomeDefinite, ErrAuth, "the servers admit only connections with an identity of certain schemes, and ours has none of them (sessionRequireClientSASLAuth, enforce.auth.schemes); " +
		`to log in by SASL, in Go set the field SASL, in a configuration an auth block "sasl" or "kerberos"`},
	CodeQuotaExceeded: {OutcomeDefinite, ErrQuotaExceeded, ""},
	CodeThrottled:     {OutcomeDefinite, ErrThrottled, ""},
}

// errRolledBack is the result of a transaction's operations that failed only because another one did.
var errRolledBack = errors.New("unknown error: -2") // as go-zookeeper words it

// Answer returns what an error code means for the operation's effect, and the error that callers should see.
func Answer(code int32) (Outcome, error) {
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
