package znode

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// lostSessions are the lost sessions that the servers have perhaps not ended yet. ClientNodes.mu guards them.
//
// A session that is lost by our clock lives on at the servers for up to its timeout, or longer if a server was restarted. Its contenders
// live on with it. This client does not wait: the first request of the next session deletes the contenders by name. The client also closes
// the lost session, because a create that a server executes late makes a node whose name the client does not know. The deletions are safe:
// clear deletes only our own nodes, and only those without work under them.
type lostSessions []*SessionNodes

// unclearedBy returns the lost sessions whose contenders session e has to delete. Either e has not done so yet, or more contenders may have
// become idle since. It forgets sessions that the servers know to be over.
func (all *lostSessions) unclearedBy(e *SessionNodes) (todo []*SessionNodes) {
	*all = slices.DeleteFunc(*all, func(lost *SessionNodes) bool { return lost.Session.Gone() })
	for _, lost := range *all {
		if lost.cleared != e {
			todo = append(todo, lost)
		}
	}
	return todo
}

// nextToClear returns the sessions to be cleared next; nil if there are none, which ends the clearing.
func (st *ClientNodes) nextToClear(e *SessionNodes) []*SessionNodes {
	st.mu.Lock()
	defer st.mu.Unlock()
	todo := st.Lost.unclearedBy(e)
	if len(todo) == 0 || e.Session.Err() != nil {
		st.cleared = nil
		return nil
	}
	// Set lost.cleared now, because idleContenders looks for work only later. If work ends after that look, WorkEnded resets the field.
	for _, lost := range todo {
		lost.cleared = e
	}
	return todo
}

// orphan is a contender of a lost session.
type orphan struct {
	*Node
	// Copies of the Node's fields, which a call that is about to fail may still change.
	path, prefix string
}

// idleContenders returns the contenders without work under them; the result busy says that others have work. A lost session is granted
// nothing more, so an idle contender stays idle.
func (e *SessionNodes) idleContenders() (idle []orphan, busy bool) {
	e.mu.Lock()
	all := slices.Collect(maps.Values(e.nodes))
	e.mu.Unlock()
	for _, g := range all {
		// Losing a lease only asks its work to stop. The contender stays until all leases of its place are given back, and the
		// functions of Do and Lead have returned.
		if work := g.Work.Load(); work != nil && (*work).InUse() {
			busy = true
		} else {
			idle = append(idle, g)
		}
	}
	return idle, busy
}

// clear deletes the idle contenders of lost sessions. It closes each lost session that has no contender with work. A contender belongs to
// one session, and its name has 122 random bits, so clear deletes no other program's contender. (A process that was restored from a
// snapshot beside its original has the same session: the two end each other's contenders.)
func (st *ClientNodes) clear(s *session.Session, todo []*SessionNodes) {
	var named, unnamed []orphan
	for _, lost := range todo {
		idle, busy := lost.idleContenders()
		for _, g := range idle {
			if g.path != "" {
				named = append(named, g)
			} else {
				unnamed = append(unnamed, g)
			}
		}
		if !busy {
			st.Spawn(func() { st.close(s, lost) })
		}
	}
	deleteOrphans(s, named)
	deleteOrphans(s, search(s, unnamed))
}

// search finds the names of orphans whose create was not answered. If a node is created only after the search, the end of its
// session removes it.
func search(s *session.Session, orphans []orphan) (there []orphan) {
	lists := map[string][]string{}
	for _, g := range orphans {
		if _, listed := lists[g.Dir]; !listed {
			lists[g.Dir], _ = ListChildren(context.Background(), s, g.Dir)
		}
		if name := pick(lists[g.Dir], g.prefix); name != "" {
			g.path = kind.JoinPath(g.Dir, name)
			there = append(there, g)
		}
	}
	return there
}

// deleteOrphans deletes many orphans in one transaction. If the transaction fails, it deletes each orphan by itself.
func deleteOrphans(s *session.Session, orphans []orphan) {
	remove := func(some ...orphan) bool {
		paths := make([]string, len(some))
		for i, g := range some {
			paths[i] = g.path
		}
		err := retry.Do(context.Background(), s, Unanswered, func() error {
			b := s.Batch()
			b.Delete(paths...)
			return b.Do(context.Background())
		})
		if err != nil && !(len(some) == 1 && IsNoNode(err)) {
			return false
		}
		for _, g := range some {
			g.Owner.forget(g.Node)
			if g.Key != nil {
				g.Owner.Spawn(func() { _ = g.Key.sweep(context.Background(), s) })
			}
		}
		return true
	}
	for some := range slices.Chunk(orphans, batch) {
		if remove(some...) || len(some) == 1 {
			continue
		}
		var each sync.WaitGroup
		for _, g := range some {
			each.Go(func() { remove(g) })
		}
		each.Wait()
	}
}

// close closes a lost session on the servers, and forgets it. A try that fails may have resumed the session, which then lasts longer. So
// close stops trying after a session timeout, and the servers expire the session.
func (st *ClientNodes) close(s *session.Session, lost *SessionNodes) {
	st.mu.Lock()
	if lost.until.IsZero() {
		lost.until = time.Now().Add(lost.Session.Timeout())
	}
	until := lost.until
	st.mu.Unlock()
	_ = retry.Patiently(context.Background(), s, func(error) bool { return true }, func() error {
		if !time.Now().Before(until) {
			return nil
		}
		return s.CloseLost(context.Background(), lost.Session)
	})
	if s.Err() != nil && time.Now().Before(until) {
		return // the next session tries again
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.Lost = slices.DeleteFunc(st.Lost, func(e *SessionNodes) bool { return e == lost })
}
