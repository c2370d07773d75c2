// Package held is a granted lock until it ends: it is watched, used, lost or given back.
//
//	use, err := held.Hold(ctx, held.Grant{Path: path, Owner: nodes, Nodes: own, Turns: turns}, listener)
//	defer use.Unlock(ctx)
//
// A [Lock] has the nodes that hold. A [Use] is one lease of it; several share a lock that was entered again. A [Listener] is told of the
// grant and, once, of the end. [Turns] are the goroutines of this client that wait behind the lock.
//
// A lock moves through these states (holdState), and nothing but the table of moves allows a step:
//
//	starting ──> held ──> over
//	    │        │  ▲      ▲
//	    │        ▼  │      │
//	    │     exchanging ──┤
//	    └──────────────────┘
//
// Within it, a lease moves through states of its own (useState): used ──> released ──> exchanged.
//
// A lock ends at most half a session timeout after the last committed write was sent (package session). Its end cancels the contexts of
// its uses, once and before a rival can be granted it. The package knows no queue and no declaration.
package held
