package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Member is a lock that can be part of a MultiLock: a *Mutex, an *Election, a *RWMutex (for writing), RWMutex.Reader,
// a *Semaphore (one permit) or Semaphore.Share.
type Member interface{ member() part }

// part is a member: its way in, and how many permits it takes; 0 where there are none.
type part struct {
	q *queue
	n int
}

func (m *Mutex) member() part     { return part{q: m.q} }
func (e *Election) member() part  { return part{q: e.q} }
func (m *RWMutex) member() part   { return part{q: m.write} }
func (m *Semaphore) member() part { return part{m.q, 1} }
func (p part) member() part       { return p }

// Reader is the lock, for reading, as a member of a MultiLock.
func (m *RWMutex) Reader() Member { return part{q: m.read} }

// Share is n permits of the semaphore as a member of a MultiLock. Fewer than one is refused when the lock is taken.
func (m *Semaphore) Share(n int) Member { return part{m.q, max(n, -1)} }

// MultiLock is several locks of any kinds taken together: all or none, under one deadline, in whatever order they are
// named. All places in all queues are taken in one ZooKeeper transaction; of a set that is free that is all there is
// to do, in one round trip.
//
// Semaphores are the exception their wire format makes. Curator's clients count a permit from its creation, and one
// that waits among the permits would keep a place from them that nobody holds. So permits are part of the transaction
// only while everything is free at that moment. Otherwise a second transaction takes all of it back and queues anew,
// in the semaphores' antechambers; a permit is then taken when it is free and the set waits on with it in hand. A set
// that found a semaphore busy the last time looks first, and queues there at once.
//
// Why MultiLocks do not wait for each other in a circle, nor with single locks. Say that a set is born in the
// transaction that created the places it waits with, and order sets by that moment: all places of one set are older or
// younger than those of another in every queue they share.
//   - In the queue of a mutex, a read-write lock or an election, and in an antechamber, a place waits for older ones.
//   - At the front of an antechamber it waits for permits. Whoever took one through the antechamber stood there
//     earlier, so it was born earlier. Whoever took one directly had all it wanted at that moment, or took it back:
//     it waits for nobody. Permits younger than its own are not waited for.
//   - So every wait is for a set born earlier, or for one that waits for nobody: the oldest that waits, waits for
//     holders that are free to finish.
//   - Turns in the process are taken before anything stands in ZooKeeper, in the order of the paths; a place inherited
//     with a turn is given up, because it is not of this set's transaction.
//
// A program that takes further locks while it holds some can still deadlock, as with any locks; inspect.WaitsFor
// shows it.
type MultiLock struct {
	c     *Client
	parts []part
}

// MultiLock returns a handle on the members, which must be of this client and different locks. Members that exclude
// others wait for their turn among the goroutines of this client, so that the client keeps one contender in each of
// their queues; readers and permits have their own.
func (c *Client) MultiLock(members ...Member) *MultiLock {
	m := &MultiLock{c: c}
	for _, each := range members {
		if isNil(each) {
			m.parts = append(m.parts, part{q: &queue{c: c, wrong: errors.New("recipes: multi-lock: a member is nil")}})
			continue
		}
		m.parts = append(m.parts, each.member())
	}
	return m
}

func (m *MultiLock) path() string {
	paths := make([]string, len(m.parts))
	for i, p := range m.parts {
		paths[i] = p.q.path
	}
	return strings.Join(paths, " + ")
}

// check refuses sets that cannot be locked together, or not by this caller.
func (m *MultiLock) check(ctx context.Context) error {
	if len(m.parts) == 0 {
		return fmt.Errorf("recipes: a multi-lock needs at least one member")
	}
	seen := map[string]bool{}
	for _, p := range m.parts {
		switch own, _ := ctx.Value(leaseKey{m.c, p.q.path}).(*Lease); {
		case p.q.wrong != nil:
			return p.q.wrong
		case p.q.c != m.c:
			return fmt.Errorf("recipes: multi-lock: %s is a handle of another client", p.q.path)
		case seen[p.q.path]:
			return fmt.Errorf("%w: the multi-lock names %s twice; name it once", ErrWouldDeadlock, p.q.path)
		case p.n < 0 || p.n == 0 && p.q.kind.Permits != nil:
			return fmt.Errorf("recipes: multi-lock: semaphore %s: at least 1 permit is needed", p.q.path)
		case own != nil && own.ended() == nil:
			return fmt.Errorf("%w: the context comes from a lease of %s, which the multi-lock wants too; give it back first, or leave the member out",
				ErrWouldDeadlock, p.q.path)
		}
		seen[p.q.path] = true
	}
	return nil
}

// Lock waits for all members. ctx bounds the wait as a whole. The lease holds all of them and is lost, or asked back,
// with any one. Errors: see Mutex.Lock; one that concerns a member names it.
//
// The lease's token is one number for all members that are no semaphores, larger than those of their earlier grants.
// Of a set of semaphores alone it is the first permit's.
//
// With a context of the lease, a member's own handle that asks for WithReentrancy enters this lease again.
func (m *MultiLock) Lock(ctx context.Context) (*Lease, error) { return m.lock(ctx, false) }

// TryLock takes all members if nobody is ahead in any of them, else it returns a *HeldError for the first that is held.
func (m *MultiLock) TryLock(ctx context.Context) (*Lease, error) { return m.lock(ctx, true) }

