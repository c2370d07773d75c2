package lock

import (
	"context"
	"fmt"

	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/wait"

	"github.com/locktree/locktree/recipes/kind"
)

// ordered is a lock with a place in a declared order.
type ordered struct {
	path string
	kind.Place
}

// ordersOf adds the lock to those that have a place.
func ordersOf(t *wait.Opened, all []ordered) []ordered {
	if at, ok := kind.PlaceOf(t.D.Params); ok {
		all = append(all, ordered{t.Q.Path, at})
	}
	return all
}

// inOrder refuses locks that a declared order has before one that the caller holds, by its context. The declarations are read only
// if one of those has a place: others have nothing to compare with. What goes wrong here goes wrong again when the lock is opened.
func (a *Call) inOrder(ctx context.Context) error {
	var has []ordered
	for _, l := range held.UsesOf(ctx) {
		if b := AboutOf(l); b.Q.C == a.c { // another one's path may be of other servers
			has = append(has, b.places...)
		}
	}
	if len(has) == 0 {
		return nil
	}
	e, err := a.c.Epoch(ctx)
	if err != nil {
		return nil
	}
	for _, m := range a.members {
		t := &wait.Opened{Q: &m.Q.Handle}
		if t.D, err = e.Decl.Of(ctx, &m.Q.Name); err != nil {
			continue
		}
		for _, want := range ordersOf(t, nil) {
			for _, has := range has {
				if has.Of == want.Of && want.Rank < has.Rank {
					return fmt.Errorf("%w: %s comes before %s in the order that %s declares, and the caller's context comes from a lease of %s; take %s first",
						ErrLockOrder, want.path, has.path, want.Of, has.path, want.path)
				}
			}
		}
	}
	return nil
}
