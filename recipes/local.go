package recipes

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/locktree/locktree/recipes/internal/znode"
)

// localQueues are those of a client, by lock. clientState.mu guards them, and what is in them, so all their methods are called with mu held.
type localQueues map[string]*localQueue

// localQueue lets one goroutine of this client at a time contend for a lock in ZooKeeper; the others wait here, first come
// first served. It is what keeps a thousand goroutines down to one contender.
type localQueue struct {
	owner    string        // the ID of the goroutine that has the ticket
	state    ownerState    // of the owner
	waiters  []caller      // in the order of arrival
	holder   *rival        // what the owner waits for, if it is known to wait; its data may change, with mu held
	position int           // how many are ahead of the owner then
	left     chan struct{} // closed when who has the ticket has left; nil while nobody asks
}

// ownerState is what the goroutine that has the ticket does.
type ownerState int

const (
	asks   ownerState = iota // it asks for the lock, or waits for it
	holds                    // nobody may be under the lock: see localQueue.kept
	leaves                   // it is only cleaning up
)

// String completes the sentence "the lock is ... by this client".
func (o ownerState) String() string { return [...]string{"asked for", "held", "being given back"}[o] }

// caller is a goroutine that waits for the ticket.
type caller struct {
	id    string
	takes bool        // a place that was made for it; a set does not
	pass  chan ticket // of capacity 1: handing over never blocks
}

// ticket is the right to contend, with what its last owner left to the next one.
type ticket struct {
	k        *znode.Node // a contender already in the queue, or nil
	children []string    // the queue as of k's creation, or nil
}

// ahead says who is in the way of a goroutine with i others between it and the owner.
func (s *localQueue) ahead(i int) *HeldError {
	if s.holder != nil { // somebody else's contender, which all of us wait for
		return &HeldError{Holder: s.holder.contender(), Position: s.position + i + 1, at: time.Now()} // each caller's own: Identify writes into it
	}
	return &HeldError{Holder: Contender{ID: s.owner, Host: znode.Hostname(), PID: os.Getpid()}, Position: i + 1, Local: true, owner: s.state}
}

// idle reports whether the ticket is about to be free: its owner is only cleaning up, and nobody is to follow.
func (s *localQueue) idle() bool { return s.state == leaves && len(s.waiters) == 0 }

