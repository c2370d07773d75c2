// Package turn lets one goroutine of a client at a time contend for a lock. The others wait here, first come first served, so a thousand
// goroutines keep one node. It knows no ZooKeeper.
//
//	place, _, ahead := turns.Enter(ctx, []turn.Member{{Key: key, ID: id}}, true, false, nil)
//	defer turns.Leave(key)
//
// [Turns] are those of a client; a [Ticket] has the turns of one call. The owner of a turn moves through these states (State):
//
//	Asks ──> Holds ──> Leaves ──> the next goroutine Asks, or the queue is gone
//	  └──────────────────▲
//
// A turn is Free while only sets wait that cannot go on. A set of locks takes its turns at one moment: all, or none. It has none while it
// waits, or a goroutine that holds one of the locks and wants another would wait for the set, and the set for it. So single callers
// overtake a set that cannot go on yet.
package turn

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes/kind"
)

// State is what the owner of a turn does.
type State int

const (
	Asks   State = iota // it asks for the lock, or waits for it
	Holds               // it holds the lock
	Leaves              // it is only cleaning up
	Free                // no goroutine has the turn: all that wait are sets that cannot have the others of their turns
)

// String completes the sentence "the lock is ... by this client".
func (s State) String() string {
	return [...]string{"asked for", "held", "being given back", "free"}[s]
}

// Ahead is the contender in the way of a goroutine.
type Ahead struct {
	ID       string    // of the goroutine that has the turn
	State    State     // of that one
	Holder   Holder    // the foreign contender that it waits for; nil if none is known
	Position int       // how many are ahead
	At       time.Time // of this view
	Ended    bool      // the waiter's context ended the wait
}

// Holder is a foreign contender.
type Holder interface{ Party() kind.Party }

// Key is the lock that goroutines of a client want, as one of a kind and for reading or not. A handle of the wrong kind waits for no
// other, because it will be refused.
type Key struct {
	Kind   *kind.Kind
	Path   string
	Shared bool
}

// Turns are those of a client, by lock. A turn comes with a place that its last owner has made for the next one, or with none. The zero
// value is ready.
type Turns[Place any] struct {
	mu     sync.Mutex
	queues map[Key]*queue[Place]
}

// queue is of one lock.
type queue[Place any] struct {
	owner    string // the ID of the goroutine that has the turn
	state    State  // of the owner
	waiters  []waiter[Place]
	holder   Holder        // the contender that the owner waits for, if known
	position int           // how many are ahead of the owner then
	left     chan struct{} // closed when the owner has left; nil while no call asks
}

// waiter is a goroutine that waits for the turn.
type waiter[Place any] struct {
	id   string
	set  []Key       // the keys of all turns that it takes together; nil for a single lock, which also takes a place that was made for it
	pass chan *Place // of capacity 1: handing over never blocks
}

// ahead describes the contender in the way of a goroutine with i others between it and the owner.
func (q *queue[Place]) ahead(i int) *Ahead {
	if q.holder != nil { // all of us wait for it
		return &Ahead{Holder: q.holder, Position: q.position + i + 1, At: time.Now()}
	}
	return &Ahead{ID: q.owner, Position: i + 1, State: q.state}
}

// idle reports whether the turn is about to be free: its owner is only cleaning up, and none is to follow.
func (q *queue[Place]) idle() bool { return q.state == Leaves && len(q.waiters) == 0 }

// Member is one lock of a set.
type Member struct {
	Key Key
	ID  string
}

// Enter waits for the turns of a set of locks, and takes all of them at one moment. single is for a call that wants one lock, and takes a
// place that was made for it. ahead is the contender in the way, at the member of, when ctx ended (it is Ended). A try ends when another
// is in the way, unless that one is only cleaning up. If waits is not nil, it is told of that contender, with a mutex held.
func (t *Turns[Place]) Enter(ctx context.Context, set []Member, single, try bool, waits func(of int, ahead *Ahead)) (place *Place, of int, ahead *Ahead) {
	t.mu.Lock()
	var first *queue[Place]
	idle := true // those in the way are only cleaning up
	for i, m := range slices.Backward(set) {
		if q := t.queues[m.Key]; q.taken() && (idle || !q.idle()) {
			of, first, idle = i, q, q.idle()
		}
	}
	switch {
	case first == nil:
		for _, m := range set {
			t.begin(m.Key, m.ID, Asks)
		}
		t.mu.Unlock()
		return nil, 0, nil
	case try && !idle:
		defer t.mu.Unlock()
		return nil, of, first.ahead(len(first.waiters))
	case waits != nil && !try && !idle:
		waits(of, first.ahead(len(first.waiters)))
	}
	w := waiter[Place]{pass: make(chan *Place, 1)}
	for _, m := range set {
		if !single {
			w.set = append(w.set, m.Key)
		}
	}
	for _, m := range set {
		w.id = m.ID
		q := t.queues[m.Key]
		if q == nil {
			q = &queue[Place]{state: Free}
			t.queues[m.Key] = q
		}
		q.waiters = append(q.waiters, w)
	}
	t.mu.Unlock()
	select {
	case place = <-w.pass:
		return place, 0, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case place = <-w.pass: // at the same moment: the turns are ours to pass on
		return place, 0, nil
	default:
	}
	for i, m := range set {
		q := t.queues[m.Key]
		at := q.index(w)
		if ahead == nil && q.taken() {
			of, ahead = i, q.ahead(at)
			ahead.Ended = true
		}
		q.remove(at)
		if q.state == Free && len(q.waiters) == 0 {
			delete(t.queues, m.Key)
		}
	}
	return nil, of, ahead
}

// taken reports whether a goroutine has the turn.
func (q *queue[Place]) taken() bool { return q != nil && q.state != Free }

