package lock

import (
	"sync"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/turn"
	"github.com/locktree/locktree/recipes/internal/znode"
)

// clientState is what the recipes keep per Client; its zero value is ready. Its mutex is never held across a request:
// everything that waits, waits on channels.
//
// Locks are taken in this order: clientState.mu, an epoch's, then a Session's or a holding's (never both), then
// those that are held for a moment only: of links, of hosts, of the queues for events and log lines. So a session, or a
// holding, that has news for the recipes lets go of its own first. Leases' contexts are cancelled with no lock held from the
// epoch's on, and Observers called with none at all.
type Client struct {
	znode.Client
	Conn *session.Client

	Turns turn.Turns[Place]
	Decl  declare.Client

	Mu     sync.Mutex
	Crowd  int      // from how many contenders on a queue is long, if not longQueue: tests have few
	Newest *Session // the newest session's; nil before the first use
}
