package zktest

import (
	"maps"
	"slices"
	"time"
)

// scheduleReap makes sure that the reaper looks in when there is something it
// might remove. It keeps the fixed beat of the real one, which starts with the
// server, but does not tick for nothing.
func (s *Server) scheduleReap() {
	if s.reaper != nil || len(s.tree.reapable) == 0 || s.closed {
		return
	}
	every := s.opts.reapInterval
	s.reaper = time.AfterFunc(every-time.Since(s.born)%every, s.reap)
}

// reap removes containers that have had children and have none left, and TTL
// nodes without children that were not written to for longer than their
// lifetime. Each removal is a transaction.
func (s *Server) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reaper = nil
	if !s.closed && !s.frozen {
		for _, path := range slices.Sorted(maps.Keys(s.tree.reapable)) {
			if n := s.tree.nodes[path]; n.outlived() {
				t := s.begin(0, super)
				t.drop(path, n)
				t.commit()
			}
		}
	}
	s.scheduleReap()
}

// outlived follows ContainerManager.getCandidates. A container that never had a child
// stays: it was made a moment ago, for a child that is on its way.
func (n *node) outlived() bool {
	switch {
	case len(n.children) > 0:
		return false
	case n.life == container:
		return n.creates > 0
	}
	return nowMillis()-n.mtime > n.ttl
}
