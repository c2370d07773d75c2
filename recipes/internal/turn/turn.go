// Package turn lets one goroutine of a client at a time contend for a lock; the others wait here, first come first served. It is what
// keeps a thousand goroutines down to one node. It knows no ZooKeeper.
package turn

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes/kind"
)

// State is what the goroutine that has the turn does.
type State int

const (
	Asks   State = iota // it asks for the lock, or waits for it
	Holds               // it holds the lock
	Leaves              // it is only cleaning up
)

// String completes the sentence "the lock is ... by this client".
func (s State) String() string { return [...]string{"asked for", "held", "being given back"}[s] }

// Ahead says who is in the way of a goroutine.
type Ahead struct {
	ID       string      // of the goroutine that has the turn
	State    State       // of that one
	Holder   *kind.Party // somebody else's contender, for which that one waits; nil if none is known
	Position int         // how many are ahead
	At       time.Time   // when that was so
	Ended    bool        // the wait for that one was ended by its context
}

// Turns are those of a client, by lock. A turn comes with a place that its last owner has made for the next one, or with none. The zero
// value is ready.
type Turns[Place any] struct {
	mu     sync.Mutex
	queues map[string]*queue[Place]
}

// queue is of one lock.
type queue[Place any] struct {
	owner    string // the ID of the goroutine that has the turn
	state    State  // of the owner
	waiters  []waiter[Place]
	holder   *kind.Party   // what the owner waits for, if it is known to wait
	position int           // how many are ahead of the owner then
	left     chan struct{} // closed when who has the turn has left; nil while nobody asks
}

// waiter is a goroutine that waits for the turn.
type waiter[Place any] struct {
	id    string
	takes bool        // a place that was made for it; a set does not
	pass  chan *Place // of capacity 1: handing over never blocks
}

// ahead says who is in the way of a goroutine with i others between it and the owner.
func (q *queue[Place]) ahead(i int) *Ahead {
	if q.holder != nil { // which all of us wait for
		return &Ahead{Holder: q.holder, Position: q.position + i + 1, At: time.Now()}
	}
	return &Ahead{ID: q.owner, Position: i + 1, State: q.state}
}

// idle reports whether the turn is about to be free: its owner is only cleaning up, and nobody is to follow.
func (q *queue[Place]) idle() bool { return q.state == Leaves && len(q.waiters) == 0 }

