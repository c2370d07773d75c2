package recipes

import (
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/session"
)

// Aliases of package session, so that most programs import only recipes.
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
