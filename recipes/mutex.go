package recipes

import (
	"context"

	"github.com/locktree/locktree/recipes/kind"
)

// Mutex is a lock with one holder, granted in the order of arrival. A Mutex is a handle: cheap, immutable, and safe
// for any number of goroutines. In ZooKeeper it is Curator's InterProcessMutex (or kazoo's Lock, when declared so).
type Mutex struct{ q *queue }

// Mutex returns a handle on the mutex at path. Nothing is sent: whether the lock is declared, and as a mutex, is
// found when it is first taken.
func (c *Client) Mutex(path string, opts ...Option) *Mutex {
	return &Mutex{c.queue(kind.Mutex, path, false, opts)}
}

// Path returns the lock's path.
func (m *Mutex) Path() string { return m.q.path }

// Do runs fn while the lock is held. fn's context is derived from ctx and is also cancelled when the lease ends; fn
// should stop then. The context carries the lease, so it cannot lock the same lock again: see WithReentrancy. Do
// gives the lock back after fn has returned, never before, even if ctx has ended by then. Its error joins fn's error
// with ErrLost if the lease was lost while fn ran.
func (m *Mutex) Do(ctx context.Context, fn func(context.Context, *Lease) error) error {
	return do(ctx, m.Lock, fn)
}

// Lock waits for the lock. ctx bounds the wait and nothing else; when it ends, the error is a *HeldError that names
// the holder, and the place in the queue is given up. Goroutines of one client wait in the process and share one
// contender in ZooKeeper.
//
// With a context derived from the Context of a lease of this lock, Lock returns ErrWouldDeadlock; see WithReentrancy.
//
// Errors: *HeldError, ErrNotProvisioned, ErrKindMismatch, ErrDraining, ErrMoved, ErrQueueFull, ErrRevoked (somebody
// asked this contender to leave), ErrLost (somebody deleted its node) and ErrSessionLost (the place in the queue
// ended with the session: call Lock again to queue again).
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) { return m.q.lock(ctx, 0, false) }

// TryLock takes the lock if nobody is ahead. Otherwise it returns a *HeldError after one round trip and leaves
// nothing behind. If the client does not know the declaration yet, TryLock reads it first.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) { return m.q.lock(ctx, 0, true) }
