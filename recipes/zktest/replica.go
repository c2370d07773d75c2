package zktest

import (
	"context"
	"net"
	"time"

	"github.com/locktree/locktree/recipes/zktest/internal/store"
	"github.com/locktree/locktree/recipes/zktest/internal/watch"
)

// view is the data as one server of an ensemble shows it to its clients. The server itself is the leader, whose view is the live tree. A
// lagging [Replica] shows an older tree, and owes its watchers the events of the changes since then.
type view struct {
	s       *Server
	watches *watch.Set[*conn]
	old     *store.Tree // nil: the live tree
	oldZxid int64
	owed    []owedChange
	cutOff  bool // see Replica.CutOff
}

// owedChange is a change, or the end of a session, that a lagging view has not learnt yet.
type owedChange struct {
	change store.Change
	ends   *session
}

func (v *view) tree() *store.Tree {
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

// see reports a committed change to the view's watchers, now or when the view advances.
func (v *view) see(c store.Change) {
	if v.old != nil {
		v.owed = append(v.owed, owedChange{change: c})
		return
	}
	v.fire(c)
}

// fire sends the events to the watchers that may read the node. The others get no event, but their watches are gone too.
func (v *view) fire(c store.Change) {
	for _, x := range v.watches.Take(c.Path, c.Type) {
		if c.VisibleTo(x.caller()) {
			x.sendEvent(c.Type, c.Path, c.Zxid)
		}
	}
}

// freshen brings a lagging view up to date; from then on it lags again.
func (v *view) freshen() {
	if !v.cutOff {
		v.advance()
	}
}

// advance is freshen for a view that may be cut off.
func (v *view) advance() {
	if v.old == nil {
		return
	}
	v.old, v.oldZxid = v.s.tree.Clone(), v.s.zxid
	// Fire the watches that exist now. A watch that was set on the older view must see later changes, as on a follower that applies its
	// log.
	all := v.owed
	v.owed = nil
	for _, c := range all {
		if c.ends != nil {
			v.end(c.ends)
			continue
		}
		v.fire(c.change)
	}
}

// end cuts the connections of an ended session when this server learns of the end, after the events that the end causes.
func (v *view) end(x *session) {
	for c := range v.s.conns {
		if c.session == x && c.v == v && !c.ending {
			c.close()
		}
	}
}

// session returns the session with this id as this server knows it. A server that is cut off perhaps does not know yet that the session has
// ended.
func (v *view) session(id int64) *session {
	if x := v.s.sessions[id]; x != nil || !v.cutOff {
		return x // a server that is not cut off asks the leader
	}
	for _, c := range v.owed {
		if c.ends != nil && c.ends.id == id {
			return c.ends
		}
	}
	return nil
}

// Replica is another server of the same ensemble: a follower with its own address, watches and view of the data. Writes through it change
// the same tree, and sessions move freely between the servers.
//
// When a session has moved to another server, its old connection is cut at the next write that the client sends there (SessionMoved).
type Replica struct{ v *view }

// Replica adds a follower, up to date until [Replica.Lag]. It ends with the server.
func (s *Server) Replica() *Replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &view{s: s, watches: watch.NewSet(byID)}
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

// Lag makes the follower fall behind: it keeps showing the data as they are now, keeps its watchers waiting, and refuses clients that have
// seen newer data. As on a real follower, a write or a sync through the follower brings it up to the zxid of that request before the
// answer. After that it lags again. The follower learns of the end of a session in the same order: until then it answers the session's
// pings and reads.
func (r *Replica) Lag() {
	v := r.v
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if v.old == nil {
		v.old, v.oldZxid = v.s.tree.Clone(), v.s.zxid
	}
}

// CutOff makes this server the former leader, which has lost its followers and has not noticed. It lags, and a sync does not bring it up to
// date, because it asks no other server (Leader.processSync). It neither executes nor answers requests that need a quorum. Sessions that it
// knows may connect to it, even sessions that have ended elsewhere meanwhile. Requests to this server do not keep a session alive: the
// other servers expire the session. A real leader steps down after at most syncLimit ticks: see [Server.Disconnect].
func (r *Replica) CutOff() {
	r.Lag()
	r.v.s.mu.Lock()
	defer r.v.s.mu.Unlock()
	r.v.cutOff = true
}

// Advance brings the follower up to date once. After that it lags, or is cut off, as before. So Advance plays a follower that is cut off in
// one direction. Such a follower receives the leader's commits, but its own messages are lost, with its clients' writes and pings.
func (r *Replica) Advance() {
	r.v.s.mu.Lock()
	defer r.v.s.mu.Unlock()
	r.v.advance()
}

// CatchUp ends [Replica.Lag] and [Replica.CutOff]: the watches fire for everything missed, in order. A connection with an
// unanswered request ends, as a server drops its clients when it notices that it is alone.
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
