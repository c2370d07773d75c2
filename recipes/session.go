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
)

// Contender is one place in a queue; see package inspect.
type Contender = inspect.Contender
