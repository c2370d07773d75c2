package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/lock"
	"github.com/locktree/locktree/recipes/kind"
)

// RWMutex is a lock that many readers or one writer hold. It serves readers and writers in the order of arrival: a
// reader does not overtake a writer that came before it. In ZooKeeper it is Curator's InterProcessReadWriteLock.
//
// Writers of one client queue in the process and keep one contender. Each reader has a contender of its own.
type RWMutex struct{ read, write *handle }

// RWMutex returns a handle on the read-write lock at path; see Client.Mutex.
func (c *Client) RWMutex(path string, opts ...Option) *RWMutex {
	return &RWMutex{c.handle(kind.RWLock, path, true, opts), c.handle(kind.RWLock, path, false, opts)}
}

// Path returns the lock's path.
func (m *RWMutex) Path() string { return m.write.Path }

// Lock waits for the lock as the only holder. See Mutex.Lock. With a context of a read lease of this lock it returns
// ErrWouldDeadlock: give that lease back first.
func (m *RWMutex) Lock(ctx context.Context) (*Lease, error) { return m.write.lock(ctx, 0, false) }

// TryLock takes the lock as the only holder if it is free, and returns a *HeldError if not.
func (m *RWMutex) TryLock(ctx context.Context) (*Lease, error) { return m.write.lock(ctx, 0, true) }

// RLock waits for the lock as one of its readers. With a context of a lease of this lock it returns ErrWouldDeadlock; with
// WithReentrancy it enters that lease again. If the lease is a write lease, RLock returns a write lease too: it excludes others
// until the last Unlock.
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error) {
	return m.read.lock(ctx, 0, false)
}

// TryRLock takes the lock as one of its readers if no writer is ahead, and returns a *HeldError if one is.
func (m *RWMutex) TryRLock(ctx context.Context) (*Lease, error) {
	return m.read.lock(ctx, 0, true)
}

// Do runs fn while the lock is held for writing; see Mutex.Do.
func (m *RWMutex) Do(ctx context.Context, fn func(context.Context, *Lease) error) error {
	return do(ctx, m.Lock, fn)
}

// RDo runs fn while the lock is held for reading; see Mutex.Do.
func (m *RWMutex) RDo(ctx context.Context, fn func(context.Context, *Lease) error) error {
	return do(ctx, m.RLock, fn)
}

// Downgrade turns a write lease into a read lease, and no writer can get in between. One transaction deletes the writer's node
// and creates a reader's with the same number, as in Curator 5.5. The caller must write nothing once it has called Downgrade:
// readers come in before it returns. The read lease has its own token and Context. A writer that queued before the downgrade, and
// holds after it, has a smaller token. So show the token of the read lease to no store that checks tokens. The write lease's
// Context ends (ErrReleased). The write lease's Unlock then gives the read lease back, and so does Do when its function returns.
//
// The read lease is another lease, so that no work of the writer goes on beside readers. Work under the write lease's Context is
// told to stop, and Multi of the write lease fails. Work that goes on reading, in the function of Do too, uses the read lease and
// its Context.
//
// With an error Downgrade returns l. If no server can execute the transaction any more, l is held as before. Otherwise l has
// ended.
//
// Curator's and kazoo's waiters respect the reader that appears before them. The downgrade of Curator up to 5.4 takes a new
// number at the end of the queue, and so lets a writer in between.
func (m *RWMutex) Downgrade(ctx context.Context, l *Lease) (*Lease, error) {
	now, err := m.downgrade(ctx, l)
	if now == nil {
		return l, held.AfterGrant(err)
	}
	return &Lease{now}, nil
}

// atLeasePath returns the handle with the path where u holds the lock: a key's node may be in a directory that the declaration
// names. It fails if the declaration cannot be read.
func (m *RWMutex) atLeasePath(ctx context.Context, u *held.Use) (*RWMutex, error) {
	if of := lock.SubjectOf(u); of.Path() == m.Path() || of.Handle.C != m.write.Handle.C {
		return m, nil
	}
	write, err := m.write.atPresentPath(ctx, m.write.c.state.StateOf(u.H.Session().Session))
	if errors.Is(err, ErrDraining) { // a holder may exchange its lease while the lock is draining
		err = nil
	}
	read := *write
	read.Shared = true
	return &RWMutex{read: &read, write: write}, err
}

func (m *RWMutex) downgrade(ctx context.Context, l *Lease) (*held.Use, error) {
	if m.write.Wrong != nil {
		return nil, m.write.Wrong
	}
	if l == nil {
		return nil, fmt.Errorf("recipes: Downgrade needs a write lease of %s; got none", m.Path())
	}
	start := time.Now()
	m, err := m.atLeasePath(ctx, l.u)
	if err != nil {
		return nil, err
	}
	return m.read.Exchange(ctx, l.u, &callReport{c: m.read.c, q: m.read, start: start, call: m.read.c.call(ctx, m.Path(), lock.Member{Handle: &m.read.Handle})})
}
