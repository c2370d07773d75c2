package recipes

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/session"
)

// What a program that uses the recipes needs of package session: its types by their own names, and the errors that the
// recipes' calls return for a session. Who sends operations of his own has the rest there.
type (
	// Session is one ZooKeeper session; see [Client.Session].
	Session = session.Session
	// Auth is one identity to present to the servers.
	Auth = session.Auth
	// Secret is a string that is never printed.
	Secret = session.Secret
	// Identity is one ACL identity, as a server writes it.
	Identity = session.Identity
	// State is what may be believed about a session; see [Client.State].
	State = session.State
	// OpError is the error of every operation of a Session, and of [Lease.Multi].
	OpError = session.OpError
)

// Contender is one place in a queue; see package inspect.
type Contender = inspect.Contender

// The states of a session.
const (
	// StateActive: connected, and a server answered recently.
	StateActive = session.StateActive
	// StateSuspect: disconnected or unanswered, but what is held is still held.
	StateSuspect = session.StateSuspect
	// StateLost: final.
	StateLost = session.StateLost
)

// The errors of package session that recipes return.
var (
	// ErrClosed: Client.Close was called; nothing of this client works any more.
	ErrClosed = session.ErrClosed
	// ErrSessionLost: the session is over, or must be taken to be over. Final: ask Client.Session for the next one.
	ErrSessionLost = session.ErrLost
	// ErrUnreachable: no server could be reached, or none gave a session, in the time allowed.
	ErrUnreachable = session.ErrUnreachable
	// ErrAuth: the servers refused an authentication, or do not know its scheme.
	ErrAuth = session.ErrAuth
	// ErrReadOnly: a write on a client opened with Config.ReadOnly. It was not sent.
	ErrReadOnly = session.ErrReadOnly
	// ErrCannotHeartbeat: the session cannot be proven on a contender because its ACL does not let us read it.
	ErrCannotHeartbeat = session.ErrCannotHeartbeat
	// ErrTooLarge: a request beyond what a ZooKeeper server reads. It was not sent.
	ErrTooLarge = session.ErrTooLarge
)

// isNoNode saves its callers the spelling.
func isNoNode(err error) bool { return errors.Is(err, zk.ErrNoNode) }
