package prom

import (
	"errors"
	"slices"
	"time"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// place is a call's place in a queue.
type place struct {
	node  string
	began time.Time // the call, as far as the delay of the event lets us know
}

// sameCall is by how much the beginning of a call, counted back from two of its events, may differ.
const sameCall = 100 * time.Millisecond

// queue notes a place.
func (o *Observer) queue(path string, e recipes.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.places[path] = append(o.places[path], place{e.Node, time.Now().Add(-e.Wait)})
}

// leave takes out the place at path of the call that e ended, and reports whether there was one.
//
// An event does not say which call it is of. Most name the contender, and that is certain; a contender that several calls
// inherited from each other was Queued for each of them. Where permits are taken the contender has changed since the call
// queued, and a set's end names one contender at most: there, the place is that of the call that began at the same moment.
func (o *Observer) leave(path string, e recipes.Event, result string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.places[path]
	if len(all) == 0 {
		return false
	}
	i := slices.IndexFunc(all, func(p place) bool { return p.node == e.Node })
	if i < 0 && elsewhere(path, e, result) {
		began := time.Now().Add(-e.Wait)
		if i = nearest(all, began); all[i].began.Sub(began).Abs() >= sameCall {
			i = -1
		}
	}
	if i < 0 {
		return false
	}
	if o.places[path] = slices.Delete(all, i, i+1); len(all) == 1 {
		delete(o.places, path)
	}
	return true
}

// elsewhere says that the call may have a place at path that e does not name. A Try never queues, and who waited for another
// goroutine of its client has not queued yet.
func elsewhere(path string, e recipes.Event, result string) bool {
	var held *recipes.HeldError
	if result == "acquired" {
		return path != e.Path || e.Kind == kind.Semaphore
	}
	return e.Node == "" && result != "held" && !(errors.As(e.Cause, &held) && held.Local)
}

func nearest(all []place, began time.Time) (at int) {
	for i, p := range all {
		if p.began.Sub(began).Abs() < all[at].began.Sub(began).Abs() {
			at = i
		}
	}
	return at
}
