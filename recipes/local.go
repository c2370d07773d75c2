package recipes

import (
	"context"
	"os"
	"slices"
)

// slot lets one goroutine of this client at a time contend for a lock in ZooKeeper; the others queue here, first come
// first served. It is what keeps a thousand goroutines down to one contender.
type slot struct {
	owner   string        // the id of whoever has the turn
	leaving bool          // it is only cleaning up
	waiters []waiter      // in the order of arrival
	held    *HeldError    // what whoever has the turn waits for, if it is known to wait
	waits   chan struct{} // closed when held is set
	left    chan struct{} // closed when who has the turn has left; nil while nobody asks
}

// waiter is a goroutine that waits for its turn.
type waiter struct {
	id   string
	turn chan baton // of capacity 1: handing over never blocks
}

// ahead says who is in the way of a goroutine with i others between it and whoever has the turn; mu is held.
func (s *slot) ahead(i int) *HeldError {
	if s.held != nil { // somebody else's contender, which all of us wait for
		held := *s.held // each caller's own: Identify writes into it
		held.Position += i + 1
		return &held
	}
	return &HeldError{Holder: Contender{ID: s.owner, Host: hostname(), PID: os.Getpid()}, Position: i + 1, Local: true}
}

// baton is what a goroutine passes on with its turn.
type baton struct {
	k        *contender // a contender already in the queue, or nil
	children []string   // the queue as of k's creation, or nil
	granted  bool       // k is granted: local hand-off
	handoffs int        // how many of those in a row
	shared   *holding   // not the turn, but a share of this: one of its leases is the receiver's
}

// enter waits for the turn of a caller called id. held says who was in the way when ctx ended (its Cause) or, with try,
// as soon as whoever has the turn is known to wait.
func (st *clientState) enter(ctx context.Context, key, id string, try bool) (b baton, held *HeldError) {
	st.mu.Lock()
	s, turn := st.line(key, id)
	if turn == nil {
		st.mu.Unlock()
		return baton{}, nil
	}
	return st.await(ctx, s, turn, try)
}

// line takes the turn if it is free, else a place among those who wait for it; mu is held. A nil turn is ours already.
func (st *clientState) line(key, id string) (s *slot, turn chan baton) {
	if s = st.slots[key]; s == nil {
		if st.slots == nil {
			st.slots = map[string]*slot{}
		}
		s = &slot{owner: id, waits: make(chan struct{})}
		st.slots[key] = s
		return s, nil
	}
	turn = make(chan baton, 1)
	s.waiters = append(s.waiters, waiter{id, turn})
	return s, turn
}

