package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// kazoo's Semaphore keeps its number of permits as text in its own node, its
// permits as children named by nothing but a UUID, and its queue in a lock beside
// it (kazoo/recipe/lock.py).

var kazooPermit = regexp.MustCompile(`^[0-9a-f]{32}$`)

const kazooQueue = "-__lock__"

// kazooPermits is how many permits the node says it has, 0 when it is none of
// kazoo's semaphores.
func kazooPermits(data []byte, children []string) int {
	n, err := strconv.Atoi(string(data))
	if err != nil || n < 1 || slices.ContainsFunc(children, func(name string) bool { return !kazooPermit.MatchString(name) }) {
		return 0
	}
	return n
}

// kazooSemaphore notes what it found. While kazoo's programs use it, a declaration
// would promise an exclusion that is not there: neither counts the other's permits.
func (f *found) kazooSemaphore(permits, taken int) {
	f.kazoo = true
	if taken > 0 {
		f.skip = fmt.Sprintf("it is a semaphore of kazoo's with %d permits, %d of them taken, and programs of this library do not count those: "+
			"declare it when no program uses kazoo's Semaphore any more", permits, taken)
		return
	}
	f.kind, f.params = kind.Semaphore, kind.Semaphore.New()
	f.set("permits", strconv.Itoa(permits))
	f.notes = append(f.notes, "A semaphore of kazoo's, which nobody holds now. Import it when no program uses kazoo's Semaphore",
		"any more: its permits and those of this library do not count each other. The number in its data is",
		"overwritten then, which wants: locktree plan -overwrite-data.")
}

// besideKazoo marks the queues of kazoo's semaphores, which look like locks.
func besideKazoo(siblings []*found) []*found {
	semaphores := map[string]bool{}
	for _, f := range siblings {
		semaphores[f.path] = f.kazoo
	}
	for _, f := range siblings {
		if of, ok := strings.CutSuffix(f.path, kazooQueue); ok && semaphores[of] {
			f.kind, f.params, f.children, f.notes, f.inUse = nil, nil, nil, nil, 0
			f.skip = "it is the queue of kazoo's semaphore " + of
		}
	}
	return siblings
}