// index is where w waits.
func (q *queue[Place]) index(w waiter[Place]) int {
	return slices.IndexFunc(q.waiters, func(x waiter[Place]) bool { return x.pass == w.pass })
}

// remove takes out the waiter at i.
func (q *queue[Place]) remove(i int) {
	if i > 0 {
		q.waiters = slices.Delete(q.waiters, i, i+1)
		return
	}
	q.waiters[0] = waiter[Place]{}
	q.waiters = q.waiters[1:] // not moved up: a thousand wait
}

// begin gives a free turn to id, in state what.
func (t *Turns[Place]) begin(key Key, id string, what State) {
	if t.queues == nil {
		t.queues = map[Key]*queue[Place]{}
	}
	q := t.queues[key]
	if q == nil {
		q = &queue[Place]{}
		t.queues[key] = q
	}
	q.owner, q.state, q.holder = id, what, nil
	if q.left != nil { // Owner looks again, and finds an owner that is not cleaning up
		close(q.left)
		q.left = nil
	}
}

// Ticket is the turns that a call has: one, those of a set, or none.
type Ticket[Place any] struct {
	Turns *Turns[Place]
	Set   []Member
}

// Granted says that the owner holds the locks.
func (t *Ticket[Place]) Granted() { t.set(Holds) }

// Leaving says that the owner is about to leave. A try that comes now waits a round trip, until the nodes are deleted: otherwise nodes of
// its own client would refuse it.
func (t *Ticket[Place]) Leaving() { t.set(Leaves) }

// set changes the state of the owner, which no longer waits.
func (t *Ticket[Place]) set(what State) {
	if len(t.Set) == 0 {
		return
	}
	t.Turns.mu.Lock()
	defer t.Turns.mu.Unlock()
	for _, m := range t.Set {
		if q := t.Turns.queues[m.Key]; q != nil {
			q.state, q.holder = what, nil
		}
	}
}

// Leave passes the turns on.
func (t *Ticket[Place]) Leave() {
	for _, m := range t.Set {
		t.Turns.Leave(m.Key)
	}
}

// KeepOut makes the next callers wait, as for an owner that is only cleaning up, until Leave. It is for the unfinished requests of
// abandoned calls that took no turn. It does nothing, and reports false, while a goroutine has the turn.
func (t *Turns[Place]) KeepOut(key Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queues[key].taken() {
		return false
	}
	t.begin(key, "", Leaves)
	return true
}

// WaitsFor tells the goroutines behind the owner which contender it waits for, and how many are ahead of it.
func (t *Turns[Place]) WaitsFor(key Key, holder Holder, position int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.queues[key]; q != nil {
		q.holder, q.position = holder, position
	}
}

// Leave passes the turn on, or frees the lock when no goroutine waits.
func (t *Turns[Place]) Leave(key Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pass(key, nil) {
		return
	}
	q := t.queues[key]
	if q == nil {
		return
	}
	if q.left != nil {
		close(q.left)
	}
	if q.state, q.left, q.holder = Free, nil, nil; len(q.waiters) == 0 {
		delete(t.queues, key)
	}
}

// HandOver passes the turn on with a place. It reports false when no goroutine waits that takes one: the turn is still the caller's, and
// the caller undoes the place.
func (t *Turns[Place]) HandOver(key Key, place *Place) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pass(key, place)
}

// pass gives the turn to the first waiter that can go on with it, and reports whether there is one. Under mu a waiter is taken out here,
// or takes itself out, never both: the turn goes to exactly one.
func (t *Turns[Place]) pass(key Key, place *Place) bool {
	i := t.next(key)
	if i < 0 {
		return false
	}
	w := t.queues[key].waiters[i]
	if w.set == nil {
		t.queues[key].remove(i)
		t.begin(key, w.id, Asks)
	} else if place != nil {
		return false
	}
	for _, key := range w.set {
		q := t.queues[key]
		at := q.index(w)
		id := q.waiters[at].id
		q.remove(at)
		t.begin(key, id, Asks)
	}
	w.pass <- place
	return true
}

// next is the index of the first waiter that can go on once the turn is free; -1 if there is none.
func (t *Turns[Place]) next(key Key) int {
	q := t.queues[key]
	if q == nil {
		return -1
	}
	return slices.IndexFunc(q.waiters, func(w waiter[Place]) bool {
		return !slices.ContainsFunc(w.set, func(other Key) bool { return other != key && t.queues[other].taken() })
	})
}

// Next is the ID of the next goroutine, if it takes a place. It may give up at any moment, so the maker of a place must be able to undo
// it.
func (t *Turns[Place]) Next(key Key) (id string, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.next(key); i >= 0 && t.queues[key].waiters[i].set == nil {
		return t.queues[key].waiters[i].id, true
	}
	return "", false
}

// Owner returns nil when the turn is free, otherwise its owner, also of when ctx ended (it is Ended). It waits for an owner that is only
// cleaning up, if none is to follow.
func (t *Turns[Place]) Owner(ctx context.Context, key Key) (ahead *Ahead) {
	for {
		t.mu.Lock()
		q := t.queues[key]
		if ahead = nil; q.taken() {
			ahead = q.ahead(len(q.waiters))
		}
		if ahead == nil || !q.idle() {
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
		case <-ctx.Done():
			ahead.Ended = true
			return ahead
		}
	}
}

// Taken reports whether a goroutine has the turn, which may have changed when the caller acts on it.
func (t *Turns[Place]) Taken(key Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queues[key].taken()
}

// Keys are the locks with a turn that is taken.
func (t *Turns[Place]) Keys() (keys []Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.queues {
		keys = append(keys, key)
	}
	return keys
}
