package lock

import (
	"context"
	"fmt"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/held"
)

// about is what a lock that is held is for; it does not change.
type about struct {
	Path    string // of the lock; of a multi-lock, those of all its members
	Q       *Queue // the handle; of a multi-lock, that of its first member
	D       *declare.Declaration
	Members []*Queue  // of a multi-lock; nil otherwise
	places  []ordered // in declared orders
}

func AboutOf(u *held.Use) *about { return u.H.About.(*about) }

// as is the way by which the lock at path came to be held.
func (b *about) as(path string) *Queue {
	for _, q := range b.Members {
		if q.Path == path {
			return q
		}
	}
	return b.Q
}

// keys are those by which contexts find the lock.
func (b *about) keys() (keys []held.Key) {
	if b.Members == nil {
		return []held.Key{b.Q.ctxKey}
	}
	for _, q := range b.Members {
		keys = append(keys, q.ctxKey)
	}
	return keys
}

// reenter answers a caller whose context tells that it holds the lock already. permits is how many it wants of a semaphore,
// else 0.
func (a *Call) reenter(ctx context.Context, q *Queue, permits int) (*held.Use, error) {
	outer, _ := ctx.Value(q.key).(*held.Use)
	if outer == nil || outer.Ended() != nil {
		return nil, nil
	}
	way := AboutOf(outer).as(q.Path)
	if way.Kind != q.Kind { // another kind at the same path: the declaration will tell this handle
		return nil, nil
	}
	if way.Shared && !q.Shared {
		return nil, fmt.Errorf("%w: the context comes from a read lease of %s, which the writer would wait for; give it back first",
			ErrWouldDeadlock, q.Path)
	}
	if !q.Reentrant {
		return nil, fmt.Errorf("%w: the context comes from a lease of %s; to nest, open the handle WithReentrancy; to wait in another goroutine, use a context that is not derived from the lease",
			ErrWouldDeadlock, q.Path)
	}
	if have := len(outer.H.Nodes()); permits > have {
		return nil, fmt.Errorf("%w: the context comes from a lease of %d permits of %s, %d are wanted; take them all at once",
			ErrWouldDeadlock, have, q.Path, permits)
	}
	// Behind a goroutine that asks at a path where the lock is not. The Observer is told how that ended.
	if a.up.WasQueued() {
		return outer.Enter(ctx, a.up.Tenure(outer.H.Nodes()[0], outer.H.Session().S.ID())), nil
	}
	return outer.Enter(ctx, nil), nil
}
