package held

import (
	"testing/synctest"
	"time"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
)

// Moves are the states in which a holding may be, and for each the ones that it may move to.
func Moves() map[string][]string {
	all := map[string][]string{}
	for from := starting; from <= over; from++ {
		for next := starting; next <= over; next++ {
			if s := from; s.to(next) {
				all[from.String()] = append(all[from.String()], s.String())
			}
		}
	}
	return all
}

// LooksAtHidden is how often n hidden nodes are looked at again when nothing watches them any more.
func LooksAtHidden(s *session.Session, n int) (looks int) {
	h := &Lock{owner: &znode.SessionNodes{Session: s}}
	h.own = make([]func(), n)
	for i := range n {
		h.watching(0, i, &znode.Watch{Hidden: true}, func() { looks++ })
	}
	h.stopWatching()
	time.Sleep(s.Timeout())
	synctest.Wait()
	return looks
}
