package recipes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// The sentinels. Test with errors.Is; they arrive wrapped in what happened and where. ZooKeeper's own answers keep
// go-zookeeper's (zk.ErrNoNode, zk.ErrNoAuth, ...), and operations of a Session have some more, in package session.
var (
	// ErrHeld: somebody else holds the lock. Arrives as a *HeldError, from Try methods and from waits whose context ended.
	ErrHeld = errors.New("recipes: held by another contender")
	// ErrNotProvisioned: the node does not exist or carries no declaration. Declare and apply it, or bring parameters
	// with WithParams.
	ErrNotProvisioned = errors.New("recipes: lock not provisioned")
	// ErrKindMismatch: the node is declared as another kind of lock. Nothing was written.
	ErrKindMismatch = errors.New("recipes: lock is of another kind")
	// ErrDraining: the declaration says that nothing new is granted. Holders keep what they have.
	ErrDraining = errors.New("recipes: lock is draining")
	// ErrMoved: the declaration says that the lock is elsewhere now; the text says where.
	ErrMoved = errors.New("recipes: lock has moved")
	// ErrLost: the lease, or the place in the queue, ended without being given back. Final.
	ErrLost = errors.New("recipes: lock lost")
	// ErrReleased: the lease was given back by Unlock.
	ErrReleased = errors.New("recipes: lock released")
	// ErrRevoked: somebody asked the holder to give the lock back. It is still held until Unlock.
	ErrRevoked = errors.New("recipes: revocation requested")
	// ErrWouldDeadlock: the caller's context belongs to a lease of this very lock. Lock with another context, or, where
	// the calls nest, ask for WithReentrancy. Also a MultiLock that names a lock twice. Nothing was sent.
	ErrWouldDeadlock = errors.New("recipes: would wait for itself")
	// ErrUpgradeConflict: a reader wants to write while others hold or wait. It would wait for itself.
	ErrUpgradeConflict = errors.New("recipes: cannot upgrade to a write lock")
	// ErrReleasePending: Unlock was obeyed, but its node is not yet known to be gone. It is deleted in the background
	// until that succeeds or the session is over; others may have to wait until then.
	ErrReleasePending = errors.New("recipes: release pending")
	// ErrQueueFull: as many contenders wait as max_waiters allows.
	ErrQueueFull = errors.New("recipes: queue full")
	// ErrTooManyPermits: more permits were asked for than are declared, or than are left since the number was lowered.
	ErrTooManyPermits = errors.New("recipes: too many permits")
	// ErrSequenceExhausted: the node has numbered almost 2^31 contenders; at the end ZooKeeper hands out duplicates.
	// The node must be deleted and applied again while nobody queues.
	ErrSequenceExhausted = errors.New("recipes: sequence numbers exhausted")
	// ErrSessionFull: the paths of this session's contenders add up to more than maxEphemeralBytes. A server must be
	// able to list them all in one transaction when the session ends (ZOOKEEPER-4306).
	ErrSessionFull = errors.New("recipes: too many contenders in one session")
	// ErrObserversRefused: the election is declared with observers = false and this client neither campaigns nor leads.
	ErrObserversRefused = errors.New("recipes: election refuses observers")

	// Of the session, from package session.

	// ErrClosed: Client.Close was called; nothing of this client works any more.
	ErrClosed = session.ErrClosed
	// ErrSessionLost: the session is over, or must be taken to be over. Final: ask Client.Session for the next one.
	ErrSessionLost = session.ErrLost
	// ErrUnreachable: no server could be reached, or none gave a session, in the time allowed.
	ErrUnreachable = session.ErrUnreachable
	// ErrAuth: the servers refused an authentication, or do not know its scheme.
	ErrAuth = session.ErrAuth
	// ErrCannotHeartbeat: the session cannot be proven on a contender because its ACL does not let us read it.
	ErrCannotHeartbeat = session.ErrCannotHeartbeat
)

// Retryable reports whether a call that failed with err may succeed when it is made again a little later: because a session
// or a lease was lost, its holder was asked to step back, or the servers could not be reached or shed the request. Not so a
// context that has ended, a lock that somebody holds, and what declaration or access list forbid.
func Retryable(err error) bool {
	for _, reason := range []error{ErrLost, ErrSessionLost, ErrRevoked, ErrUnreachable, session.ErrThrottled} {
		if errors.Is(err, reason) {
			return !errors.Is(err, ErrClosed)
		}
	}
	return false
}

// HeldError says who is in the way. It is ErrHeld and, when a wait ended, the context's error too. What it knows is
// as old as the last look at the queue.
type HeldError struct {
	Path     string        // the lock
	Holder   Contender     // who holds it; of a Try only name, path and number are known (see Identify)
	Position int           // contenders ahead, the holders and goroutines of this client included
	Waited   time.Duration // how long the caller waited; 0 for a Try
	Local    bool          // Holder is a goroutine of this same client: it holds the lock, or has just gone to ask for it
	Cause    error         // why the wait ended; nil for a Try

	c *Client
}

// described fills in what the holder says about itself, as far as its data is known.
func (e *HeldError) described() *HeldError {
	if e.Holder.Data != nil {
		e.Holder.Describe(e.Holder.Data)
	}
	return e
}

// Error names the lock, the holder and the position.
func (e *HeldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "recipes: lock %s is held", e.Path)
	switch {
	case e.Local && e.Holder.ID != "":
		fmt.Fprintf(&b, " by this client (%s)", e.Holder.ID)
	case e.Local:
		b.WriteString(" by this client")
	case e.Holder.ID != "":
		fmt.Fprintf(&b, " by %s", e.Holder.ID)
	case e.Holder.Name != "":
		fmt.Fprintf(&b, " by contender %s", inspect.Visible(e.Holder.Name))
	}
	fmt.Fprintf(&b, ", %d ahead", e.Position)
	if e.Cause != nil {
		fmt.Fprintf(&b, ", gave up after %v: %v", e.Waited.Round(time.Millisecond), e.Cause)
	}
	return b.String()
}

// Is makes every HeldError an ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Unwrap returns why the wait ended.
func (e *HeldError) Unwrap() error { return e.Cause }

// Identify reads what the holder says about itself into Holder, with one request. It changes nothing when the holder
// has left meanwhile. For the error of a Try, which knows the holder's node only.
func (e *HeldError) Identify(ctx context.Context) error {
	if e.c == nil || e.Holder.Path == "" {
		return nil
	}
	s, err := e.c.Session(ctx)
	if err != nil {
		return err
	}
	k, _ := kind.ParseContender(e.Holder.Name)
	holder, err := inspect.ReadContender(ctx, s, kind.ParentPath(e.Holder.Path), k)
	if holder != nil {
		e.Holder = *holder
	}
	return err
}

// releasedError is the cause a released lease's context carries.
type releasedError string // the path

func (path releasedError) Error() string { return ErrReleased.Error() + ": " + string(path) }
func (releasedError) Unwrap() error      { return ErrReleased }

// lostError is a lost one's.
func lostError(path string, cause error) error {
	if cause == nil {
		cause = errors.New("its node is gone")
	}
	return fmt.Errorf("%w: %s: %w", ErrLost, path, cause)
}

// isNoNode saves its callers the spelling.
func isNoNode(err error) bool { return errors.Is(err, zk.ErrNoNode) }
