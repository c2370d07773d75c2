package recipes

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/lock"
)

// Lease is one grant of a lock, from its acquisition to its release or loss. An ended Lease is never used again.
type Lease struct{ u *held.Use }

// Context is cancelled when the lease is released, lost or revoked. Its context.Cause is ErrReleased, ErrLost (with the reason)
// or ErrRevoked. The Context is cancelled before a rival can be granted the lock, as long as neither this process nor its clock
// stops. The package comment has the other conditions (Loss) and the exceptions (What is not guaranteed). If the process or its
// clock stops, only the fencing token or Multi can stop what is done later. The Err method of this context, and of the one that
// Do passes on, reads the clock. So in a process that was stopped for too long, the first call of Err reports the loss. A context
// derived from Context ends a moment later.
//
// If another program deletes the lease's node or revokes the lease, Context is cancelled when this process learns of it. In the
// first 100 ms of a lease this process may not watch the node yet. It then learns of the change only after the 100 ms.
func (l *Lease) Context() context.Context { return l.u.Context() }

// Path returns the lock's path.
func (l *Lease) Path() string { return l.u.H.Of.Path() }

// Node returns the path of the node that holds the lock; for several permits, the path of the first.
func (l *Lease) Node() string { return l.u.H.Nodes()[0] }

// Token is the fencing token. Each later exclusive grant of this lock has a larger one, across sessions and restarts, and even if
// the lock node was deleted and created again. It is the czxid of the node that holds the lock, so any program can check it. A
// store that remembers the largest token it has seen and refuses smaller ones never obeys a stale holder.
//
// The reply to the create contains the token. If that reply was lost, the token is read after the grant, and Token waits for
// that: one round trip at most. Token returns 0, which is no valid token, if the lease ended first. It also returns 0 if the ACL
// denies the client READ on its own node (ZooKeeper 3.8.4+ and 3.9.2+ then hide the node). Readers of one lock and permits of one
// semaphore also have tokens. But several of them hold at once, so a smaller token is not stale. After a restored backup
// ZooKeeper counts from an older state again, and tokens may repeat: "locktree help restore-backup" says how to prevent that.
func (l *Lease) Token() uint64 { return l.u.Token() }

// Deadline returns the time until which the lease is safe without another reply from ZooKeeper. The deadline is half a session
// timeout after the last committed write of the lease's session was sent. It is earlier if the requests before that write were
// too far apart, or if the machine has been suspended since. It advances while the connection is good. The deadline of an ended
// lease is no later than its end.
func (l *Lease) Deadline() time.Time { return l.u.Deadline() }

// Verify proves, by a committed write, that the lease was still held after the call began. It takes one round trip. If the reply
// is lost with the connection, Verify tries again until ctx or the lease ends. It returns ErrLost, ErrReleased, or an error that
// says why the proof failed.
func (l *Lease) Verify(ctx context.Context) error { return l.u.Verify(ctx) }

// Multi applies ops as one transaction that fails as a whole if the lease's node is gone when ZooKeeper applies it. So a holder
// that lost its lock unnoticed writes nothing once another holder was granted the lock. Multi then returns ErrLost, and the lease
// has ended. The results are those of ops. The operations are *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest and
// *zk.CheckVersionRequest. If together they do not fit into one request (1,048,575 bytes), Multi sends nothing and returns
// ErrTooLarge.
//
// If the reply is lost, Multi returns an *OpError whose Outcome is OutcomeUnknown. Read the nodes to find out whether the write
// was applied. Such a transaction may still be applied after the lease has ended, until the servers have deleted the lease's node
// or expired its session.
func (l *Lease) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return l.u.Multi(ctx, ops...)
}

// Unlock gives the lock back. It returns nil when a server has confirmed that, and also on later calls. ctx bounds only the wait
// for the confirmation. If ctx ends first, Unlock returns ErrReleasePending, and the lock is given back in the background.
// ErrLost means that the lease was lost earlier, so another holder may have interfered.
//
// ctx may be the lease's own Context, or the one that Do passes on. Unlock ends both, but still waits for the confirmation: until
// their deadline, and for a session timeout at most.
//
// For a lock entered several times (see WithReentrancy), the last Unlock gives it back.
//
// Unlock of a nil Lease does nothing, so it can be deferred before an error is looked at.
func (l *Lease) Unlock(ctx context.Context) error {
	if l == nil {
		return nil
	}
	return l.u.Unlock(ctx)
}

// Release gives the lock back as Unlock does, but waits for no answer. It ends the lease, sends the request that deletes the
// lease's node, and returns. It is for programs that hold one lock at a time, and many in a row. The client's next request
// follows the delete on the same connection. So each lock costs one round trip, and the servers commit the delete and the next
// create together.
//
// Not guaranteed: that the lock is free when Release returns. Others are granted the lock when the servers have deleted the node,
// half a round trip later if the connection lasts. Use Unlock to wait for that. As after ErrReleasePending, the client goes on
// deleting in the background, so Release returns no error. If the lease was lost before, the cause of its Context is ErrLost. A
// program that ends calls [Client.Close], which frees whatever is left.
//
// This client's next exclusive call for the same lock waits until the node is gone. A call for permits or for reading does not
// wait for that. If the lease was for reading, a call for writing does not wait either. The server executes the requests of such
// calls after the delete. If the connection is cut before the delete arrives, the client's old node stays ahead of such a call
// until it is deleted. Meanwhile a Try fails.
//
// A client has at most 256 deletes under way, those of Unlock included. While 256 deletes are under way Release waits, for a
// sixth of the session timeout at most. If Release cannot send the request by then, or if there is no connection, the delete is
// left to the background. A node counts towards the limit of the session (512 KiB of paths) until a server confirms that it is
// gone.
//
// WithReentrancy, second calls, and a nil Lease: as for Unlock.
func (l *Lease) Release() {
	if l != nil {
		l.u.Release()
	}
}

// do takes a lock, and runs fn under its lease.
func do(ctx context.Context, take func(context.Context) (*Lease, error), fn func(context.Context, *Lease) error) error {
	l, err := take(ctx)
	if err != nil {
		return err
	}
	return l.Do(ctx, fn)
}

// Do runs fn under the lease and gives it back; see [Mutex.Do].
func (l *Lease) Do(ctx context.Context, fn func(context.Context, *Lease) error) (err error) {
	return l.u.Do(ctx, func(inner context.Context) error { return fn(inner, l) }, func() (context.Context, context.CancelFunc) { return l.boundRelease(ctx) })
}

// boundRelease bounds the release of a lock whose work is done: see WithMaxRelease. A session timeout is the longest time that a
// session can survive without its server.
func (l *Lease) boundRelease(ctx context.Context) (context.Context, context.CancelFunc) {
	most, set := l.u.H.Session().Session.Timeout(), l.u.Listener().(*tenure).q.MaxRelease
	for _, q := range lock.SubjectOf(l.u).Members {
		set = lock.Shorter(set, q.MaxRelease)
	}
	late := lock.Shorter(most/6, set)
	most = lock.Shorter(most, set)
	unlock, end := context.WithTimeoutCause(context.WithoutCancel(ctx), most, fmt.Errorf("%w: not confirmed within %v", context.DeadlineExceeded, most))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(late):
			end()
		case <-unlock.Done():
		}
	})
	return unlock, func() { stop(); end() }
}