// Enter waits for the turn, which may come with a place if the caller takes one. ahead says who was in the way when ctx ended (it is Ended).
// A try ends when somebody is in the way, unless that one is only cleaning up. waits, if not nil, is told whom this call waits for, with a
// mutex held.
func (t *Turns[Place]) Enter(ctx context.Context, key, id string, try, takes bool, waits func(*Ahead)) (place *Place, ahead *Ahead) {
	t.mu.Lock()
	q := t.queues[key]
	if q == nil {
		t.begin(key, id, Asks)
		t.mu.Unlock()
		return nil, nil
	}
	if try && !q.idle() {
		defer t.mu.Unlock()
		return nil, q.ahead(len(q.waiters))
	}
	if waits != nil && !try && !q.idle() {
		waits(q.ahead(len(q.waiters)))
	}
	pass := make(chan *Place, 1)
	q.waiters = append(q.waiters, waiter[Place]{id, takes, pass})
	t.mu.Unlock()
	select {
	case place = <-pass:
		return place, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(q.waiters, func(w waiter[Place]) bool { return w.pass == pass })
	if i < 0 { // the turn came at the same moment: it is ours to pass on
		return <-pass, nil
	}
	ahead = q.ahead(i)
	ahead.Ended = true
	q.waiters = slices.Delete(q.waiters, i, i+1)
	return nil, ahead
}

// begin gives the turn, which nobody has, to id, whose state is what.
func (t *Turns[Place]) begin(key, id string, what State) {
	if t.queues == nil {
		t.queues = map[string]*queue[Place]{}
	}
	t.queues[key] = &queue[Place]{owner: id, state: what}
}

// set changes the state of the owner, who waits for nobody any more.
func (t *Turns[Place]) set(key string, what State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.queues[key]; q != nil {
		q.state, q.holder = what, nil
	}
}

// Granted says that the owner holds the lock.
func (t *Turns[Place]) Granted(key string) { t.set(key, Holds) }

// Leaving says that the owner is about to leave. A try that comes now waits until the nodes are deleted, which takes a round trip:
// otherwise nodes of its own client would refuse it.
func (t *Turns[Place]) Leaving(key string) { t.set(key, Leaves) }

// KeepOut makes the next callers wait, as for an owner that is only cleaning up, until Leave. It is for what abandoned calls of a recipe
// that takes no turn leave undone, and does nothing, and reports false, while somebody has the turn.
func (t *Turns[Place]) KeepOut(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queues[key] != nil {
		return false
	}
	t.begin(key, "", Leaves)
	return true
}

// WaitsFor says which contender the owner waits for, and how many are ahead of it, for those who wait behind it.
func (t *Turns[Place]) WaitsFor(key string, holder *kind.Party, position int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.queues[key]; q != nil {
		q.holder, q.position = holder, position
	}
}

// Leave passes the turn on, or frees the lock when nobody waits.
func (t *Turns[Place]) Leave(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pass(key, nil) {
		return
	}
	if q := t.queues[key]; q != nil && q.left != nil {
		close(q.left)
	}
	delete(t.queues, key)
}

// HandOver passes the turn on with a place. It reports false when nobody waits that takes one: the turn is still the caller's, and the
// place the caller's to undo.
func (t *Turns[Place]) HandOver(key string, place *Place) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pass(key, place)
}

// pass gives the turn to the first who waits for it, and reports whether somebody does. Under mu a waiter is taken out here, or takes
// itself out in Enter, never both: the turn goes to exactly one.
func (t *Turns[Place]) pass(key string, place *Place) bool {
	q := t.queues[key]
	if q == nil || len(q.waiters) == 0 || place != nil && !q.waiters[0].takes {
		return false
	}
	next := q.waiters[0]
	q.waiters[0] = waiter[Place]{}
	q.waiters = q.waiters[1:] // not moved up: a thousand wait
	q.owner, q.state, q.holder = next.id, Asks, nil
	if q.left != nil { // Owner looks again, and finds somebody who is not cleaning up
		close(q.left)
		q.left = nil
	}
	next.pass <- place
	return true
}

// Next is the ID of the goroutine that is next, if one waits that takes a place. It may give up at any moment, so who makes a place for
// it must be able to undo that.
func (t *Turns[Place]) Next(key string) (id string, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.queues[key]; q != nil && len(q.waiters) > 0 && q.waiters[0].takes {
		return q.waiters[0].id, true
	}
	return "", false
}

// Owner returns nil when nobody has the turn, else who has, or had when ctx ended (it is Ended). It waits for an owner that is only cleaning
// up, if nobody is to follow.
func (t *Turns[Place]) Owner(ctx context.Context, key string) (ahead *Ahead) {
	for {
		t.mu.Lock()
		q := t.queues[key]
		if q != nil {
			ahead = q.ahead(len(q.waiters))
		}
		if q == nil || !q.idle() {
			t.mu.Unlock()
			return ahead
		}
		if q.left == nil {
			q.left = make(chan struct{})
		}
		left := q.left
		t.mu.Unlock()
		select {
		case <-left:
			ahead = nil
		case <-ctx.Done():
			ahead.Ended = true
			return ahead
		}
	}
}

// Taken reports whether somebody has the turn. It may be another's, or nobody's, when the caller acts on that.
func (t *Turns[Place]) Taken(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queues[key] != nil
}

// Keys are the locks for which somebody has the turn.
func (t *Turns[Place]) Keys() (keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.queues {
		keys = append(keys, key)
	}
	return keys
}
