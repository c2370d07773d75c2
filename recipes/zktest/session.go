package zktest

import (
	"time"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// session is one client session. It outlives its connections until its deadline passes or it is closed.
type session struct {
	id       int64
	timeout  time.Duration
	deadline time.Time
	timer    *time.Timer
	conn     *conn
	view     *view           // the view of the server that the session is attached to
	pipes    map[*view]*conn // the session's latest connection to each server; this connection may have left requests there
	swap     bool            // the session gets a new id at the next reconnect
	local    bool            // opened on a read-only server, which cannot commit it
	counts   Counts
}

// clamp is the timeout the server grants to a client that asks for ms: two to twenty
// ticks, ZooKeeper's defaults of minSessionTimeout and maxSessionTimeout.
func (s *Server) clamp(ms int32) time.Duration {
	return min(max(time.Duration(ms)*time.Millisecond, 2*s.opts.tick), 20*s.opts.tick)
}

// openSession starts a session, as a transaction of its own.
func (s *Server) openSession(timeout time.Duration) *session {
	if !s.readOnly {
		s.zxid++
	}
	x := &session{id: s.nextSession, local: s.readOnly, timeout: timeout, counts: newCounts(), pipes: map[*view]*conn{}}
	s.nextSession++
	s.sessions[x.id] = x
	x.deadline = s.expiry(timeout)
	x.timer = s.runLater(time.Until(x.deadline), func() {
		if !s.closed && !s.frozen && s.sessions[x.id] == x {
			s.expireIfDue(x)
		}
	})
	return x
}

// expiry returns when a session expires that the server has heard from just now: its timeout from now, rounded up to a whole tick.
// ZooKeeper expires sessions in such buckets (ExpiryQueue.roundToNextInterval). So a session never expires early, and expires up to a tick
// late.
func (s *Server) expiry(timeout time.Duration) time.Time {
	age := time.Since(s.born).Truncate(time.Millisecond)
	ticks := (age+timeout)/s.opts.tick + 1
	return s.born.Add(ticks * s.opts.tick)
}

// touch extends a session, as every packet of its client except credentials does.
func (s *Server) touch(x *session) { x.deadline = s.expiry(x.timeout) }

// expireIfDue ends the session if its time is up. Packets only move the deadline. If the deadline has moved since the timer was set,
// expireIfDue sets the timer again.
func (s *Server) expireIfDue(x *session) {
	if left := time.Until(x.deadline); left > 0 {
		x.timer.Reset(left)
		return
	}
	if s.readOnly && !x.local {
		return // without a quorum no session expires; SetReadOnly sets the timer again
	}
	s.endSession(x)
}

// endSession closes a session: its ephemerals go in one transaction, their watches fire, its connection is cut.
func (s *Server) endSession(x *session) {
	x.timer.Stop()
	delete(s.sessions, x.id)
	if !x.local {
		s.fireWatches(s.tree.EndSession(x.id, s.stamp()))
	}
	for _, v := range s.views {
		if v.old != nil {
			v.owed = append(v.owed, owedChange{ends: x})
			continue
		}
		v.end(x)
	}
}

// handshake answers a connection's first frame, in the order of ZooKeeperServer.processConnectRequest. The second result says that the
// connection ends with the answer.
func (s *Server) handshake(c *conn, r *wire.ConnectRequest) ([]byte, bool) {
	if c.session != nil || r.LastZxid > c.v.zxid() || s.readOnly && !r.ReadOnly {
		return nil, true // "client must try another server"
	}
	if c.v.cutOff && r.Session == 0 { // opening a session takes a quorum
		c.swallowed = true
		return nil, false
	}
	c.oldClient = r.Old
	timeout := s.clamp(r.Timeout)
	if r.Session == 0 {
		return s.attach(c, s.openSession(timeout), timeout), false
	}
	x := c.v.session(r.Session)
	if s.readOnly && x != nil && !x.local {
		return nil, true // without a quorum no server can vouch for the session
	}
	if x != nil && x.conn != nil && x.conn.v == c.v {
		// The older connection goes before the password is looked at, as in ZooKeeper. An older connection to another server stays until
		// that server notices the move.
		x.conn.close()
	}
	// The client is not told which is wrong, the id or the password: it sees an expired session.
	if x == nil || string(r.Password) != string(s.password(r.Session)) {
		return c.connectReply(nil), true
	}
	if x.swap { // see Server.SwapSessionID
		s.endSession(x)
		x = s.openSession(timeout)
	}
	return s.attach(c, x, timeout), false
}

// attach gives the session to the connection. The session's timeout is what this handshake asked for: a reconnect may change the timeout.
func (s *Server) attach(c *conn, x *session, timeout time.Duration) []byte {
	c.session, x.conn, x.view, x.timeout = x, c, c.v, timeout
	c.follow(x.pipes[c.v])
	x.pipes[c.v] = c
	c.sid.Store(x.id)
	c.partition()
	if !c.v.cutOff && s.sessions[x.id] == x {
		s.touch(x)
		x.timer.Reset(time.Until(x.deadline))
	}
	return c.connectReply(x)
}

// connectReply grants a session; nil tells the client that its session has expired.
func (c *conn) connectReply(x *session) []byte {
	r := wire.ConnectReply{Password: make([]byte, 16), ReadOnly: c.s.readOnly, Old: c.oldClient}
	if x != nil {
		r.Timeout, r.Session, r.Password = int32(x.timeout/time.Millisecond), x.id, c.s.password(x.id)
	}
	return r.Frame()
}
