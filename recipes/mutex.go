package recipes

import (
	"context"

	"github.com/locktree/locktree/recipes/kind"
)

// Mutex is a lock with one holder, granted in the order of arrival. A Mutex is a handle: cheap, immutable, and safe
// for any number of goroutines. In ZooKeeper it is Curator's InterProcessMutex (or kazoo's Lock, when declared so).
type Mutex struct{ q *handle }

// Mutex returns a handle on the mutex at path. Nothing is sent. The first call that takes the lock checks that it is declared as
// a mutex.
func (c *Client) Mutex(path string, opts ...Option) *Mutex {
	return &Mutex{c.handle(kind.Mutex, path, false, opts)}
}

// Path returns the lock's path.
func (m *Mutex) Path() string { return m.q.Path }

// Do runs fn while the lock is held. fn's context is derived from ctx and is also cancelled when the lease ends; fn should stop
// then. The context carries the lease, so a call with it cannot lock the same lock again: see WithReentrancy. Do gives the lock
// back after fn has returned, never before, even if ctx has ended by then. "What an error means" in docs/safety.md says which
// errors Do returns. After fn has run, no error is [Retryable]. So a loop that repeats a call after a Retryable error does not
// run fn twice. WithMaxWait bounds the wait for the lock, and WithMaxRelease bounds the release.
func (m *Mutex) Do(ctx context.Context, fn func(context.Context, *Lease) error) error {
	return do(ctx, m.Lock, fn)
}

// Lock waits for the lock. ctx bounds only the wait. When ctx ends, Lock gives up the place in the queue, and the error names the
// holder if that is known. Goroutines of one client wait in the process and share one contender in ZooKeeper. "What an error
// means" in docs/safety.md lists the errors of this and all other methods that take a lock.
//
// With a context derived from the Context of a lease of this lock, Lock returns ErrWouldDeadlock; see WithReentrancy.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) { return m.q.lock(ctx, 0, false) }

// TryLock takes the lock if it is free. If not, it returns a *HeldError and leaves nothing behind. That takes one round trip, or
// none if a goroutine of this client holds the lock. If the client does not know the declaration yet, TryLock reads it first.
// Without a connection it waits for one. It returns ErrUnreachable when there has been no connection for a sixth of the session
// timeout.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) { return m.q.lock(ctx, 0, true) }
