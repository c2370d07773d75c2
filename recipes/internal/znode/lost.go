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

// lostSessions are those of sessions that the servers are not known to have ended. ClientNodes.mu guards them.
//
// A session that is lost by our clock lives on at the servers for up to its timeout, longer if a server was restarted, and so do
// its contenders. This client does not wait for them: the first request that the recipes send in the next session deletes them by
// name, and the lost session is closed beside it, for what has no name yet: creates that are executed late.
//
// Two things make that safe.
//  1. Nobody else's node is deleted. A contender belongs to one session, and its name has 122 random bits, so what has that name
//     is its node, whatever became of the queue meanwhile. Only a process that was restored from a snapshot beside its original
//     has the same session, and so the same contenders: the two end each other's.
//  2. Nothing is ended early under work that may still run. A lease that is lost ends its context, which is no more than a
//     request to stop: until all leases of a place are given back, and the functions of all calls of Do and Lead that use it have
//     returned (Node.InUse), its contenders stay, and the session is not closed. A session that is lost grants nothing more, so
//     what is idle stays idle.
type lostSessions []*SessionNodes

// uncleared are those of which contenders may have become idle since they were last cleared, or were never cleared through e. It
// forgets those whose sessions the servers know to be over.
func (all *lostSessions) uncleared(e *SessionNodes) (todo []*SessionNodes) {
	*all = slices.DeleteFunc(*all, func(lost *SessionNodes) bool { return lost.Session.Gone() })
	for _, lost := range *all {
		if lost.cleared != e {
			todo = append(todo, lost)
		}
	}
	return todo
}

// clears returns what is to be cleared next; nil if that is nothing, which ends the clearing.
func (st *ClientNodes) clears(e *SessionNodes) []*SessionNodes {
	st.mu.Lock()
	defer st.mu.Unlock()
	todo := st.Lost.uncleared(e)
	if len(todo) == 0 || e.Session.Err() != nil {
		st.cleared = nil
		return nil
	}
	for _, lost := range todo { // before it is looked who works: whoever ends that later undoes this
		lost.cleared = e
	}
	return todo
}

// orphan is a contender of a lost session.
type orphan struct {
	*Node
	path, prefix string // as of when it was looked at: a call that is about to fail may still write into the contender
}

// idle are the contenders that nobody works under; some says that there are others.
func (e *SessionNodes) idle() (idle []orphan, some bool) {
	e.mu.Lock()
	all := slices.Collect(maps.Values(e.nodes))
	e.mu.Unlock()
	for _, g := range all {
		if works := g.InUse.Load(); works != nil && (*works)() {
			some = true
		} else {
			idle = append(idle, g)
		}
	}
	return idle, some
}

// clear deletes the idle contenders of lost sessions, and has the sessions closed that have no others.
func (st *ClientNodes) clear(s *session.Session, todo []*SessionNodes) {
	var named, unnamed []orphan
	for _, lost := range todo {
		idle, some := lost.idle()
		for _, g := range idle {
			if g.path != "" {
				named = append(named, g)
			} else {
				unnamed = append(unnamed, g)
			}
		}
		if !some {
			st.Spawn(func() { st.close(s, lost) })
		}
	}
	deleteOrphans(s, named)
	deleteOrphans(s, search(s, unnamed))
}

// search finds the names of orphans whose create was not answered. What is not there, or cannot be listed, is left to the end
// of its session.
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

// deleteOrphans deletes orphans, many in one transaction. If one of these is gone already, or cannot be deleted, each is deleted by
// itself.
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

// close closes a lost session on the servers, and forgets it. A try that fails may have resumed the session. So after a
// session timeout it is left to them to expire it.
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
		return // the next session goes on
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.Lost = slices.DeleteFunc(st.Lost, func(e *SessionNodes) bool { return e == lost })
}
