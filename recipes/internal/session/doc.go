// Package session is a ZooKeeper client that tells the truth about its session, its watches and the outcome of every operation.
// It knows nothing of locks. Programs see the part that direct.Session exposes.
//
//	c, err := session.Dial(ctx, session.Config{Servers: []string{"zk1:2181", "zk2:2181"}})
//	s, err := c.Session(ctx)
//	data, stat, err := s.Get(ctx, "/config")
//
// A [Client] has one live [Session] at a time. A session moves through these states ([State]), and nothing but the table of moves
// allows a step:
//
//	asked ──> active ──> lost
//	  │        │  ▲       ▲
//	  │        ▼  │       │
//	  │      suspect ─────┤
//	  └───────────────────┘
//
// A new session is in state "asked" until a server grants it. The loss of the connection, silence, or a lack of commits while
// something is held leads to suspect. A lost session is never revived: ask Client.Session for the next one.
//
// # What you can rely on
//
// Every operation takes a context. When it fails, its error says what is known about its effect ([Outcome]): refused, never sent,
// or unknown. Reads are repeated when their answer was lost; writes never are. A [Watch] misses no change, not even across a
// reconnect, unless the server forgets the watch or an access list hides the node. It may fire without a change.
//
// Only a committed write of its own proves that a session is alive. A server that is cut off from the others answers pings, reads
// and even sync for seconds after the rest have expired the session. While a caller holds something ([Session.Hold]) or expects
// to hold it next ([Session.Ready]), the session commits one heartbeat every sixth of its timeout. While something is held, the
// session counts as lost at most half a timeout after its last committed write was sent, by this process's own clock
// ([Session.Deadline]). The proof stands at type proof. It assumes a session timeout of at least four ticks of the servers, and a
// clock whose rate is right to within a sixteenth.
//
// # How it is built
//
// One goroutine per session keeps it connected (stayConnected). It tries one server after another (package servers), with the
// handshake and the login (package sasl), until a server grants the session on a connection (link). Then it reads the answers of
// that link, which moves through these states ([linkState]), as the table linkMoves allows:
//
//	open ──> retiring (the session goes to another server) ──> dead
//	  │                                                         ▲
//	  ├────> leaving (the session is over) ─────────────────────┤
//	  └─────────────────────────────────────────────────────────┘
//
// A session that the servers end or replace is over, and so is its goroutine. So a request never runs in a session that it was
// not made in. On plain TCP, a goroutine that makes a request usually writes it too (link.push), in frames of package wire. A
// request that waits for its answer needs no goroutine.
//
// The types, errors and access lists are go-zookeeper's, which programs share with this package. Its connection (zk.Conn) is not
// used. A zk.Conn opens a new session on the same handle without notice and runs old requests in it. It waits without a context,
// drops events, panics on malformed frames, and leaves sessions behind when it is closed.
//
// Error texts begin with "recipes:", the package that applications import.
package session
