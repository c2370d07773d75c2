package recipes

import (
	"context"
	"slices"
)

// slot lets one goroutine of this client at a time contend for a lock in ZooKeeper; the others queue here, first come
// first served. It is what keeps a thousand goroutines down to one contender.
type slot struct {
	leaving bool          // whoever has the turn is only cleaning up
	waiters []chan baton  // each of capacity 1: handing over never blocks
	held    *HeldError    // what whoever has the turn waits for, if it is known to wait
	waits   chan struct{} // closed when held is set
	left    chan struct{} // closed when who has the turn has left; nil while nobody asks
}

// baton is what a goroutine passes on with its turn.
type baton struct {
	k        *contender // a contender already in the queue, or nil
	children []string   // the queue as of k's creation, or nil
	granted  bool       // k is granted: local hand-off
	handoffs int        // how many of those in a row
	shared   *holding   // not the turn, but a share of this: one of its leases is the receiver's
}

// enter waits for the caller's turn. position is how many local turns are ahead when ctx ends first. With try, the
// error is a *HeldError as soon as whoever has the turn is known to wait.
func (st *clientState) enter(ctx context.Context, key string, try bool) (b baton, position int, err error) {
	st.mu.Lock()
	s, turn := st.line(key)
	if turn == nil {
		st.mu.Unlock()
		return baton{}, 0, nil
	}
	return st.await(ctx, s, turn, try)
}

// line takes the turn if it is free, else a place among those who wait for it; mu is held. A nil turn is ours already.
func (st *clientState) line(key string) (s *slot, turn chan baton) {
	if s = st.slots[key]; s == nil {
		if st.slots == nil {
			st.slots = map[string]*slot{}
		}
		s = &slot{waits: make(chan struct{})}
		st.slots[key] = s
		return s, nil
	}
	turn = make(chan baton, 1)
	s.waiters = append(s.waiters, turn)
	return s, turn
}

// await is enter from there on. It is called with mu held and returns without.
func (st *clientState) await(ctx context.Context, s *slot, turn chan baton, try bool) (b baton, position int, err error) {
	for {
		var waits <-chan struct{}
		if try {
			waits = s.waits
		}
		st.mu.Unlock()
		select {
		case b = <-turn:
			return b, 0, nil
		case <-waits:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		st.mu.Lock()
		i := slices.Index(s.waiters, turn)
		switch {
		case i < 0:
			st.mu.Unlock()
			// The turn came at the same moment. It is ours to pass on, and whoever passed it has already sent it.
			return <-turn, 0, nil
		case err == nil && s.held == nil: // woken by waits
			continue // whoever was known to wait has passed the turn on meanwhile
		case err == nil:
			held := *s.held // each caller's own: Identify writes into it
			err = &held
		}
		s.waiters = slices.Delete(s.waiters, i, i+1)
		st.mu.Unlock()
		return baton{}, i + 1, err
	}
}

// tryEnter takes the turn if nobody has it; who is only cleaning up is waited for, and hands over nothing but the turn.
func (st *clientState) tryEnter(ctx context.Context, key string) (b baton, ok bool, err error) {
	st.mu.Lock()
	s := st.slots[key]
	if s != nil && (!s.leaving || len(s.waiters) > 0) {
		st.mu.Unlock()
		return baton{}, false, nil
	}
	s, turn := st.line(key) // with the same hold of mu: somebody else might get the turn between the look and this
	if turn == nil {
		st.mu.Unlock()
		return baton{}, true, nil
	}
	b, _, err = st.await(ctx, s, turn, false)
	return b, err == nil, err
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
	s, _ := st.line(key)
	s.leaving = true
	st.spawn(func() {
		<-left
		st.leave(key, baton{})
	})
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
	s.leaving = false
	s.unstick()
	if s.left != nil { // vacant looks again, and finds somebody who is not cleaning up
		close(s.left)
		s.left = nil
	}
	next <- b
	return true
}

// crowded reports whether local goroutines wait for their turn. They may give up at any moment, so who prepares a place for
// them must be able to delete it (see holding.close).
func (st *clientState) crowded(key string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	s := st.slots[key]
	return s != nil && len(s.waiters) > 0
}

// vacant reports whether nobody has the turn. Who is only cleaning up is waited for, if nobody is to follow.
func (st *clientState) vacant(ctx context.Context, key string) (bool, error) {
	for {
		st.mu.Lock()
		s := st.slots[key]
		if s == nil || !s.leaving || len(s.waiters) > 0 {
			st.mu.Unlock()
			return s == nil, nil
		}
		if s.left == nil {
			s.left = make(chan struct{})
		}
		left := s.left
		st.mu.Unlock()
		select {
		case <-left:
		case <-ctx.Done():
			return false, context.Cause(ctx)
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
