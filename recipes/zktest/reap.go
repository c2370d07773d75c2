package zktest

import (
	"maps"
	"slices"
	"time"
)

// scheduleReap starts the reaper's timer if there is something it might remove. It
// keeps the fixed beat of the real one, which starts with the server, but does not
// run when there is nothing to do.
func (s *Server) scheduleReap() {
	if s.reaper != nil || len(s.tree.reapable) == 0 || s.closed {
		return
	}
	every := s.opts.reapInterval
	s.reaper = time.AfterFunc(every-time.Since(s.born)%every, s.reap)
}

// reap removes containers that have had children and have none left, and TTL
// nodes without children that have not been written for longer than their
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

// outlived follows ContainerManager.getCandidates. A container that has never had a
// child stays: it may just have been made for a child that is on its way.
func (n *node) outlived() bool {
	switch {
	case len(n.children) > 0:
		return false
	case n.life == container:
		return n.creates > 0
	}
	return nowMillis()-n.mtime > n.ttl
}
