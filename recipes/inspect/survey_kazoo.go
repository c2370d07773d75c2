package inspect

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// kazoo's Semaphore keeps its number of permits as text in its own node, its
// permits as children named by a bare UUID, and its queue in a lock beside it
// (kazoo/recipe/lock.py).

var kazooPermit = regexp.MustCompile(`^[0-9a-f]{32}$`)

const kazooQueue = "-__lock__"

// kazooPermits returns the number of permits in the node's data, 0 if it is not a
// kazoo semaphore.
func kazooPermits(data []byte, children []string) int {
	n, err := strconv.Atoi(string(data))
	if err != nil || n < 1 || slices.ContainsFunc(children, func(name string) bool { return !kazooPermit.MatchString(name) }) {
		return 0
	}
	return n
}

// kazooSemaphore notes what was found. While kazoo programs use it, a declaration
// would promise an exclusion that does not exist: neither side counts the other's
// permits.
func (f *Found) kazooSemaphore(permits, taken int) {
	f.kazoo = true
	if taken > 0 {
		f.Skip = fmt.Sprintf("it is a semaphore of kazoo's with %d permits, %d of them taken, which programs of this library do not count: "+
			"declare it when no program uses kazoo's Semaphore any more", permits, taken)
		return
	}
	all := kind.All()
	f.is(all[slices.IndexFunc(all, func(k *kind.Kind) bool { return k.Permits != nil })])
	f.set("permits", permits)
	f.Notes = append(f.Notes, "A semaphore of kazoo's that nobody holds now. Import it when no program uses kazoo's Semaphore",
		"any more, because its permits and those of this library do not count each other. The import overwrites",
		"the number in its data, which needs: locktree plan -overwrite-data.")
}

// besideKazoo marks the queues of kazoo semaphores, which look like locks.
func besideKazoo(siblings []*Found) {
	semaphores := map[string]bool{}
	for _, f := range siblings {
		semaphores[f.Path] = f.kazoo
	}
	for _, f := range siblings {
		if of, ok := strings.CutSuffix(f.Path, kazooQueue); ok && semaphores[of] {
			*f = Found{Path: f.Path, ACL: f.ACL, Skip: "it is the queue of kazoo's semaphore " + of}
		}
	}
}
