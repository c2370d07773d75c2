package held

import (
	"testing/synctest"
	"time"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
)

// Moves are the states in which a holding may be, and for each the ones that it may move to.
func Moves() map[string][]string { return steps(moves, starting, over) }

// UseMoves are those of a lease.
func UseMoves() map[string][]string { return steps(useMoves, used, exchanged) }

func steps[S interface {
	~int
	String() string
}](legal map[S][]S, first, last S) map[string][]string {
	all := map[string][]string{}
	for from := first; from <= last; from++ {
		for next := first; next <= last; next++ {
			if s := from; step(legal, &s, next) {
				all[from.String()] = append(all[from.String()], s.String())
			}
		}
	}
	return all
}

func (s useState) String() string { return [...]string{"used", "released", "exchanged"}[s] }

// LooksAtHidden is how often n hidden nodes are looked at again when nothing watches them any more.
func LooksAtHidden(s *session.Session, n int) (looks int) {
	h := &Lock{owner: &znode.SessionNodes{Session: s}}
	h.own = make([]func(), n)
	for i := range n {
		h.keep(0, i, &znode.Watch{Hidden: true}, func() { looks++ })
	}
	h.stopWatching()
	time.Sleep(s.Timeout())
	synctest.Wait()
	return looks
}
