package zktest

import (
	"context"
	"net"
	"time"
)

// view is what one server of an ensemble shows its clients. The server itself
// is the leader, whose view is the live tree; a lagging [Replica] shows an older
// one and owes its watchers the changes since.
type view struct {
	s       *Server
	watches *watchSet
	old     *tree // nil: the live tree
	oldZxid int64
	owed    []change
	cutOff  bool // see Replica.CutOff
}

func (v *view) tree() *tree {
	if v.old != nil {
		return v.old
	}
	return v.s.tree
}

func (v *view) zxid() int64 {
	if v.old != nil {
		return v.oldZxid
	}
	return v.s.zxid
}

// see is how a committed change reaches the view's watchers.
func (v *view) see(c change) {
	if v.old != nil {
		v.owed = append(v.owed, c)
		return
	}
	v.watches.fire(c)
}

// freshen brings a lagging view up to now; it lags again from here.
func (v *view) freshen() {
	if !v.cutOff {
		v.advance()
	}
}

// advance is freshen whether it is cut off or not.
func (v *view) advance() {
	if v.old == nil {
		return
	}
	v.old, v.oldZxid = v.s.tree.clone(), v.s.zxid
	// Fired against the watches as they are now: one that was set on the older view
	// is owed what has happened since, as on a follower that applies its log.
	owed := v.owed
	v.owed = nil
	for _, c := range owed {
		if c.ends != nil {
			v.end(c.ends)
			continue
		}
		v.watches.fire(c)
	}
}

// end cuts the connections of a session that has ended, when this server learns of it: behind the events of its end.
func (v *view) end(x *session) {
	for c := range v.s.conns {
		if c.session == x && c.v == v && !c.ending {
			c.close()
		}
	}
}

// session is the one of this id as far as this server knows: one that lags may not know that it has ended.
func (v *view) session(id int64) *session {
	if x := v.s.sessions[id]; x != nil || !v.cutOff {
		return x // anybody else asks the leader
	}
	for _, c := range v.owed {
		if c.ends != nil && c.ends.id == id {
			return c.ends
		}
	}
	return nil
}

// Replica is another server of the same ensemble: a follower with its own
// address, watches and view of the data. What is written through it is written
// to the one tree there is, and sessions move freely between the servers.
//
// A session that has moved away from a server loses the connection it left
// there with the next write it sends on it (SessionMoved).
type Replica struct{ v *view }

// Replica adds a follower, up to date until [Replica.Lag]. It ends with the
// server.
func (s *Server) Replica() *Replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &view{s: s, watches: newWatchSet()}
	s.views = append(s.views, v)
	return &Replica{v}
}

// Dialer connects to the follower as [Server.Dialer] does to the server.
func (r *Replica) Dialer() func(network, address string, timeout time.Duration) (net.Conn, error) {
	return r.v.dial
}

// DialContext connects to the follower as [Server.DialContext] does to the server.
func (r *Replica) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return r.v.dialContext(ctx, network, address)
}

// Listen serves TCP for the follower and returns the address bound.
func (r *Replica) Listen(addr string) (string, error) {
	l, err := r.v.s.listen(addr, r.v)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), nil
}

// Lag stops the follower's clock: it shows the data as it is now, keeps its
// watchers waiting, and refuses clients that have seen more. As on a real
// follower, a write or a sync through it brings it up to the zxid of that
// request before it is answered; after that it lags again. That a session has
// ended it learns in the same order: until then it answers its pings and reads.
func (r *Replica) Lag() {
	v := r.v
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if v.old == nil {
		v.old, v.oldZxid = v.s.tree.clone(), v.s.zxid
	}
}

// CutOff makes this the leader of before, which has lost its followers and has not noticed: it lags, and so do its syncs,
// as it asks nobody (Leader.processSync); what takes a quorum, it leaves unanswered, unexecuted. Sessions it knows may
// come to it, also those that have ended elsewhere meanwhile. What it hears of a session keeps that alive nowhere else: the
// others expire it. A real one steps down after at most syncLimit ticks: see [Server.Disconnect].
func (r *Replica) CutOff() {
	r.Lag()
	r.v.s.mu.Lock()
	defer r.v.s.mu.Unlock()
	r.v.cutOff = true
}

// Advance brings a follower that lags, or is cut off, up to now; it stays what it is. So a follower that is cut off one way
// only gets what the leader commits, while what it sends, its clients' writes and pings, does not arrive.
func (r *Replica) Advance() {
	r.v.s.mu.Lock()
	defer r.v.s.mu.Unlock()
	r.v.advance()
}

// CatchUp ends [Replica.Lag] and [Replica.CutOff]: the watches of everything missed fire, in order.
// A connection on which something was left unanswered ends, as a server drops its clients when it notices that it is alone.
func (r *Replica) CatchUp() {
	v := r.v
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.cutOff = false
	v.advance()
	v.old = nil
	for c := range v.s.conns {
		if c.v == v && c.swallowed {
			c.close()
		}
	}
}