// enter waits for the ticket. held says who was in the way when ctx ended (its Cause). A try ends when somebody is in the
// way, unless that one is only cleaning up. waits, if not nil, is told whom this call waits for, with mu held.
func (st *clientState) enter(ctx context.Context, key, id string, try, takes bool, waits func(*HeldError)) (t ticket, held *HeldError) {
	st.mu.Lock()
	s := st.local[key]
	if s == nil {
		st.local.begin(key, id, asks)
		st.mu.Unlock()
		return ticket{}, nil
	}
	if try && !s.idle() {
		defer st.mu.Unlock()
		return ticket{}, s.ahead(len(s.waiters))
	}
	if waits != nil && !try && !s.idle() {
		waits(s.ahead(len(s.waiters)))
	}
	pass := make(chan ticket, 1)
	s.waiters = append(s.waiters, caller{id, takes, pass})
	st.mu.Unlock()
	select {
	case t = <-pass:
		return t, nil
	case <-ctx.Done():
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	i := slices.IndexFunc(s.waiters, func(w caller) bool { return w.pass == pass })
	if i < 0 { // the ticket came at the same moment: it is ours to pass on
		return <-pass, nil
	}
	held = s.ahead(i)
	held.Cause = znode.WhyEnded(ctx)
	s.waiters = slices.Delete(s.waiters, i, i+1)
	return ticket{}, held
}

// begin gives the ticket, which nobody has, to id, whose state is what.
func (all *localQueues) begin(key, id string, what ownerState) {
	if *all == nil {
		*all = localQueues{}
	}
	(*all)[key] = &localQueue{owner: id, state: what}
}

// leaving says that the owner is about to leave, and waits for nobody any more. A Try that comes now waits until the nodes
// are deleted, which takes a round trip: otherwise nodes of its own client would refuse it.
func (st *clientState) leaving(key string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if s := st.local[key]; s != nil {
		s.state = leaves
		s.waitsForNobody()
	}
}

// keepOut makes the next callers wait, as for an owner that is only cleaning up, until all that is left is undone. It is for
// abandoned transactions of a recipe that takes no ticket, and does nothing while somebody has the ticket.
func (st *clientState) keepOut(key string, left []<-chan struct{}) {
	if len(left) == 0 {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.local[key] != nil {
		return
	}
	st.local.begin(key, "", leaves)
	st.whenLeft(left, func() { st.leave(key) })
}

// whenLeft calls f when all that is left is undone: at once, if there is nothing to wait for.
func (st *clientState) whenLeft(left []<-chan struct{}, f func()) {
	if len(left) == 0 {
		f()
		return
	}
	st.Spawn(func() {
		for _, each := range left {
			<-each
		}
		f()
	})
}

// granted says that the ticket's owner holds the lock, and waits for nobody any more.
func (st *clientState) granted(key string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if s := st.local[key]; s != nil {
		s.state = holds
		s.waitsForNobody()
	}
}

// waitsForNobody forgets what the owner waited for.
func (s *localQueue) waitsForNobody() { s.holder = nil }

// waitsFor says which contender the ticket's owner waits for, and how many are ahead of it: for the errors of the goroutines
// behind it.
func (st *clientState) waitsFor(key string, holder *rival, position int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if s := st.local[key]; s != nil {
		s.holder, s.position = holder, position
	}
}

// leave passes the ticket on, or frees the lock when nobody waits.
func (st *clientState) leave(key string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.local.pass(key, ticket{}) {
		return
	}
	if s := st.local[key]; s != nil && s.left != nil {
		close(s.left)
	}
	delete(st.local, key)
}

// handOver passes the ticket on with a contender. It reports false when nobody waits: the ticket is still the caller's, and
// the contender the caller's to delete.
func (st *clientState) handOver(key string, t ticket) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.local.pass(key, t)
}

// pass gives the ticket to the first who waits for it, and reports whether somebody does.
func (all localQueues) pass(key string, t ticket) bool {
	s := all[key]
	if s == nil || len(s.waiters) == 0 || t.k != nil && !s.waiters[0].takes {
		return false
	}
	s.next().pass <- t
	return true
}

// next takes out the first who waits, and makes it the owner. Under mu a waiter is taken out here, or takes itself
// out in enter, never both: the ticket goes to exactly one.
func (s *localQueue) next() caller {
	next := s.waiters[0]
	s.waiters[0] = caller{}
	s.waiters = s.waiters[1:] // not moved up: a thousand wait
	s.owner, s.state = next.id, asks
	s.waitsForNobody()
	if s.left != nil { // ticketOwner looks again, and finds somebody who is not cleaning up
		close(s.left)
		s.left = nil
	}
	return next
}

// heir is the goroutine that is next, if one waits that takes a place. It may give up at any moment, so who prepares a place for it
// must be able to delete it (see holding.close), and who inherits one looks whose name it has (see entry.named).
func (st *clientState) heir(key string) (next caller, waits bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if s := st.local[key]; s != nil && len(s.waiters) > 0 && s.waiters[0].takes {
		return s.waiters[0], true
	}
	return caller{}, false
}

// ticketOwner returns nil when nobody has the ticket, else who has, or had when ctx ended (its Cause). It waits for an owner
// that is only cleaning up, if nobody is to follow.
func (st *clientState) ticketOwner(ctx context.Context, key string) (held *HeldError) {
	for {
		st.mu.Lock()
		s := st.local[key]
		if s != nil {
			held = s.ahead(len(s.waiters))
		}
		if s == nil || !s.idle() {
			st.mu.Unlock()
			return held
		}
		if s.left == nil {
			s.left = make(chan struct{})
		}
		left := s.left
		st.mu.Unlock()
		select {
		case <-left:
			held = nil
		case <-ctx.Done():
			held.Cause = znode.WhyEnded(ctx)
			return held
		}
	}
}

// taken reports whether somebody has the ticket. It may be another's, or nobody's, when the caller acts on that: permits
// are then asked for beside the queue or behind it, and are safe either way (see acquisition.atOnce).
func (st *clientState) taken(key string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.local[key] != nil
}
