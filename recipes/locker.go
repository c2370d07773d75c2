package recipes

import (
	"context"
	"fmt"

	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/kind"
)

// Locker is any lock, for code that works with locks of any kind. *Mutex, *RWMutex (for writing) and *MultiLock are Lockers;
// [RWMutex.RLocker], [Semaphore.Locker] and [Client.Locker] return others. A test may have a Locker of its own: package
// recipetest makes leases for it.
type Locker interface {
	// Do runs a function under the lock; see [Mutex.Do].
	Do(ctx context.Context, fn func(context.Context, *Lease) error) error
	// Lock waits for the lock; see [Mutex.Lock], also for the errors.
	Lock(ctx context.Context) (*Lease, error)
	// TryLock does not wait; see [Mutex.TryLock].
	TryLock(ctx context.Context) (*Lease, error)
}

// RLocker returns the lock for reading. The result can also be a member of a MultiLock.
func (m *RWMutex) RLocker() interface {
	Locker
	Member
} {
	return locker{q: m.read}
}

// Locker returns n permits of the semaphore as one lock.
func (m *Semaphore) Locker(n int) Locker { return locker{m.q, n} }

// A locker is the Locker for a handle and, if the kind has permits, for a number of permits.
type locker struct {
	q *handle
	n int // permits
}

func (l locker) handle() *handle { return l.q }

func (l locker) Lock(ctx context.Context) (*Lease, error)    { return l.q.lock(ctx, l.n, false) }
func (l locker) TryLock(ctx context.Context) (*Lease, error) { return l.q.lock(ctx, l.n, true) }
func (l locker) Do(ctx context.Context, fn func(context.Context, *Lease) error) error {
	return do(ctx, l.Lock, fn)
}

// Locker returns the lock at path as a lock of kind k, for programs that handle locks of any kind, as "locktree exec" does. The
// lock is taken for reading if the parameter shared is true and the kind has readers. The parameter permits is used only if the
// kind has permits. Programs that know the kind use its recipe instead. inspect.Lock returns the kind of a lock. If k is a kind
// that no caller can hold, such as a namespace or a family, each use returns ErrKindMismatch.
func (c *Client) Locker(k *kind.Kind, path string, shared bool, permits int, opts ...Option) Locker {
	if k == nil || k.Container || len(k.Queues) == 0 {
		return locker{q: c.failingHandle(path, fmt.Errorf("%w: %s is not a lock (%s)", ErrKindMismatch, path, k))}
	}
	return locker{c.handle(k, path, shared && k.Queues[0].Shared != nil, opts), wanted(k, permits)}
}

func wanted(k *kind.Kind, permits int) int {
	if k.Permits == nil {
		return 0
	}
	return permits
}

// Locker is [Client.Locker] for the lock of a key. The family must declare that its locks have the kind keyKind.
func (k *Keyed) Locker(keyKind *kind.Kind, key string, shared bool, permits int) Locker {
	if keyKind == nil || len(keyKind.Queues) == 0 {
		return locker{q: k.c.failingHandle(k.queue(kind.Mutex, key, false).Path, fmt.Errorf("%w: the locks of keys are not %s", ErrKindMismatch, keyKind))}
	}
	return locker{k.queue(keyKind, key, shared && keyKind.Queues[0].Shared != nil), wanted(keyKind, permits)}
}

// Detach returns a context with the values of ctx, but without its leases, deadline and cancellation. It is for work that a
// holder starts and does not wait for. With ctx itself, that work would end with the lease, and could not take the same lock
// (ErrWouldDeadlock).
func Detach(ctx context.Context) context.Context {
	return held.Detach(ctx)
}
