package recipes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// Member is a lock that can be part of a MultiLock: a *Mutex, a *RWMutex (for writing) or RWMutex.Reader.
// Semaphores and elections cannot: their place in the queue is not the node that holds.
type Member interface{ member() *queue }

func (m *Mutex) member() *queue   { return m.q }
func (m *RWMutex) member() *queue { return m.write }

type reader struct{ q *queue }

func (r reader) member() *queue { return r.q }

// Reader is the lock, for reading, as a member of a MultiLock.
func (m *RWMutex) Reader() Member { return reader{m.read} }

// MultiLock is several locks taken together: all or none.
//
// All places in the queues are taken in one ZooKeeper transaction. Places of one transaction are older or younger than
// those of another in every queue they share, so two MultiLocks stand in the same order everywhere and cannot wait for
// each other in a circle, in whatever order their members are named. A program that takes further locks while it
// holds some can still deadlock, as with any locks.
//
// Its contenders are its own: it does not share the queue in the process with other handles of this client.
type MultiLock struct {
	c  *Client
	qs []*queue
}

// MultiLock returns a handle on the members, which must be of this client and different locks.
func (c *Client) MultiLock(members ...Member) *MultiLock {
	m := &MultiLock{c: c}
	for _, each := range members {
		m.qs = append(m.qs, each.member())
	}
	return m
}

func (m *MultiLock) path() string {
	paths := make([]string, len(m.qs))
	for i, q := range m.qs {
		paths[i] = q.path
	}
	return strings.Join(paths, " + ")
}

// check refuses sets that cannot be locked together.
func (m *MultiLock) check() error {
	if len(m.qs) == 0 {
		return fmt.Errorf("recipes: a multi-lock needs at least one member")
	}
	seen := map[string]bool{}
	for _, q := range m.qs {
		if q.c != m.c {
			return fmt.Errorf("recipes: multi-lock: %s is a handle of another client", q.path)
		}
		if seen[q.path] {
			return fmt.Errorf("%w: the multi-lock names %s twice", ErrWouldDeadlock, q.path)
		}
		seen[q.path] = true
	}
	return nil
}

// Lock waits for all members. ctx bounds the wait as a whole. The lease holds all of them: its token is one number for
// all, larger than those of all earlier grants of each member; it is lost when one of them is. Errors: see Mutex.Lock.
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

func (m *MultiLock) lock(ctx context.Context, try bool) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("recipes: multi-lock %s: %w", m.path(), context.Cause(ctx))
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	start := time.Now()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		claims, lists, err := m.join(ctx, try, start)
		if err == nil {
			return m.settle(ctx, claims, lists)
		}
		if !transient(err) || ctx.Err() != nil || pauseFor(ctx, wait) != nil {
			return nil, err
		}
	}
}

// join takes a place in every queue.
func (m *MultiLock) join(ctx context.Context, try bool, start time.Time) ([]*claim, [][]string, error) {
	s, err := m.c.Session(ctx)
	if err != nil {
		return nil, nil, err
	}
	t := &txn{c: m.c, s: s}
	var claims []*claim
	var dirs []string
	for _, q := range m.qs {
		a := &claim{q: q, try: try, start: start, s: s}
		if a.d, err = m.c.declared(ctx, s, q); err != nil {
			return nil, nil, err
		}
		if a.k, err = q.contender(s, a.d, q.kind.Queues[0], q.shared); err != nil {
			return nil, nil, err
		}
		claims, dirs, t.born = append(claims, a), append(dirs, q.dir()), append(t.born, a.k)
	}
	lists, err := t.run(ctx, dirs...)
	if isNoNode(err) {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrNotProvisioned, m.path(), err)
	}
	return claims, lists, err
}

// settle waits in every queue; what fails in one gives up all.
func (m *MultiLock) settle(ctx context.Context, claims []*claim, lists [][]string) (*Lease, error) {
	ks := make([]*contender, len(claims))
	for i, a := range claims {
		ks[i] = a.k
	}
	waited, err := m.wait(ctx, claims, lists)
	if err == nil && waited {
		err = m.prove(ctx, claims[0].s, ks)
	}
	var h *holding
	if err == nil {
		all := *claims[0].q
		all.path = m.path()
		h, err = hold(ctx, &holding{q: &all, s: claims[0].s, d: claims[0].d, ks: ks, wait: time.Since(claims[0].start)})
	}
	if err != nil {
		m.c.state.spawn(func() { _ = m.c.dropNow(context.Background(), ks) }) // the janitor goes on
		return nil, err
	}
	return h.lease(ctx), nil
}

func (m *MultiLock) wait(ctx context.Context, claims []*claim, lists [][]string) (waited bool, err error) {
	for i, a := range claims {
		var children []string
		if lists != nil {
			children = lists[i]
		}
		a.proven = children != nil
		if err := a.k.exhausted(); err != nil {
			return false, err
		}
		err := a.wait(ctx, children)
		a.unwatch()
		if err != nil {
			return false, err
		}
		waited = waited || a.queued || lists == nil
	}
	return waited, nil
}

// prove confirms all members at one moment: while one was waited for, another's node may have been deleted.
func (m *MultiLock) prove(ctx context.Context, s *Session, ks []*contender) error {
	ops := make([]any, len(ks))
	for i, k := range ks {
		ops[i] = &zk.CheckVersionRequest{Path: k.path, Version: -1}
	}
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		_, err := s.Multi(ctx, ops...)
		if err == nil {
			return nil
		}
		if isNoNode(err) {
			return lostError(m.path(), err)
		}
		if err := pauseOr(ctx, s, wait, err); err != nil {
			return err
		}
	}
}
