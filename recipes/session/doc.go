// Package session keeps a ZooKeeper session that can be believed. It knows no lock.
//
//	c, err := session.Dial(ctx, session.Config{Servers: []string{"zk1:2181", "zk2:2181"}})
//	s, err := c.Session(ctx)
//	data, stat, err := s.Get(ctx, "/config")
//
// Underneath is go-zookeeper, for the types, the handshake, pings and the end of a session. All else it cannot be believed
// with: it opens a new session on the same handle without a word and runs old requests in it, waits without a context, drops
// events, panics on malformed frames, and leaves sessions behind when it is closed. So this package owns its connections
// (guard, link, hosts), and encodes, sends and reads every operation itself (frame, call): whoever asks writes, what belongs
// together goes out together, and nothing runs for a request that waits. go-zookeeper sees two kinds of frame, and no
// connection at all once the session is over. One zk.Conn is one [Session]; a lost session's is closed, joined and never used
// again. [Client] dials the next.
//
// # What may be believed
//
// Every operation takes a context, and says of a failure what is known about its effect ([Outcome]): refused, never sent,
// or unknown. Reads whose answer was lost are asked again; writes never are. A [Watch] is never missed, not even across a
// reconnect: it may fire without a change.
//
// A session lives for certain only as far as a committed write of its own proves it: a server that is cut off from the
// others answers pings, reads and even sync for seconds after the rest have expired the session. While something is held
// ([Session.Hold]) the session commits one heartbeat every sixth of its timeout, and is lost, by this process's own clock,
// half a timeout after the last committed write was sent ([Session.Deadline]). The proof is stated at type proof. It assumes
// a session timeout of at least four ticks of the servers and a clock that runs at the right rate, within a sixteenth.
//
// Texts of errors begin with "recipes:", the package that applications import.
package session
