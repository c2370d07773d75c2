// Package held is a granted lock until it ends: it is watched, used, lost or given back.
//
//	use, err := held.Hold(ctx, held.Grant{Of: subject, Owner: nodes, Nodes: own, Turns: turns}, listener)
//	defer use.Unlock(ctx)
//
// A [Lock] has the nodes that hold. A [Use] is one lease of it; if the lock is entered again, several uses share it. A [Listener]
// receives the grant and, once, the end. [Turns] pass the lock's turns to goroutines of this client that wait.
//
// A lock moves through these states (holdState); the table holdMoves has the legal moves:
//
//	starting ──> held ──> over
//	    │        │  ▲      ▲
//	    │        ▼  │      │
//	    │     exchanging ──┤
//	    └──────────────────┘
//
// A use has states of its own (useState): used ──> released ──> exchanged.
//
// A lock ends at most half a session timeout after the last committed write was sent (package session). Its end cancels the
// contexts of its uses, once, before a rival can be granted the lock. The package knows no queue and no declaration.
package held
