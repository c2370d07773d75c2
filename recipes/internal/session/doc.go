// Package session is a ZooKeeper client that tells the truth about its session, its watches and the outcome of every operation.
// It knows nothing of locks. Programs see of it what recipes.Session shows.
//
//	c, err := session.Dial(ctx, session.Config{Servers: []string{"zk1:2181", "zk2:2181"}})
//	s, err := c.Session(ctx)
//	data, stat, err := s.Get(ctx, "/config")
//
// A [Client] has one live [Session] at a time. A lost session is never revived: ask Client.Session for the next one.
//
// # What you can rely on
//
// Every operation takes a context. When it fails, its error says what is known about its effect ([Outcome]): refused, never
// sent, or unknown. Reads are repeated when their answer was lost; writes never are. A [Watch] never misses a change, not even
// across a reconnect, but it may fire without one.
//
// Only a committed write of its own proves that a session is alive: a server that is cut off from the others answers pings,
// reads and even sync for seconds after the rest have expired the session. While something is held ([Session.Hold]), or
// somebody is next to hold it ([Session.Ready]), the session commits one heartbeat every sixth of its timeout. While something
// is held it counts as lost, by this process's own clock, half a timeout after its last committed write was sent
// ([Session.Deadline]). The proof stands at type proof. It assumes a session timeout of at least four ticks of the servers, and
// a clock whose rate is right to within a sixteenth.
//
// # How it is built
//
// One goroutine per session connects it (stayConnected): to one server after another (package servers), with a handshake, a login
// if one is asked for (package sasl), until a server grants the session on a connection (link), whose answers it then reads. A
// session that servers end, or replace by another, is over, and so is its loop: a request never runs in a session it was not made
// in. This package sends and reads every operation itself (call), in frames of package wire: the goroutine that asks also writes,
// what belongs together goes out together, and a request that waits for its answer needs no goroutine.
//
// The types, errors and access lists are go-zookeeper's, which programs share with this package. Its connection (zk.Conn) is not
// used: it opens a new session on the same handle without telling anybody and runs old requests in it, waits without a context,
// drops events, panics on malformed frames, and leaves sessions behind when it is closed.
//
// Error texts begin with "recipes:", the package that applications import.
package session
