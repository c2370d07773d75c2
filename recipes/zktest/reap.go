package zktest

import (
	"time"

	"github.com/locktree/locktree/recipes/zktest/internal/store"
)

// scheduleReap starts the reaper's timer if there is something that the reaper might remove. As on a real server, the reaper has a fixed
// beat, counted from the start of the server. But the timer does not run when there is nothing to do.
func (s *Server) scheduleReap() {
	if s.reaper != nil || !s.tree.Reapable() || s.closed {
		return
	}
	every := s.opts.reapInterval
	s.reaper = time.AfterFunc(every-time.Since(s.born)%every, s.reap)
}

// reap removes containers that have had children and have none left, and TTL nodes without children that have not been written for longer
// than their lifetime. Each removal is a transaction.
func (s *Server) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reaper = nil
	if !s.closed && !s.frozen {
		for _, path := range s.tree.Outlived(nowMillis()) {
			_, changes := s.tree.Apply(store.Super, s.stamp(), store.Delete{Path: path, Version: -1})
			s.fireWatches(changes)
		}
	}
	s.scheduleReap()
}
