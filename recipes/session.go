package recipes

import (
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/session"
)

// What a program that uses the recipes needs of package session. One that sends operations of its own finds the rest there.
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
