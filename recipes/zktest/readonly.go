package zktest

// SetReadOnly switches read-only mode, in which ZooKeeper serves without a
// quorum (readonlymode.enabled, localSessionsEnabled). Every connection is cut
// at the switch. Only clients that ask for read-only service are let in, with a
// session that this server alone knows; sessions from before can't be taken up.
// Writes and syncs are answered NotReadOnly. No session from before expires.
//
// Switching back ends the local sessions and gives the others their full
// timeout again, as a newly elected leader does.
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
