package recipes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/lock"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/turn"
	"github.com/locktree/locktree/recipes/internal/wait"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// The sentinels. Test with errors.Is: an error that wraps the sentinel says in its text what happened and where. ZooKeeper's own
// errors keep go-zookeeper's sentinels (zk.ErrNoNode, zk.ErrNoAuth, ...).
var (
	// ErrNotProvisioned: the node does not exist, or has no declaration that this program can read. Declare and apply it, or give
	// parameters with WithParams. Parameters do not help if the declaration is damaged or too new.
	ErrNotProvisioned = declare.ErrNotProvisioned
	// ErrKindMismatch: the node is declared as another kind of lock. Nothing was written.
	ErrKindMismatch = declare.ErrKindMismatch
	// ErrDraining: the lock grants nothing new. New calls and waiters get this error, and holders keep the lock.
	ErrDraining = declare.ErrDraining
	// ErrReleased: the lease was given back (Unlock, Release), or exchanged (Downgrade).
	ErrReleased = held.ErrReleased
	// ErrHeld: another contender holds the lock. It arrives as a *HeldError, from Try methods and from waits whose context ended.
	ErrHeld = lock.ErrHeld
	// ErrWouldDeadlock: the caller's context belongs to a lease of this very lock. Lock with another context, or use
	// WithReentrancy if the calls nest. A MultiLock that names a lock twice gets this error too. Nothing was sent.
	ErrWouldDeadlock = lock.ErrWouldDeadlock
	// ErrLockOrder: the caller's context carries a lease of another lock of this Client, and that lock comes after this one in the
	// namespace's order. Take this lock first. Nothing was queued. A Try gets this error too.
	ErrLockOrder = lock.ErrLockOrder
	// ErrQueueFull: as many contenders wait as max_waiters allows.
	ErrQueueFull = wait.ErrQueueFull
	// ErrTooManyPermits: the call asked for more permits than are declared. The declared number may have been lowered while the
	// call waited.
	ErrTooManyPermits = wait.ErrTooManyPermits
	// ErrLost: the lease, or the place in the queue, ended without being given back. Final.
	ErrLost = znode.ErrLost
	// ErrRevoked: a program asked the holder to give the lock back. The lock stays held until Unlock.
	ErrRevoked = znode.ErrRevoked
	// ErrReleasePending: the lease is released, but its node may still exist. The client goes on deleting it in the background,
	// until the delete succeeds or the session is over. Others may have to wait until then.
	ErrReleasePending = znode.ErrReleasePending
	// ErrKeyForeign: the node of a key has another access list than its family declares, so another program made it. Identities on that
	// list can end the lock. Delete the node while the key is unused, or declare the family with foreign = true.
	ErrKeyForeign = znode.ErrKeyForeign
	// ErrKeyTooLong: the key of a family of locks is longer than 512 bytes. Nothing was sent.
	ErrKeyTooLong = errors.New("recipes: key too long")

	// ErrClosed: Client.Close was called. The client is of no further use.
	ErrClosed = session.ErrClosed
	// ErrSessionLost: the session is over, or must be assumed to be over. Final: ask Client.Session for the next one.
	ErrSessionLost = session.ErrLost
	// ErrUnreachable: no server could be reached, or none granted a session, in the time allowed. The text lists the
	// servers, each with the cause of its last failure.
	ErrUnreachable = session.ErrUnreachable
	// ErrAuth: the servers refused an authentication, or do not know its scheme. ZooKeeper does NOT refuse a wrong digest
	// password: a later operation then fails with zk.ErrNoAuth.
	ErrAuth = session.ErrAuth
)

// Errors of operations, besides those of package zk.
var (
	// ErrReadOnly: a write of a client with Config.ReadOnly. It was not sent.
	ErrReadOnly = session.ErrReadOnly
	// ErrTooLarge: the request is larger than a ZooKeeper server reads (1,048,575 bytes); it was not sent. Or the reply is longer
	// than Config.MaxReply.
	ErrTooLarge = session.ErrTooLarge
	// ErrQuotaExceeded: the server's quota on a tree refused the write. It was not applied.
	ErrQuotaExceeded = session.ErrQuotaExceeded
	// ErrThrottled: the server shed the request. It was not applied; retry after a pause.
	ErrThrottled = session.ErrThrottled
)

