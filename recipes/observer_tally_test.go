package recipes_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// tally is an Observer that knows nothing but the events: it keeps gauges, and notes what no sequence of events may hold.
type tally struct {
	mu       sync.Mutex                // heartbeats come at any time
	open     map[uint64]*recipes.Event // calls that wait and leases that are held, with their last event
	over     map[uint64]bool           // calls that were refused, and leases that ended
	doubted  map[any]bool              // calls, and sessions
	sessions map[int64]bool            // false: lost
	told     map[recipes.EventType]int // how often
	last     map[recipes.EventType]recipes.Event
	wrong    []string
}

func newTally() *tally {
	return &tally{open: map[uint64]*recipes.Event{}, over: map[uint64]bool{}, doubted: map[any]bool{},
		sessions: map[int64]bool{}, told: map[recipes.EventType]int{}, last: map[recipes.EventType]recipes.Event{}}
}

// Observe is for Config.Observer.
func (b *tally) Observe(e recipes.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	why := b.ofSession(e)
	if e.Call != 0 {
		why = b.ofCall(e)
	}
	switch latest := b.last[""]; {
	case why != "":
	case e.Cause != nil && strings.Count(e.Cause.Error(), "recipes: ") > 1:
		why = "two prefixes: " + e.Cause.Error()
	case e.Time.Before(latest.Time):
		why = "it is told late"
	case e.Context == nil || e.Context.Err() != nil:
		why = "its context has ended"
	}
	if why != "" {
		b.wrong = append(b.wrong, fmt.Sprintf("%s of call %d for %s: %s", e.Type, e.Call, e.Path, why))
	}
	b.told[e.Type]++
	b.last[e.Type], b.last[""] = e, e
}

// ofCall says what is wrong with an event of a call, or of its lease.
func (b *tally) ofCall(e recipes.Event) string {
	was := b.open[e.Call]
	holds := was != nil && was.Type != recipes.EventQueued
	switch {
	case b.over[e.Call]:
		return "the call has come to its end"
	case was != nil && (was.Context != e.Context || len(was.Locks) != len(e.Locks)), // who waits may follow a lock to another path:
		holds && (was.Path != e.Path || !reflect.DeepEqual(was.Locks, e.Locks)):
		return "it was another call's"
	case len(e.Locks) == 0 || slices.ContainsFunc(e.Locks, func(l recipes.EventLock) bool {
		return l.Kind == nil || (l.Permits > 0) != (l.Kind == kind.Semaphore) && e.Type != recipes.EventRefused
	}):
		return fmt.Sprintf("its locks are %v", e.Locks)
	}
	var held *recipes.HeldError
	switch e.Type {
	case recipes.EventQueued:
		if was != nil || !errors.As(e.Cause, &held) || held.Path == "" || e.Node == "" && !held.Local && held.Holder.Path == "" {
			return fmt.Sprintf("after %v, because of %v", was, e.Cause)
		}
	case recipes.EventAcquired, recipes.EventRefused:
		if holds || recipes.ResultOf(e.Cause) != e.Result || (e.Result == "acquired") != (e.Type == recipes.EventAcquired) {
			return fmt.Sprintf("after %v, result %s of %v", was, e.Result, e.Cause)
		}
	default:
		if !holds || e.Session == 0 || e.Node == "" || (e.Type == recipes.EventLost) != errors.Is(e.Cause, recipes.ErrLost) {
			return fmt.Sprintf("after %v, because of %v", was, e.Cause)
		}
	}
	b.open[e.Call] = &e
	if e.Type == recipes.EventRefused || e.Type == recipes.EventReleased || e.Type == recipes.EventLost {
		delete(b.open, e.Call)
		b.over[e.Call] = true
	}
	return ""
}

// ofSession says what is wrong with an event of a session.
func (b *tally) ofSession(e recipes.Event) string {
	live, known := b.sessions[e.Session]
	opened, doubt := e.Type == session.EventOpened, e.Type == session.EventSuspected
	switch {
	case e.Call != 0:
	case e.Session == 0 || opened == known || known && !live:
		return fmt.Sprintf("known %v, live %v", known, live)
	case (doubt || e.Type == session.EventCleared) && b.doubted[e.Session] == doubt:
		return "twice"
	case (e.Type == recipes.EventSessionLost) != errors.Is(e.Cause, recipes.ErrSessionLost) && e.Type != recipes.EventHeartbeat:
		return fmt.Sprint("because of ", e.Cause)
	}
	if e.Call == 0 {
		b.sessions[e.Session] = e.Type != recipes.EventSessionLost
		if doubt || e.Type == session.EventCleared {
			b.doubted[e.Session] = doubt
		}
	}
	return ""
}

// gauges are how many leases of the lock at path there are, and how many calls that wait.
func (b *tally) gauges(path string) (leases, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.open {
		if !slices.ContainsFunc(e.Locks, func(l recipes.EventLock) bool { return l.Path == path }) {
			continue
		}
		if e.Type == recipes.EventQueued {
			waiting++
		} else {
			leases++
		}
	}
	return leases, waiting
}

// atRest is what is wrong when the client is closed and no call is under way.
func (b *tally) atRest() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	wrong := b.wrong
	for _, e := range b.open {
		wrong = append(wrong, fmt.Sprintf("nothing follows %s of call %d for %s", e.Type, e.Call, e.Path))
	}
	for s, live := range b.sessions {
		if live {
			wrong = append(wrong, fmt.Sprintf("session 0x%x is not told to be lost", uint64(s)))
		}
	}
	return wrong
}

func (b *tally) latest(what recipes.EventType) recipes.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last[what]
}

func (b *tally) count(what recipes.EventType) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.told[what]
}
