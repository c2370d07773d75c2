package recipes

import (
	"context"

	"github.com/locktree/locktree/recipes/kind"
)

// Semaphore is a lock with a declared number of permits, which as many callers can hold at once. In ZooKeeper it has the layout
// of Curator's InterProcessSemaphoreV2: permits are nodes below "leases", and callers that must wait queue below "locks". The
// number is read from the declaration, and changes take effect at once. A higher number admits waiters. A lower number interrupts
// no holder, and admits no waiter until enough permits have been given back.
type Semaphore struct{ q *handle }

// Semaphore returns a handle on the semaphore at path; see Client.Mutex.
func (c *Client) Semaphore(path string, opts ...Option) *Semaphore {
	return &Semaphore{c.handle(kind.Semaphore, path, false, opts)}
}

// Path returns the lock's path.
func (m *Semaphore) Path() string { return m.q.Path }

// Acquire takes n permits at once, all or none, in one transaction. So callers that want several cannot block each other (two
// Curator clients that want 2 of 2 can). Waiters are served in the order of arrival: one that wants many permits is not overtaken
// by those that want few. ctx bounds the wait.
//
// With a context of a lease of this semaphore, Acquire returns ErrWouldDeadlock: a caller that takes permits while it holds some
// can wait for itself. With WithReentrancy it shares the permits that the lease has.
//
// Errors are those of Mutex.Lock, and ErrTooManyPermits. That comes at once if fewer than n permits are declared, and during a
// wait when the number is lowered below n.
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
