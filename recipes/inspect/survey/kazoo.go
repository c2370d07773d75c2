package survey

import (
	"fmt"
	"strings"

	"github.com/locktree/locktree/recipes/inspect/internal/evidence"
	"github.com/locktree/locktree/recipes/kind"
)

// kazooSemaphore notes a node that is a kazoo semaphore, or a counter. While kazoo programs use the semaphore, a declaration would promise
// an exclusion that does not exist: kazoo and this library do not count each other's permits.
func (f *Found) kazooSemaphore(permits, taken int) {
	f.kazoo = true
	if taken > 0 {
		f.Skip = fmt.Sprintf("it is a semaphore of kazoo's with %d permits, %d of them taken, which programs of this library do not count: "+
			"declare it when no program uses kazoo's Semaphore any more", permits, taken)
		return
	}
	f.Skip = "its data is only a number: it may be a counter of kazoo's, or a semaphore that was never used"
	f.permits = permits
}

// idleKazoo notes a kazoo semaphore that was used and is idle: its queue exists, and no permit is taken.
func (f *Found) idleKazoo(meant bool) {
	f.is(kind.Semaphore)
	f.Stops = !meant
	f.set("permits", f.permits)
	f.Skip = ""
	f.Notes = append(f.Notes, "A semaphore of kazoo's that no program holds now. Import it when no program uses kazoo's Semaphore",
		"any more, because kazoo and this library do not count each other's permits. The import overwrites",
		"the number in its data, so an apply stops there without -overwrite-data.")
}

// besideKazoo marks the queues of kazoo semaphores, which look like locks. By these queues it recognises idle semaphores.
func (o Surveyor) besideKazoo(siblings []*Found) {
	semaphores := map[string]*Found{}
	for _, f := range siblings {
		if f.kazoo {
			semaphores[f.Path] = f
		}
	}
	for _, f := range siblings {
		if of, ok := strings.CutSuffix(f.Path, evidence.KazooQueue); ok && semaphores[of] != nil {
			if semaphores[of].permits > 0 {
				semaphores[of].idleKazoo(o.Idle != nil && o.Idle(of) == kind.Semaphore)
			}
			*f = Found{Path: f.Path, ACL: f.ACL, Skip: "it is the queue of kazoo's semaphore " + of}
		}
	}
}
