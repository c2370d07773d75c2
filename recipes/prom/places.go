package prom

import (
	"errors"
	"math"
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
	if i < 0 {
		began := time.Now().Add(-e.Wait)
		if i = nearest(all, began); all[i].began.Sub(began).Abs() >= sameCall(path, e, result) {
			return false
		}
	}
	if o.places[path] = slices.Delete(all, i, i+1); len(all) == 1 {
		delete(o.places, path)
	}
	return true
}

// sameCall is by how much the beginning of a call may differ, counted back from two of its events, where e need not name the
// contender; else 0. The bounds are wide where a place that nobody takes out is the likelier mistake, and narrow where other
// calls that have no place end like this one.
func sameCall(path string, e recipes.Event, result string) time.Duration {
	var held *recipes.HeldError
	switch errors.As(e.Cause, &held); {
	case held != nil && (held.Cause == nil || held.Local): // a Try, or behind another goroutine: it has not queued
		return 0
	case path != e.Path: // a set
		return time.Second
	case result == "acquired" && e.Kind == kind.Semaphore: // in the order of the queue, so nobody who came later is before it
		return math.MaxInt64
	case e.Node == "":
		return 100 * time.Millisecond
	}
	return 0
}

func nearest(all []place, began time.Time) (at int) {
	for i, p := range all {
		if p.began.Sub(began).Abs() < all[at].began.Sub(began).Abs() {
			at = i
		}
	}
	return at
}
