package lock

import (
	"errors"
	"time"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/turn"
	"github.com/locktree/locktree/recipes/internal/wait"
	"github.com/locktree/locktree/recipes/kind"
)

// way is one handle's way into one queue: everything that does not change from one call to the next.
type Queue struct {
	C *Client
	wait.Handle
	ctxKey     held.Key // by which contexts find its leases
	key        any      // the same
	Reentrant  bool
	MaxWait    time.Duration
	MaxRelease time.Duration // for whoever gives back
}

// named is the handle by another name of its lock.
func (q *Queue) named(n *declare.Name) *Queue {
	at := *q
	at.Name = *n
	at.Keyed()
	return &at
}

// localKey names the local queue of the goroutines that want the same. Readers leave theirs when they are granted: see
// share.go.
func (q *Queue) localKey() string {
	if q.Shared {
		return q.Path + "\x00" // no path of ZooKeeper's
	}
	return q.Path
}

// keyed sets the key of its path.
func (q *Queue) Keyed() {
	q.ctxKey = held.Key{Of: q.C, Path: q.Path}
	q.key = q.ctxKey
}

// caller is told what happens to a call, and makes its errors.
type caller interface {
	Observed() bool                                  // somebody wants to know
	Names(path string, members []Member)             // what the call is for, where it is by now
	Queued(node string, why func() error)            // the call waits, once
	WasQueued() bool                                 // it does
	Held(b *Blocked) error                           // who is in the way
	Tenure(node string, session int64) held.Listener // the call was granted the lock
}

// Blocked says who is in the way of a call.
type Blocked struct {
	Path     string
	Holder   kind.Party
	Position int
	Local    bool       // Holder is a goroutine of this same client
	State    turn.State // of that one
	Waited   time.Duration
	Cause    error // why the wait ended; nil for a try
	At       time.Time
}

var (
	// ErrHeld: somebody else holds the lock. It arrives as a *HeldError, from Try methods and from waits whose
	// context ended.
	ErrHeld = errors.New("recipes: held by another contender")
	// ErrWouldDeadlock: the caller's context belongs to a lease of this very lock. Lock with another context, or use
	// WithReentrancy if the calls nest. Also returned for a MultiLock that names a lock twice. Nothing was sent.
	ErrWouldDeadlock = errors.New("recipes: would deadlock")
	// ErrLockOrder: the caller's context comes from a lease, of the same Client, of a lock that the namespace's order has behind this
	// one. Take this one first. Nothing was queued. A Try gets it too.
	ErrLockOrder = errors.New("recipes: wrong order of locks")
)
