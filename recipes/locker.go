package recipes

import "context"

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
	q *queue
	n int // permits
}

func (l locker) Lock(ctx context.Context) (*Lease, error)    { return l.q.lock(ctx, l.n, false) }
func (l locker) TryLock(ctx context.Context) (*Lease, error) { return l.q.lock(ctx, l.n, true) }
func (l locker) Do(ctx context.Context, fn func(context.Context, *Lease) error) error {
	return do(ctx, l.Lock, fn)
}