// await is enter from there on. It is called with mu held and returns without.
func (st *clientState) await(ctx context.Context, s *slot, turn chan baton, try bool) (b baton, held *HeldError) {
	for {
		var err error
		var waits <-chan struct{}
		if try {
			waits = s.waits
		}
		st.mu.Unlock()
		select {
		case b = <-turn:
			return b, nil
		case <-waits:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		st.mu.Lock()
		i := slices.IndexFunc(s.waiters, func(w waiter) bool { return w.turn == turn })
		switch {
		case i < 0:
			st.mu.Unlock()
			// The turn came at the same moment. It is ours to pass on, and whoever passed it has already sent it.
			return <-turn, nil
		case err == nil && s.held == nil: // woken by waits
			continue // whoever was known to wait has passed the turn on meanwhile
		}
		if held = s.ahead(i); err == nil {
			held.Position = s.held.Position // the place it would have shared
		}
		held.Cause = err
		s.waiters = slices.Delete(s.waiters, i, i+1)
		st.mu.Unlock()
		return baton{}, held
	}
}

// tryEnter takes the turn if nobody has it; who is only cleaning up is waited for, and hands over nothing but the turn.
// held says who has it, or why that wait ended (its Cause).
func (st *clientState) tryEnter(ctx context.Context, key, id string) (b baton, held *HeldError) {
	st.mu.Lock()
	s := st.slots[key]
	if s != nil && (!s.leaving || len(s.waiters) > 0) {
		defer st.mu.Unlock()
		return baton{}, s.ahead(len(s.waiters))
	}
	s, turn := st.line(key, id) // with the same hold of mu: somebody else might get the turn between the look and this
	if turn == nil {
		st.mu.Unlock()
		return baton{}, nil
	}
	return st.await(ctx, s, turn, false)
}

// clearing says that the turn's owner is about to leave, and waits for nobody any more. A Try that comes now waits for the
// cleaning up, which takes a round trip: it would be refused on account of what its own client is just deleting.
func (st *clientState) clearing(key string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if s := st.slots[key]; s != nil {
		s.leaving = true
		s.unstick()
	}
}

// keepOut makes those who come next wait, as for somebody who is only cleaning up, until left is closed. For an abandoned
// transaction of a recipe that takes no turn for it; whoever has the turn keeps it.
func (st *clientState) keepOut(key string, left <-chan struct{}) {
	if left == nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.slots[key] != nil {
		return
	}
	s, _ := st.line(key, "")
	s.leaving = true
	st.spawn(func() {
		<-left
		st.leave(key, baton{})
	})
}

// granted says that the turn's owner holds the lock, and waits for nobody any more.
func (st *clientState) granted(key string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if s := st.slots[key]; s != nil {
		s.unstick()
	}
}

// unstick forgets what whoever had the turn waited for. The channel that said so is closed; the next owner gets a new one.
func (s *slot) unstick() {
	if s.held != nil {
		s.held, s.waits = nil, make(chan struct{})
	}
}

// leave passes the turn on, or frees the slot when nobody waits.
func (st *clientState) leave(key string, b baton) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.pass(key, b) {
		return
	}
	if s := st.slots[key]; s != nil && s.left != nil {
		close(s.left)
	}
	delete(st.slots, key)
}

// bequeath passes the turn on with a contender. It reports false when nobody waits: the turn is still the caller's, and
// b's contender the caller's to delete.
func (st *clientState) bequeath(key string, b baton) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.pass(key, b)
}

// pass gives the turn to the first who waits for it; mu is held.
func (st *clientState) pass(key string, b baton) bool {
	s := st.slots[key]
	if s == nil || len(s.waiters) == 0 {
		return false
	}
	// Taken out under mu, by whoever passes it or by itself in await, never by both: the turn goes to exactly one.
	next := s.waiters[0]
	s.waiters = slices.Delete(s.waiters, 0, 1)
	s.owner, s.leaving = next.id, false
	s.unstick()
	if s.left != nil { // vacant looks again, and finds somebody who is not cleaning up
		close(s.left)
		s.left = nil
	}
	next.turn <- b
	return true
}

// heir is the id of the goroutine that is next; none is "". It may give up at any moment, so who prepares a place for it
// must be able to delete it (see holding.close), and who inherits one looks whose name it has (see claim.named).
func (st *clientState) heir(key string) string {
	st.mu.Lock()
	defer st.mu.Unlock()
	if s := st.slots[key]; s != nil && len(s.waiters) > 0 {
		return s.waiters[0].id
	}
	return ""
}

// vacant returns nil when nobody has the turn, else who has. Who is only cleaning up is waited for, if nobody is to follow.
func (st *clientState) vacant(ctx context.Context, key string) (held *HeldError, err error) {
	for {
		st.mu.Lock()
		s := st.slots[key]
		if s == nil || !s.leaving || len(s.waiters) > 0 {
			if s != nil {
				held = s.ahead(len(s.waiters))
			}
			st.mu.Unlock()
			return held, nil
		}
		if s.left == nil {
			s.left = make(chan struct{})
		}
		left := s.left
		st.mu.Unlock()
		select {
		case <-left:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// taken reports whether somebody has the turn. It may be another's, or nobody's, when the caller acts on that: permits
// are then asked for beside the queue or behind it, and are safe either way (see draw.direct).
func (st *clientState) taken(key string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.slots[key] != nil
}
