package zktest

// Expire ends a session at once, as if its timeout had run out. Its ephemerals go and its connection is cut. A client that reconnects is
// told that the session has expired. It does nothing when there is no such session.
func (s *Server) Expire(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.sessions[session]; x != nil {
		s.endSession(x)
	}
}

// Disconnect cuts the session's connection; the session lives on and may reconnect. Session 0 means every connection.
func (s *Server) Disconnect(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if session == 0 || c.session != nil && c.session.id == session {
			c.close()
		}
	}
}

// Partition makes a black hole between the session's client and the server, in one direction or both, for its present and all later
// connections. Nothing is closed and neither side notices. As with TCP, everything that is sent meanwhile arrives after [Server.Heal], if
// the connection still exists on the receiving side. The end of a connection arrives then, too. Session 0 means every client, even those
// without a session. Dialling still succeeds.
func (s *Server) Partition(session int64, dir Direction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partitions[session] = dir
	s.repartition()
}

// Heal ends what [Server.Partition] began for the same session; 0 heals all.
func (s *Server) Heal(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.partitions, session)
	if session == 0 {
		clear(s.partitions)
	}
	s.repartition()
}

// repartition applies the partitions to every connection, oldest first, so that what was held back arrives in a fixed order.
func (s *Server) repartition() {
	for _, c := range s.connections() {
		c.partition()
		c.pump()
	}
}

// Freeze stops the server as SIGSTOP would: it accepts connections and bytes, answers nothing, and expires no session.
func (s *Server) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = true
}

// Thaw resumes a frozen server. Sessions whose time has run out meanwhile expire first; then everything that was sent to it arrives. On a
// real server, expiry and arrival race; this is the outcome that is worse for its clients.
func (s *Server) Thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.frozen {
		return
	}
	s.frozen = false
	for _, x := range s.sessionsByID() {
		s.expireIfDue(x)
	}
	for _, c := range s.connections() {
		c.pump()
	}
}

// RefuseDials makes the server refuse new connections, as when it is down. Over TCP, new connections are accepted and reset. Established
// connections stay; see [Server.Disconnect].
func (s *Server) RefuseDials(refuse bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing = refuse
}

// SwapSessionID ends the session silently at its next reconnect. The client is given a new session as if it were the old one, with another
// id and without the ephemerals.
func (s *Server) SwapSessionID(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.sessions[session]; x != nil {
		x.swap = true
	}
}

// SetReadOnly switches read-only mode: ZooKeeper then serves without a quorum (readonlymode.enabled, localSessionsEnabled). The
// switch cuts every connection. Only clients that ask for read-only service are then accepted, with a session that only this
// server knows. Earlier sessions cannot reconnect, but do not expire. The answer to writes and syncs is NotReadOnly.
//
// Switching back ends the local sessions and gives the other sessions their full timeout again, as a newly elected leader does.
func (s *Server) SetReadOnly(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readOnly == on {
		return
	}
	s.readOnly = on
	for _, c := range s.connections() {
		c.close()
	}
	for _, x := range s.sessionsByID() {
		if x.local {
			s.endSession(x)
			continue
		}
		s.touch(x)
		s.expireIfDue(x)
	}
}
