package zktest

// SetReadOnly switches read-only mode, in which ZooKeeper serves without a
// quorum: every connection is cut at the switch, only clients that ask for it
// are let in, writes and syncs are answered NotReadOnly, and no session expires.
// Switching back gives every session its full timeout again, as a newly elected
// leader does.
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
		s.touch(x)
		s.expireIfDue(x)
	}
}
