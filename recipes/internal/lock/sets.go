package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/wait"
	"github.com/locktree/locktree/recipes/internal/znode"
)

func (a *Call) takeAll(ctx context.Context) (*held.Use, error) {
	for _, m := range a.members {
		if err := a.c.Decl.Elsewhere(&m.Handle.Name); err != nil {
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
	_, err := a.enter(ctx)
	if err == nil {
		err = retry.Do(ctx, nil, znode.DidNothing, func() (err error) {
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

// check refuses a set that cannot be locked together, and a set with a lock of this caller.
func (a *Call) check(ctx context.Context) error {
	seen := map[string]bool{}
	for _, each := range a.members {
		switch own, _ := ctx.Value(each.Handle.key).(*held.Use); {
		case each.Handle.C != a.c:
			return fmt.Errorf("recipes: multi-lock: %s is a handle of another client", each.Handle.Path)
		case seen[each.Handle.Path]:
			return fmt.Errorf("%w: the multi-lock names %s twice; name it once", ErrWouldDeadlock, each.Handle.Path)
		case own != nil && own.Ended() == nil && SubjectOf(own).handleAt(each.Handle.Path).Kind == each.Handle.Kind: // the declaration refuses a handle of another kind, with a better error
			return fmt.Errorf("%w: the context comes from a lease of %s, which the multi-lock wants too; give it back first, or leave the member out",
				ErrWouldDeadlock, each.Handle.Path)
		}
		seen[each.Handle.Path] = true
	}
	return nil
}

// queueAll creates a place in every queue.
func (a *Call) queueAll(ctx context.Context) ([]arrival, error) {
	all, err := a.open(ctx, nil)
	if err != nil {
		return nil, err
	}
	entries := make([]*wait.Place, len(all))
	for i := range all {
		if entries[i], err = all[i].Entry(all[i].Handle.Decides()); err != nil {
			return nil, err
		}
	}
	return a.join(ctx, entries...)
}

// holdAll turns the places into a held lock, at once or after a wait.
func (a *Call) holdAll(ctx context.Context, arrived []arrival) (*held.Use, error) {
	ahead, err := a.atOnce(ctx, arrived)
	switch {
	case err != nil:
		return nil, err
	case ahead == nil:
		return a.hold(ctx, wait.Grant{Entries: a.places})
	case a.Try:
		return nil, ahead
	}
	if err := a.reachAll(ctx, arrived); err != nil {
		return nil, err
	}
	if err := a.confirm(ctx); err != nil {
		return nil, err
	}
	opened := make([]*wait.Opened, len(a.places))
	for i, e := range a.places {
		opened[i] = e.Opened
	}
	if err := wait.Obey(ctx, opened...); err != nil {
		return nil, err
	}
	return a.hold(ctx, wait.Grant{Entries: a.places})
}

// errAll ends the wait for several places.
var errAll = errors.New("all members are granted")

// reachAll waits in all queues at once, and fails when one wait fails. The goroutine of a granted member stays until all are
// granted, to notice at once when its place is deleted, revoked or drained.
func (a *Call) reachAll(ctx context.Context, arrived []arrival) error {
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
	return cmp.Or(errs...) // the caller's ctx has ended: return the error of the first member that was not granted
}

// confirm confirms all members of a set at one moment: while the set waited for one member, the node of another may have been
// deleted. A transaction that only checks is committed like any other, so it is the write that proves the grant. It fails if one
// node is gone (TestAMultiLockIsNotGrantedWithAMemberThatWentWhileAnotherWasWaitedFor).
func (a *Call) confirm(ctx context.Context) error {
	s, paths := a.places[0].Owner.Session, znode.Paths(a.nodes())
	err := retry.Do(ctx, s, znode.Unanswered, func() error { return s.Confirm(ctx, paths...) })
	if znode.IsNoNode(err) {
		return znode.LostError(a.Path, err)
	}
	return err
}

// Exchange exchanges the write lock of u for a read lock of the handle q.
func (q *Handle) Exchange(ctx context.Context, u *held.Use, up caller) (*held.Use, error) {
	if err := q.Mine(u); err != nil {
		return nil, err
	}
	old := SubjectOf(u)
	t := &wait.Opened{Handle: &q.Handle, Owner: u.H.Session(), Declared: old.declared}
	return u.Exchange(ctx, func() (*znode.Node, error) {
		return q.Contender(t.Owner, t.Declared, q.Decides(), znode.HolderSelf(q.ID))
	}, func(next *znode.Node) (held.Grant, held.Listener) {
		of := &Subject{path: q.Path, Handle: q, declared: old.declared, places: old.places}
		return held.Grant{Of: of, Owner: t.Owner, Nodes: []*znode.Node{next}, Turns: &turns{of: t}},
			up.Tenure(next.Path, t.Owner.Session.ID())
	})
}

// Mine checks that u is a write lease of this lock.
func (q *Handle) Mine(u *held.Use) error {
	if of := SubjectOf(u); of.Handle.C != q.C || of.path != q.Path || of.Handle.Kind != q.Kind || of.Handle.Shared {
		return fmt.Errorf("recipes: Downgrade needs a write lease of %s from this Client; got another lease, of %s", q.Path, of.path)
	}
	return nil
}