// Retryable reports whether the call that returned err took no lock, and may succeed if it is repeated a little later. The table
// "What an error means" in docs/safety.md lists those errors. Retryable is false once the lock was granted, because work may have
// been done by then: the program decides whether to repeat that work. So Retryable is false for every error that the function of
// Do or Lead returned, and for errors of a Lease's methods and Context. Retryable is also false for a context that has ended, a
// lock that is held, and calls that the declaration or the ACL forbids.
func Retryable(err error) bool {
	for _, final := range []error{held.ErrGranted, ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, final) {
			return false
		}
	}
	for _, reason := range []error{ErrLost, ErrSessionLost, ErrRevoked, ErrUnreachable, session.ErrThrottled} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// Contender is a holder or a waiter, of any client; see package inspect.
type Contender = kind.Party

// HeldError describes the contender in the way of a call. It matches ErrHeld and, when a wait ended, the context's error too. Its
// information is as old as the last look at the queue. If the servers could not be reached when the wait ended, the call's error
// contains the HeldError and matches ErrUnreachable.
type HeldError struct {
	Path     string        // the path of the lock
	Holder   Contender     // the holder; after a Try only its name, path and sequence number are known (see Identify)
	Position int           // how many contenders are ahead: holders, waiters, and goroutines of this client
	Waited   time.Duration // how long the caller waited; 0 for a Try
	Local    bool          // Holder is a goroutine of this same client: it holds the lock, is asking for it, or is giving it back
	Cause    error         // why the wait ended; nil for a Try

	c     *Client
	owner turn.State // what a Local holder does
	at    time.Time  // when the queue was looked at, or Identify read the holder
}

// describeHolder fills in the holder from its name and, if they are known, its data.
func (e *HeldError) describeHolder() *HeldError {
	if e.Holder.Name != "" {
		k, _ := kind.ParseContender(e.Holder.Name)
		e.Holder = inspect.NewContender(kind.ParentPath(e.Holder.Path), k, e.Holder.Data, nil)
	}
	return e
}

// Error names the lock, the holder with its host, process and time, as far as they are known, and the position.
func (e *HeldError) Error() string {
	var b strings.Builder
	what := turn.Holds
	if e.Local {
		what = e.owner
	}
	fmt.Fprintf(&b, "recipes: lock %s is %s", e.Path, what)
	switch {
	case e.Local && e.Holder.ID != "":
		fmt.Fprintf(&b, " by this client (%s)", e.Holder.ID)
	case e.Local:
		b.WriteString(" by this client")
	case e.Holder.ID != "":
		b.WriteString(" by " + kind.NewSight(e.Holder, e.at).Line())
	case e.Holder.Name != "":
		b.WriteString(" by contender " + kind.NewSight(e.Holder, e.at).Line())
	}
	fmt.Fprintf(&b, ", %d ahead", e.Position)
	if e.Cause != nil {
		fmt.Fprintf(&b, ", gave up after %v: %v", e.Waited.Round(time.Millisecond), e.Cause)
	}
	return errs.OnePrefix(b.String())
}

// Unwrap returns ErrHeld, and why the wait ended.
func (e *HeldError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrHeld}
	}
	return []error{ErrHeld, e.Cause}
}

// Identify reads with one request what the holder says about itself, and writes that into Holder. If the holder has left
// meanwhile, Identify changes nothing. It is for the error of a Try, which knows only the holder's node.
func (e *HeldError) Identify(ctx context.Context) error {
	if e.c == nil || e.Holder.Path == "" {
		return nil
	}
	s, err := e.c.live(ctx)
	if err != nil {
		return err
	}
	k, _ := kind.ParseContender(e.Holder.Name)
	holder, err := inspect.ReadContender(ctx, s, kind.ParentPath(e.Holder.Path), k)
	if holder != nil {
		e.Holder, e.at = *holder, time.Now()
	}
	return err
}
