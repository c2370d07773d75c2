package zktest

// SetReadOnly switches read-only mode, in which ZooKeeper serves without a
// quorum (readonlymode.enabled, localSessionsEnabled). The switch cuts every
// connection. Only clients that ask for read-only service are then accepted, with a
// session that only this server knows. Earlier sessions cannot reconnect, but do not
// expire. The answer to writes and syncs is NotReadOnly.
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