// Do runs fn while all members are held; see Mutex.Do.
func (m *MultiLock) Do(ctx context.Context, fn func(context.Context, *Lease) error) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return l.do(ctx, fn)
}

func (m *MultiLock) lock(ctx context.Context, try bool) (l *Lease, err error) {
	b := &bid{m: m, try: try, start: time.Now()}
	defer func() {
		if err != nil && len(m.parts) > 0 {
			m.c.refused(m.path(), m.parts[0].q.kind, nil, b.start, err)
		}
	}()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("recipes: multi-lock %s: %w", m.path(), context.Cause(ctx))
	}
	if err := m.check(ctx); err != nil {
		return nil, err
	}
	for _, p := range m.parts {
		defer m.c.state.pin(p.q.path)()
	}
	if err := b.yield(ctx); err != nil {
		return nil, err
	}
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	h, err := b.run(ctx)
	if err != nil {
		return nil, b.giveUp(ctx, err)
	}
	return h.lease(ctx), nil
}

// bid is one call of Lock or TryLock.
type bid struct {
	m     *MultiLock
	try   bool
	start time.Time
	turns []string        // the local queues whose turn we have
	seats []*draw         // our places, one a member
	left  <-chan struct{} // see claim.left

	dropped map[string]<-chan struct{} // closed when the place that came with a turn is gone, by local queue
}

// yield lets writers go first where a member to be read prefers them. It looks until none had to be waited for: while
// one member's were, others may have come to the next.
func (b *bid) yield(ctx context.Context) error {
	for again := true; again; {
		again = false
		for _, p := range b.m.parts {
			if !p.q.shared {
				continue
			}
			waited, err := p.q.yield(ctx, b.try)
			if err != nil {
				return err
			}
			again = again || waited
		}
	}
	return nil
}

// enter takes the turns in the process, of the members that exclude: in the order of the paths, as every set does, so no
// two sets of one client wait for each other's turns. Nothing of ours stands in ZooKeeper meanwhile.
func (b *bid) enter(ctx context.Context) error {
	var qs []*queue
	for _, p := range b.m.parts {
		if p.n == 0 && !p.q.shared {
			qs = append(qs, p.q)
			continue
		}
		if _, err := b.m.c.state.vacant(ctx, p.q.slot()); err != nil { // see clientState.keepOut
			return fmt.Errorf("recipes: multi-lock %s: %w", b.m.path(), err)
		}
	}
	slices.SortFunc(qs, func(x, y *queue) int { return strings.Compare(x.path, y.path) })
	for _, q := range qs {
		turn, err := (&claim{q: q, try: b.try, start: b.start}).enter(ctx)
		if err != nil {
			b.leave()
			return err
		}
		b.turns = append(b.turns, q.slot())
		// A place left to us is of another transaction than ours will be, which the order of sets does not allow. Gone
		// before ours is made, it is no rival of it either.
		if turn.k != nil {
			b.drop(ctx, q.slot(), turn.k)
		}
	}
	return nil
}

// leave passes the turns on.
func (b *bid) leave() {
	for _, key := range b.turns {
		b.m.c.whenLeft(b.dropped[key], func() { b.m.c.state.leave(key, baton{}) })
	}
	b.turns = nil
}

// drop deletes a place that came with a turn, and waits for that as long as ctx allows. The turn is not passed on before
// it is gone: the next one's place would be this client's second.
func (b *bid) drop(ctx context.Context, key string, k *contender) {
	gone := make(chan struct{})
	if b.dropped == nil {
		b.dropped = map[string]<-chan struct{}{}
	}
	b.dropped[key] = gone
	b.m.c.leaveBehind(ctx, []*contender{k}, func() { close(gone) })
	select {
	case <-gone:
	case <-ctx.Done():
	}
}

// giveUp leaves all queues, and passes the turns on after that, so that nobody here meets our places as rivals.
func (b *bid) giveUp(ctx context.Context, err error) error {
	st := &b.m.c.state
	for _, key := range b.turns {
		st.clearing(key)
	}
	for _, p := range b.m.parts {
		st.keepOut(p.q.slot(), b.left) // of members that need no turn
	}
	b.m.c.leaveBehind(ctx, b.nodes(), func() { b.m.c.whenLeft(b.left, b.leave) })
	return err
}

// nodes are our contenders, those that exclude or read first: the token is the first one's czxid, and a permit that was
// taken through the antechamber has a later one than the others.
func (b *bid) nodes() []*contender {
	var ks, permits []*contender
	for _, d := range b.seats {
		switch {
		case d.permits != nil:
			permits = append(permits, d.permits...)
		case d.k != nil:
			ks = append(ks, d.k)
		}
	}
	return append(ks, permits...)
}

// hold makes the lease's foundation.
func (b *bid) hold(ctx context.Context) (*holding, error) {
	// A holding has one way in. Of a set it is the first member's under the name of all; as tells them apart.
	first := b.seats[0]
	all := *first.q
	all.path = b.m.path()
	h := &holding{q: &all, s: first.s, d: first.d, ks: b.nodes(), turns: b.turns, wait: time.Since(b.start)}
	for _, d := range b.seats {
		h.members = append(h.members, d.q)
	}
	return hold(ctx, h)
}
