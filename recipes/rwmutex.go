package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// RWMutex is a lock that many readers or one writer hold. It serves readers and writers in the order of arrival: a
// reader does not overtake a writer that came before it. In ZooKeeper it is Curator's InterProcessReadWriteLock.
//
// Writers of one client queue in the process and keep one contender. Its readers share one: a goroutine gets a lease
// on the contender of another reader of this client while that reader waits, or while it reads and no writer is
// queued. So a reader may overtake writers that arrived after the reader whose place it shares, but never a writer
// that is queued when its client already reads.
type RWMutex struct{ read, write *queue }

// RWMutex returns a handle on the read-write lock at path; see Client.Mutex.
func (c *Client) RWMutex(path string, opts ...Option) *RWMutex {
	return &RWMutex{c.queue(kind.RWLock, path, true, opts), c.queue(kind.RWLock, path, false, opts)}
}

// Path returns the lock's path.
func (m *RWMutex) Path() string { return m.write.Path }

// Lock waits for the lock as the only holder. See Mutex.Lock. With a context of a read lease of this lock it returns
// ErrWouldDeadlock: give that back first.
func (m *RWMutex) Lock(ctx context.Context) (*Lease, error) { return m.write.lock(ctx, 0, false) }

// TryLock takes the lock as the only holder if nobody is ahead; otherwise it returns a *HeldError.
func (m *RWMutex) TryLock(ctx context.Context) (*Lease, error) { return m.write.lock(ctx, 0, true) }

// RLock waits for the lock as one of its readers. With a context of a lease of this lock it returns ErrWouldDeadlock;
// with WithReentrancy it enters that lease again. If that is a write lease, RLock returns a write lease too: it
// excludes others until the last Unlock.
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error) {
	return m.read.lock(ctx, 0, false)
}

// TryRLock takes the lock as one of its readers if no writer is ahead; otherwise it returns a *HeldError.
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

// Downgrade turns a write lease into a read lease, and no writer can get in between: one transaction deletes the
// writer's node and creates a reader's with the same number, as Curator 5.5 does. From the call on the caller writes
// nothing more: readers come in before Downgrade returns. The read lease has a token and a Context of its own; those of
// the write lease end (ErrReleased), and its Unlock, also that of Do, gives the read lease back.
//
// It is another lease, so that nothing that was begun as a writer goes on beside readers: what runs under the write lease's Context is
// told to stop, and its Multi fails. What reads on, in the function of Do too, uses the read lease and its Context.
//
// With an error Downgrade returns l. That is held as before if no server can execute the transaction any more, else it
// has ended.
//
// Curator's and kazoo's waiters respect the reader that appears before them. Curator's own downgrade up to 5.4 takes
// a new number at the end of the queue, and does let a writer in between.
func (m *RWMutex) Downgrade(ctx context.Context, l *Lease) (*Lease, error) {
	l, err := m.downgrade(ctx, l)
	return l, afterGrant(err)
}

func (m *RWMutex) downgrade(ctx context.Context, l *Lease) (*Lease, error) {
	if m.write.Wrong != nil {
		return l, m.write.Wrong
	}
	m, err := m.at(ctx, l.h)
	if err == nil {
		err = m.mine(l)
	}
	if err != nil {
		return l, err
	}
	old, start := l.h, time.Now()
	// It is still held, and heartbeats go on; sessionSays ignores a node that they find gone meanwhile.
	old.stopWatching() // what happens to the node now is our doing
	next, err := m.swap(ctx, old)
	if err == nil {
		return m.replace(ctx, l, &holding{was: old, owned: owned{path: m.Path(), q: m.read, e: old.e, d: old.d, ks: []*znode.Node{next}, places: old.places,
			call: m.read.c.call(ctx, m.Path(), member{q: m.read}), wait: time.Since(start)}})
	}
	switch {
	case znode.IsNoNode(err):
		old.lose(err)
	case errors.Is(err, znode.ErrNotApplied):
		// A slow server may execute it all the same: see resolve. It fails once the writer's node is gone.
		old.lose(fmt.Errorf("an exchange for another lease may still be executed: %w", err))
	case session.OutcomeOf(err) == session.OutcomeUnknown:
		// Both nodes are being deleted by now (txn.abandon), so neither lease would last.
		old.lose(fmt.Errorf("whether it was exchanged for another lease is unknown: %w", err))
	default:
		old.resumed()
		return l, err
	}
	return l, l.ended()
}

