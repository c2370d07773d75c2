package inspect

import (
	"cmp"
	"context"
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

const (
	kazooQueue = "-__lock__"
	maxDigits  = 10 // of a number of permits
)

// kazooPermits returns the number of permits in the node's data, 0 if it is not a
// kazoo semaphore.
func kazooPermits(data []byte, children []string) int {
	n, err := strconv.Atoi(string(data))
	if err != nil || n < 1 || len(data) > maxDigits || slices.ContainsFunc(children, func(name string) bool { return !kazooPermit.MatchString(name) }) {
		return 0
	}
	return n
}

// fillKazoo fills in who has a permit and who waits for one.
func (in *Report) fillKazoo(taken, waiting []string, read func(dir string) reading) (err error) {
	var permits []kind.Contender
	for _, name := range taken {
		permits = append(permits, kind.Contender{Name: name, Marker: "__lock__"})
	}
	if in.Holders, err = readAll(in.Path, permits, read(in.Path)); err != nil {
		return err
	}
	slices.SortFunc(in.Holders, func(a, b Contender) int { return cmp.Compare(a.Token, b.Token) })
	queue := in.Path + kazooQueue
	var junk []string
	if in.Waiters, junk, err = contenders(queue, waiting, read(queue)); err != nil {
		return err
	}
	in.junk(queue, junk)
	for c := range in.contenders {
		c.Permits = 1
	}
	return nil
}

// updateKazoo is update for a semaphore of kazoo's.
func (r *round) updateKazoo(ctx context.Context, e *entry, in *Report, changed, deep bool) error {
	queue := e.dir(in.Path + kazooQueue)
	new, err := r.listQueue(ctx, queue, (deep || !r.dumped()) && queue.listed)
	notes := e.due(deep, changed || new)
	if err != nil || !changed && !new && !notes {
		return err
	}
	if err := in.fillKazoo(e.dir(e.path).names, queue.names, r.reading(ctx, e, notes)); err != nil {
		return err
	}
	if !in.equal(e.report) {
		e.report = in
	}
	return nil
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
	f.Skip = "its data is only a number, as that of a counter of kazoo's and of a semaphore that was never used"
	f.permits = permits
}

// idleKazoo is for a semaphore of kazoo's that has been used: its queue is there, and no permit is taken.
func (f *Found) idleKazoo() {
	f.is(kind.Semaphore)
	f.set("permits", f.permits)
	f.Skip = ""
	f.Notes = append(f.Notes, "A semaphore of kazoo's that nobody holds now. Import it when no program uses kazoo's Semaphore",
		"any more, because its permits and those of this library do not count each other. The import overwrites",
		"the number in its data, which needs: locktree plan -overwrite-data.")
}

// besideKazoo marks the queues of kazoo semaphores, which look like locks, and recognises the semaphores that are idle by them.
func besideKazoo(siblings []*Found) {
	semaphores := map[string]*Found{}
	for _, f := range siblings {
		if f.kazoo {
			semaphores[f.Path] = f
		}
	}
	for _, f := range siblings {
		if of, ok := strings.CutSuffix(f.Path, kazooQueue); ok && semaphores[of] != nil {
			if semaphores[of].permits > 0 {
				semaphores[of].idleKazoo()
			}
			*f = Found{Path: f.Path, ACL: f.ACL, Skip: "it is the queue of kazoo's semaphore " + of}
		}
	}
}
