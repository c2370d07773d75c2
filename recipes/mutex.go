package recipes

import (
	"context"

	"github.com/locktree/locktree/recipes/kind"
)

// Mutex is a lock with one holder, granted in the order of arrival. A Mutex is a handle: cheap, immutable, for any
// number of goroutines. In ZooKeeper it is Curator's InterProcessMutex (or kazoo's Lock, when declared so).
type Mutex struct{ q *queue }

// Mutex returns a handle on the mutex at path. Nothing is sent: whether the lock is declared, and as a mutex, is
// found when it is first taken.
func (c *Client) Mutex(path string, opts ...Option) *Mutex {
	return &Mutex{c.queue(kind.Mutex, path, false, opts)}
}

// Path is the lock's path.
func (m *Mutex) Path() string { return m.q.path }

// Do runs fn while the lock is held. fn's context is ctx, cancelled also when the lease ends; fn should stop then. It
// carries the lease, and locks nothing that the lease has: see WithReentrancy.
// The lock is given back after fn has returned, never before, whatever ctx is by then. The error joins fn's, and
// ErrLost if the lease was lost while fn ran.
func (m *Mutex) Do(ctx context.Context, fn func(context.Context, *Lease) error) error {
	return do(ctx, m.Lock, fn)
}

// Lock waits for the lock. ctx bounds the wait and nothing else; when it ends, the error is a *HeldError that names
// the holder, and the place in the queue is given up. Goroutines of one client wait in the process and keep one
// contender in ZooKeeper between them.
//
// With a context derived from the Context of a lease of this lock, Lock is ErrWouldDeadlock; see WithReentrancy.
//
// Errors: *HeldError, ErrNotProvisioned, ErrKindMismatch, ErrDraining, ErrMoved, ErrQueueFull, ErrRevoked (somebody
// asked this contender to leave), ErrLost (its node was deleted) and ErrSessionLost (the place in the queue went with
// the session: lock again to queue again).
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) { return m.q.lock(ctx, 0, false) }

// TryLock takes the lock if nobody is ahead, else it returns a *HeldError, after one round trip and leaving nothing
// behind. Without a declaration known it reads that first.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) { return m.q.lock(ctx, 0, true) }
