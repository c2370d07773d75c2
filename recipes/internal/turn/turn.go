// Package turn lets one goroutine of a client at a time contend for a lock. The others wait here in their order of arrival, so a
// thousand goroutines keep one node. The package knows nothing of ZooKeeper.
//
//	place, _, ahead := turns.Enter(ctx, []turn.Member{{Key: key, ID: id}}, true, false, nil)
//	defer turns.Leave(key)
//
// [Turns] has the turns of a client; a [Ticket] has the turns of one call. The owner of a turn moves through these states
// (State):
//
//	Asks ──> Holds ──> Leaves ──> the next goroutine Asks, or the queue is gone
//	  └──────────────────▲
//
// A set of locks takes its turns at one moment: all, or none. It has no turn while it waits. If a waiting set had a turn, it
// could block itself. A goroutine that holds one of the set's locks could want another of them, and wait for the set, while
// the set waits for that goroutine. So single callers overtake a set that cannot go on yet. A turn is Free while only such
// sets wait.
package turn

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes/kind"
)

// State says what the owner of a turn does.
type State int

const (
	Asks   State = iota // the owner asks for the lock, or waits for it
	Holds               // the owner holds the lock
	Leaves              // the owner is only deleting its nodes
	Free                // no goroutine has the turn: only sets wait, each for another of its turns
)

// String completes the sentence "the lock is ... by this client".
func (s State) String() string {
	return [...]string{"asked for", "held", "being given back", "free"}[s]
}

// Ahead is the contender in the way of a goroutine.
type Ahead struct {
	ID       string    // the ID of the goroutine that has the turn
	State    State     // what that goroutine does
	Holder   Holder    // the foreign contender that the goroutine waits for; nil if none is known
	Position int       // the number of contenders ahead
	At       time.Time // when this was known
	Ended    bool      // the waiter's context ended the wait
}

// Holder is a foreign contender.
type Holder interface{ Party() kind.Party }

// Key names a lock, the kind that the caller expects, and whether it is for reading. A caller that expects a wrong kind waits for
// no other caller, because the lock's declaration will refuse it.
type Key struct {
	Kind   *kind.Kind
	Path   string
	Shared bool
}

// Turns has the turns of a client, by lock. The last owner of a turn may pass it on with a place in the queue. The zero value is
// ready.
type Turns[Place any] struct {
	mu     sync.Mutex
	queues map[Key]*queue[Place]
}

// queue has the owner and the waiters of one lock's turn.
type queue[Place any] struct {
	owner    string // the ID of the goroutine that has the turn
	state    State  // the state of the owner
	waiters  []waiter[Place]
	holder   Holder        // the contender that the owner waits for, if known
	position int           // the number of contenders ahead of the owner
	left     chan struct{} // closed when the owner has left; nil while no call of Owner waits
}

// waiter is a goroutine that waits for the turn.
type waiter[Place any] struct {
	id   string
	set  []Key       // the keys of all turns of a set; nil for a call that wants one lock: such a call also accepts a place
	pass chan *Place // of capacity 1, so passing a turn never blocks
}

// describeAhead describes the contender in the way of a goroutine that has i others between it and the owner.
func (q *queue[Place]) describeAhead(i int) *Ahead {
	if q.holder != nil { // all goroutines of this client wait for that contender
		return &Ahead{Holder: q.holder, Position: q.position + i + 1, At: time.Now()}
	}
	return &Ahead{ID: q.owner, Position: i + 1, State: q.state}
}

// soonFree reports whether the turn is about to be free: its owner only deletes its nodes, and no other goroutine waits.
func (q *queue[Place]) soonFree() bool { return q.state == Leaves && len(q.waiters) == 0 }

// Member is one lock of a set.
type Member struct {
	Key Key
	ID  string
}

// Enter waits for the turns of a set of locks, and takes all of them at one moment. The parameter single is true for a call that
// wants one lock: such a call also accepts a place. If ctx ends first, Enter returns the contender in the way as obstacle, whose
// field Ended is true. The result member is the index of that contender's lock. A try returns obstacle at once if a contender is
// in the way, unless that contender only deletes its nodes and no other goroutine waits. In that case report is not called either.
// Otherwise, if report is not nil, Enter calls it once before it waits, with a mutex held.
func (t *Turns[Place]) Enter(ctx context.Context, set []Member, single, try bool, report func(member int, ahead *Ahead)) (place *Place, member int, obstacle *Ahead) {
	t.mu.Lock()
	var first *queue[Place]
	idle := true // the owners in the way only delete their nodes, and no other goroutine waits for their turns
	for i, m := range slices.Backward(set) {
		if q := t.queues[m.Key]; q.isTaken() && (idle || !q.soonFree()) {
			member, first, idle = i, q, q.soonFree()
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
		return nil, member, first.describeAhead(len(first.waiters))
	case report != nil && !try && !idle:
		report(member, first.describeAhead(len(first.waiters)))
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
	case place = <-w.pass: // the turns came at the same moment, so the caller has them
		return place, 0, nil
	default:
	}
	for i, m := range set {
		q := t.queues[m.Key]
		at := q.index(w)
		if obstacle == nil && q.isTaken() {
			member, obstacle = i, q.describeAhead(at)
			obstacle.Ended = true
		}
		q.remove(at)
		if q.state == Free && len(q.waiters) == 0 {
			delete(t.queues, m.Key)
		}
	}
	return nil, member, obstacle
}

// isTaken reports whether a goroutine has the turn.
func (q *queue[Place]) isTaken() bool { return q != nil && q.state != Free }

// index returns the position of w.
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
	q.waiters = q.waiters[1:] // the slice is not copied, because a thousand goroutines may wait
}

