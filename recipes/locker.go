package recipes

import (
	"context"
	"fmt"

	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/kind"
)

// Locker is any lock, for code that works under one and does not choose it. *Mutex, *RWMutex (for writing) and *MultiLock are
// Lockers; [RWMutex.RLocker], [Semaphore.Locker] and [Election.Locker] make one of the others. A test may write its own: package
// recipetest makes leases for it.
type Locker interface {
	// Do runs a function under the lock; see [Mutex.Do].
	Do(ctx context.Context, fn func(context.Context, *Lease) error) error
	// Lock waits for the lock; see [Mutex.Lock], also for the errors.
	Lock(ctx context.Context) (*Lease, error)
	// TryLock does not wait; see [Mutex.TryLock].
	TryLock(ctx context.Context) (*Lease, error)
}

// RLocker is the lock for reading.
func (m *RWMutex) RLocker() Locker { return locker{q: m.read} }

// Locker is n permits of the semaphore, taken together.
func (m *Semaphore) Locker(n int) Locker { return locker{m.q, n} }

// Locker is the leadership: who has the lock leads. Its Do campaigns once, and does not stand again as [Election.Lead] does;
// its TryLock returns a *HeldError while somebody else leads or stands.
func (e *Election) Locker() Locker { return locker{q: e.q} }

// locker is a lock by another name.
type locker struct {
	q *handle
	n int // permits
}

func (l locker) Lock(ctx context.Context) (*Lease, error)    { return l.q.lock(ctx, l.n, false) }
func (l locker) TryLock(ctx context.Context) (*Lease, error) { return l.q.lock(ctx, l.n, true) }
func (l locker) Do(ctx context.Context, fn func(context.Context, *Lease) error) error {
	return do(ctx, l.Lock, fn)
}

// Want is how a caller of [Client.Take] wants to hold the lock.
type Want struct {
	Shared  bool // as a reader, if the kind has readers
	Permits int  // how many, if the kind has permits
	Try     bool // fail at once instead of waiting
}

// Take takes the lock at path as a lock of kind k. It is for programs that handle locks of any kind, as "locktree
// exec" does; others use the recipe of the kind and its documentation. inspect.Lock returns the kind of a lock.
// Errors are those of Mutex.Lock.
func (c *Client) Take(ctx context.Context, k *kind.Kind, path string, want Want, opts ...Option) (*Lease, error) {
	if k == nil || k.Container || len(k.Queues) == 0 {
		return nil, fmt.Errorf("%w: %s is not a lock (%s)", ErrKindMismatch, path, k)
	}
	if k.Permits == nil {
		want.Permits = 0
	}
	return c.handle(k, path, want.Shared && k.Queues[0].Shared != nil, opts).lock(ctx, want.Permits, want.Try)
}

// Take is [Client.Take] for the lock of a key, which the family declares to be of kind of.
func (k *Keyed) Take(ctx context.Context, of *kind.Kind, key string, want Want) (*Lease, error) {
	if of == nil || len(of.Queues) == 0 {
		return nil, fmt.Errorf("%w: the locks of keys are not %s", ErrKindMismatch, of)
	}
	if of.Permits == nil {
		want.Permits = 0
	}
	return k.queue(of, key, want.Shared && of.Queues[0].Shared != nil).lock(ctx, want.Permits, want.Try)
}

// Detach returns a context with the values of ctx, but without its leases, deadline and cancellation. It is for work that a holder
// starts and does not wait for: with ctx itself, that work would end with the lease, and locking the same lock again would be
// ErrWouldDeadlock although another goroutine does it, which may wait.
func Detach(ctx context.Context) context.Context {
	return held.Detach(ctx)
}