// swap exchanges the writer's node for a reader's of the same number, again as long as a try has done nothing. Its error is
// errNotApplied if that was said of any of the tries.
func (m *RWMutex) swap(ctx context.Context, old *holding) (next *znode.Node, err error) {
	q, k := m.read, old.ks[0]
	var unapplied error // what was said of the first such try
	err = znode.Retry(ctx, old.e.S, znode.DidNothing, func() error {
		if next, err = q.Contender(old.e.Session, old.d, q.Decides(), znode.HolderSelf(q.Id)); err != nil {
			return err
		}
		// The writer's own place, also to those who have listed the queue already: the writers behind find a reader where
		// they were to wait for a writer, the readers behind are let in.
		next.Flags, next.Digits = zk.FlagEphemeral, k.Name[len(k.Prefix):]
		next.Key = k.Key
		works := old.works
		next.Work.Store(&works)
		_, err = (&znode.Txn{E: old.e.Session, Born: []*znode.Node{next}, Gone: []*znode.Node{k}}).Run(ctx)
		if errors.Is(err, znode.ErrNotApplied) {
			unapplied = cmp.Or(unapplied, err)
		}
		return err
	})
	if err != nil && unapplied != nil && !errors.Is(err, znode.ErrNotApplied) {
		err = fmt.Errorf("%w; before that: %w", err, unapplied)
	}
	return next, err
}

// replace ends l and hands out a lease on next, whose nodes exist. next is held before l is let go: the session is never
// without a hold in between, and so never without heartbeats.
func (m *RWMutex) replace(ctx context.Context, l *Lease, next *holding) (*Lease, error) {
	h, err := hold(ctx, next)
	old := l.h
	old.stopWatching() // its node is gone, by our own hand
	if err != nil {
		l.release()
	} else {
		l.become(h.leaseOf(ctx, h.first))
	}
	if old.finish(fmt.Errorf("%w: %s, exchanged for another lease", ErrReleased, old.path), EventReleased, nil) != over {
		old.close(nil)
	}
	if err != nil {
		_ = m.read.c.state.Drop(ctx, next.ks, func() {}) // goes on in the background if it must
		return l, err
	}
	return l.turnedInto(), nil
}

// at is the handle on the lock where h holds it, if marks lead there. Its error is that of finding out.
func (m *RWMutex) at(ctx context.Context, h *holding) (*RWMutex, error) {
	if h.path == m.Path() || h.q.c != m.write.c {
		return m, nil
	}
	write, err := h.e.present(ctx, m.write)
	if errors.Is(err, ErrDraining) { // who holds it may exchange it
		err = nil
	}
	read := *write
	read.Shared = true
	return &RWMutex{read: &read, write: write}, err
}

// mine checks that l is a write lease of this lock, held, and not entered again. Then it is its caller's to exchange, and nobody
// else's.
func (m *RWMutex) mine(l *Lease) error {
	h := l.h
	if h.q.c != m.read.c || h.path != m.Path() || h.q.Shared {
		return fmt.Errorf("recipes: Downgrade needs a write lease of %s from this Client; got another lease, of %s", m.Path(), h.path)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := l.over(); err != nil {
		return err
	}
	if h.leases > 1 {
		return fmt.Errorf("recipes: %s was entered %d times; give the inner leases back first", m.Path(), h.leases)
	}
	if !h.state.to(exchanging) { // an Unlock that comes from here on hands it on to nobody: see free
		return fmt.Errorf("recipes: %s is being exchanged by another call of Downgrade", m.Path())
	}
	return nil
}