// begin gives a free turn to the goroutine id, in this state.
func (t *Turns[Place]) begin(key Key, id string, state State) {
	if t.queues == nil {
		t.queues = map[Key]*queue[Place]{}
	}
	q := t.queues[key]
	if q == nil {
		q = &queue[Place]{}
		t.queues[key] = q
	}
	q.owner, q.state, q.holder = id, state, nil
	if q.left != nil { // the method Owner looks again, and finds the new owner
		close(q.left)
		q.left = nil
	}
}

// Ticket has the turns of one call: one turn, the turns of a set, or none.
type Ticket[Place any] struct {
	Turns *Turns[Place]
	Set   []Member
}

// Granted says that the owner holds the locks.
func (t *Ticket[Place]) Granted() { t.set(Holds) }

// Leaving says that the owner is about to leave. A try that comes now waits until the nodes are deleted, about a round trip:
// otherwise it would be refused because of nodes of its own client.
func (t *Ticket[Place]) Leaving() { t.set(Leaves) }

// set changes the state of the owner, which no longer waits.
func (t *Ticket[Place]) set(state State) {
	if len(t.Set) == 0 {
		return
	}
	t.Turns.mu.Lock()
	defer t.Turns.mu.Unlock()
	for _, m := range t.Set {
		if q := t.Turns.queues[m.Key]; q != nil {
			q.state, q.holder = state, nil
		}
	}
}

// Leave passes the turns on.
func (t *Ticket[Place]) Leave() {
	for _, m := range t.Set {
		t.Turns.Leave(m.Key)
	}
}

// KeepOut makes the next callers wait until Leave, as for an owner that only deletes its nodes. It is for the unfinished requests
// of abandoned calls that took no turn. If a goroutine has the turn, KeepOut does nothing and returns false.
func (t *Turns[Place]) KeepOut(key Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queues[key].isTaken() {
		return false
	}
	t.begin(key, "", Leaves)
	return true
}

// WaitsFor records the contender for which the owner waits, and the number of contenders ahead of the owner. The errors of
// goroutines that wait for the turn show both.
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

// HandOver passes the turn on with a place. It returns false if no waiting goroutine accepts a place. Then the caller still has
// the turn, and deletes the place.
func (t *Turns[Place]) HandOver(key Key, place *Place) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pass(key, place)
}

// pass gives the turn to the first waiter that can go on with it, and reports whether there is one. A waiter is taken out under
// mu, either here or by itself. So the turn goes to exactly one waiter.
func (t *Turns[Place]) pass(key Key, place *Place) bool {
	i := t.nextWaiter(key)
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

// nextWaiter returns the index of the first waiter that can go on once the turn is free; -1 if there is none.
func (t *Turns[Place]) nextWaiter(key Key) int {
	q := t.queues[key]
	if q == nil {
		return -1
	}
	return slices.IndexFunc(q.waiters, func(w waiter[Place]) bool {
		return !slices.ContainsFunc(w.set, func(other Key) bool { return other != key && t.queues[other].isTaken() })
	})
}

// Next returns the ID of the next goroutine, if it accepts a place. That goroutine may give up at any moment, so the caller must
// be able to delete the place again.
func (t *Turns[Place]) Next(key Key) (id string, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.nextWaiter(key); i >= 0 && t.queues[key].waiters[i].set == nil {
		return t.queues[key].waiters[i].id, true
	}
	return "", false
}

// Owner returns nil if the turn is free, otherwise its owner. It first waits for an owner that only deletes its nodes, if no
// other goroutine waits. If ctx ends during this wait, Owner returns the owner with Ended set.
func (t *Turns[Place]) Owner(ctx context.Context, key Key) (ahead *Ahead) {
	for {
		t.mu.Lock()
		q := t.queues[key]
		if ahead = nil; q.isTaken() {
			ahead = q.describeAhead(len(q.waiters))
		}
		if ahead == nil || !q.soonFree() {
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

// Taken reports whether a goroutine has the turn. That may change before the caller acts.
func (t *Turns[Place]) Taken(key Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queues[key].isTaken()
}

// Keys returns the locks whose turn is taken or wanted.
func (t *Turns[Place]) Keys() (keys []Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.queues {
		keys = append(keys, key)
	}
	return keys
}
