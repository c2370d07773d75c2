package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/wait"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/locktree/locktree/recipes/kind"
)

// Member is a lock that can be part of a MultiLock: a *Mutex, an *Election, a *RWMutex (for writing) or RWMutex.Reader. A
// semaphore cannot: a set that waits would take permits that nobody holds.
type Member interface{ member() member }

func (m *Mutex) member() member    { return member{q: m.q} }
func (e *Election) member() member { return member{q: e.q} }
func (m *RWMutex) member() member  { return member{q: m.write} }
func (m member) member() member    { return m }

// Reader returns the lock, for reading, as a member of a MultiLock.
func (m *RWMutex) Reader() Member { return member{q: m.read} }

// MultiLock takes several mutexes, elections and read-write locks together: all or none, under one deadline, in whatever order
// they are named. One ZooKeeper transaction takes the places in all queues; if the whole set is free, that one round trip is all.
//
// Why MultiLocks do not wait for each other in a circle, nor with single locks. All places of a set are created by one
// transaction: they are all older, or all younger, than those of another set in every queue they share.
//   - A place waits for older ones. So every wait is for a set created earlier: the oldest that waits, waits for holders that are
//     free to finish.
//   - The local queues come first, in the order of the paths, before any node exists; a place inherited there is given up,
//     because it is not of this set's transaction.
//
// A program that takes further locks while it holds some can still deadlock, as with any locks.
type MultiLock struct {
	c       *Client
	members []member
}

// MultiLock returns a handle on the members, which must be of this client and different locks. Members that exclude
// others wait for their turn among the goroutines of this client, so that the client keeps one contender in each of
// their queues; readers have contenders of their own.
func (c *Client) MultiLock(members ...Member) *MultiLock {
	m := &MultiLock{c: c}
	for _, each := range members {
		if isNil(each) {
			each = member{q: &queue{c: c, Handle: wait.Handle{Name: declare.Name{Kind: kind.Mutex, Wrong: errors.New("recipes: multi-lock: a member is nil")}}}}
		}
		m.members = append(m.members, each.member())
	}
	return m
}

// Lock waits for all members. ctx bounds the wait as a whole. The lease holds all of them, and is lost or asked back
// when any one of them is. Errors: see Mutex.Lock; an error that concerns a member names it.
//
// The lease's token is one number for all members, larger than those of their earlier grants.
//
// With a context of the lease, a member's own handle made with WithReentrancy enters this lease again.
func (m *MultiLock) Lock(ctx context.Context) (*Lease, error) { return m.lock(ctx, false) }

// TryLock takes all members if nobody is ahead in any of them; otherwise it returns a *HeldError for the first that
// is held.
func (m *MultiLock) TryLock(ctx context.Context) (*Lease, error) { return m.lock(ctx, true) }

// Do runs fn while all members are held; see Mutex.Do.
func (m *MultiLock) Do(ctx context.Context, fn func(context.Context, *Lease) error) error {
	return do(ctx, m.Lock, fn)
}

func (m *MultiLock) lock(ctx context.Context, try bool) (*Lease, error) {
	if len(m.members) == 0 {
		return nil, errors.New("recipes: a multi-lock needs at least one member")
	}
	a := &acquisition{c: m.c, set: true, try: try, start: time.Now()}
	a.want(m.members)
	a.call = m.c.call(ctx, a.path, m.members...)
	if err := a.begun(ctx); err != nil {
		return a.conclude(ctx, nil, err)
	}
	u, err := a.follow(a.wait, a.takeAll)
	return a.conclude(ctx, u, err)
}

func (a *acquisition) takeAll(ctx context.Context) (*held.Use, error) {
	for _, m := range a.members {
		if err := a.c.state.decl.Elsewhere(&m.q.Name); err != nil {
			return nil, err
		}
	}
	if err := a.check(ctx); err != nil {
		return nil, err
	}
	if err := a.inOrder(ctx); err != nil {
		return nil, err
	}
	var arrived []arrival
	err := a.enterAll(ctx)
	if err == nil {
		err = znode.Retry(ctx, nil, znode.DidNothing, func() (err error) {
			arrived, err = a.queueAll(ctx)
			return err
		})
	}
	var h *held.Use
	if err == nil {
		h, err = a.holdAll(ctx, arrived)
	}
	if err != nil {
		return nil, a.giveUp(ctx, err)
	}
	return h, nil
}

