package recipes

import (
	"context"

	"github.com/locktree/locktree/recipes/kind"
)

// Semaphore is a lock with a declared number of permits. A call takes one permit or several. In ZooKeeper it has the layout of
// Curator's InterProcessSemaphoreV2: permits are nodes below "leases", and callers that must wait queue below "locks". The number
// is read from the declaration, and changes take effect at once. A higher number admits waiters. A lower number interrupts no
// holder, and admits no waiter until enough permits have been given back.
type Semaphore struct{ q *handle }

// Semaphore returns a handle on the semaphore at path; see Client.Mutex.
func (c *Client) Semaphore(path string, opts ...Option) *Semaphore {
	return &Semaphore{c.handle(kind.Semaphore, path, false, opts)}
}

// Path returns the lock's path.
func (m *Semaphore) Path() string { return m.q.Path }

// Acquire takes n permits at once, all or none, in one transaction. So callers that want several permits cannot block each other.
// (Two Curator clients can, if each wants 2 of 2.) Waiters are served in the order of arrival: a waiter that wants many permits
// is not overtaken by waiters that want few. ctx bounds the wait.
//
// With a context of a lease of this semaphore, Acquire returns ErrWouldDeadlock: a caller that takes permits while it holds some
// can wait for itself. With WithReentrancy the new lease shares the permits of that lease.
//
// Errors are those of Mutex.Lock, and ErrTooManyPermits. ErrTooManyPermits comes at once if fewer than n permits are declared,
// and during a wait when the number is lowered below n.
func (m *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	return m.q.lock(ctx, n, false)
}

// TryAcquire takes n permits if they are free and there is no waiter. Otherwise it returns a *HeldError. A client that polls with
// it does not delay waiters. After one refused try, further tries of the client write nothing while the permits are taken.
func (m *Semaphore) TryAcquire(ctx context.Context, n int) (*Lease, error) {
	return m.q.lock(ctx, n, true)
}

// Do runs fn while n permits are held; see Mutex.Do.
func (m *Semaphore) Do(ctx context.Context, n int, fn func(context.Context, *Lease) error) error {
	return do(ctx, func(ctx context.Context) (*Lease, error) { return m.Acquire(ctx, n) }, fn)
}