// check refuses sets that cannot be locked together, or not by this caller.
func (a *acquisition) check(ctx context.Context) error {
	seen := map[string]bool{}
	for _, each := range a.members {
		switch own, _ := ctx.Value(each.q.key).(*held.Use); {
		case each.q.c != a.c:
			return fmt.Errorf("recipes: multi-lock: %s is a handle of another client", each.q.Path)
		case seen[each.q.Path]:
			return fmt.Errorf("%w: the multi-lock names %s twice; name it once", ErrWouldDeadlock, each.q.Path)
		case own != nil && own.Ended() == nil:
			return fmt.Errorf("%w: the context comes from a lease of %s, which the multi-lock wants too; give it back first, or leave the member out",
				ErrWouldDeadlock, each.q.Path)
		}
		seen[each.q.Path] = true
	}
	return nil
}

// enterAll takes the tickets of the members that exclude: in the order of the paths, as every set does, so no two sets of one
// client wait for each other's. None of our nodes exists meanwhile.
func (a *acquisition) enterAll(ctx context.Context) error {
	var qs []*queue
	for _, m := range a.members {
		qs = append(qs, m.q)
	}
	slices.SortFunc(qs, func(x, y *queue) int { return strings.Compare(x.Path, y.Path) })
	for _, q := range qs {
		if _, err := a.enter(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// queueAll takes a place in every queue.
func (a *acquisition) queueAll(ctx context.Context) ([]arrival, error) {
	all, err := a.open(ctx, nil)
	if err != nil {
		return nil, err
	}
	entries := make([]*wait.Place, len(all))
	for i := range all {
		if entries[i], err = all[i].Entry(all[i].Q.Decides()); err != nil {
			return nil, err
		}
	}
	return a.join(ctx, entries...)
}

// holdAll makes a holding of what queueAll has begun, now or after a wait.
func (a *acquisition) holdAll(ctx context.Context, arrived []arrival) (*held.Use, error) {
	ahead, err := a.atOnce(ctx, arrived)
	if err == nil && ahead != nil && a.try {
		return nil, ahead
	}
	if err == nil && ahead != nil {
		err = a.waitAll(ctx, arrived)
	}
	if err != nil {
		return nil, err
	}
	return a.hold(ctx, wait.Grant{Entries: a.entries})
}

// waitAll waits for what was not free at once.
func (a *acquisition) waitAll(ctx context.Context, arrived []arrival) error {
	if err := a.reachAll(ctx, arrived); err != nil {
		return err
	}
	if err := a.confirm(ctx); err != nil {
		return err
	}
	opened := make([]*wait.Opened, len(a.entries))
	for i, e := range a.entries {
		opened[i] = e.Opened
	}
	return wait.Obey(ctx, opened...)
}

// errAll ends the wait for several places.
var errAll = errors.New("all members are granted")

// reachAll waits in all queues at once, and fails when one fails. Each member has a goroutine, which stays with it until all
// are granted: a place that is deleted, asked back or drained is noticed at once, also after it was granted.
func (a *acquisition) reachAll(ctx context.Context, arrived []arrival) error {
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	errs := make([]error, len(arrived))
	var granted atomic.Int64
	var all sync.WaitGroup
	for i, at := range arrived {
		all.Go(func() {
			w := at.Waiter()
			defer w.End()
			_, err := w.Reach(inner, at.lists)
			if errs[i] = err; err == nil && int(granted.Add(1)) == len(arrived) {
				stop(errAll)
			}
			for err == nil {
				_, err = w.Next(inner, nil)
			}
			stop(err) // the first cause counts
		})
	}
	all.Wait()
	if why := context.Cause(inner); why != errAll && ctx.Err() == nil {
		return why
	}
	return cmp.Or(errs...) // the caller's ctx has ended, which fails all that were not granted: the first of them is named
}

// confirm confirms all members of a set at one moment: while one was waited for, the node of another may have been deleted.
// A transaction that only checks is committed like any other, so the grant rests on this write, whatever each member has
// proven for itself before. It fails as a whole if one node is gone
// (TestAMultiLockIsNotGrantedWithAMemberThatWentWhileAnotherWasWaitedFor).
func (a *acquisition) confirm(ctx context.Context) error {
	var paths []string
	for _, k := range a.nodes() {
		paths = append(paths, k.Path)
	}
	s := a.entries[0].S.S
	err := znode.Retry(ctx, s, znode.Unanswered, func() error { return s.Confirm(ctx, paths...) })
	if znode.IsNoNode(err) {
		return znode.LostError(a.path, err)
	}
	return err
}
