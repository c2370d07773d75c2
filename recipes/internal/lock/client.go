package lock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/turn"
	"github.com/locktree/locktree/recipes/internal/wait"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// Client is shared by the calls of one client. Its zero value is ready. Its mutex is never held across a request: waits are on channels.
//
// TestMutexesAreTakenInOneOrder has the order of all mutexes of the library, and checks it. A session lets go of its own before it tells
// the recipes anything. No mutex is held when a context is cancelled or an Observer is called.
type Client struct {
	znode.ClientNodes
	Conn *session.Client

	Turns turn.Turns[Handover]
	Decl  declare.Cache

	Mu     sync.Mutex
	Crowd  int           // from how many contenders on a queue is long, if not longQueue: tests have few
	Newest *SessionState // the newest session's; nil before the first use
}

// SessionState belongs to one session, from its first use to its end. Only nodes that the servers may still have outlive it
// (ClientNodes.Lost).
type SessionState struct {
	*znode.SessionNodes

	Decl   *declare.Reader
	Crowds crowds
}

// Live returns the state of the live session; see session.Client.Session.
func (st *Client) Live(ctx context.Context) (*SessionState, error) {
	for {
		s, err := st.Conn.Session(ctx)
		if err != nil {
			return nil, err
		}
		e := st.StateOf(s)
		if e == nil {
			continue
		}
		cleared := st.Clearing(e.SessionNodes)
		if cleared == nil {
			return e, nil
		}
		select {
		case <-cleared:
		case <-ctx.Done():
			return e, nil // each request ends at once
		}
	}
}

// StateOf returns the state of s, and begins it if s is new; nil if s is over, because another session may have begun.
func (st *Client) StateOf(s *session.Session) *SessionState {
	st.Mu.Lock()
	defer st.Mu.Unlock()
	before := st.Newest
	switch {
	case before == nil:
	case before.Session == s:
		return before
	case s.Err() != nil:
		return nil
	}
	e := &SessionState{
		SessionNodes: st.Begin(s), Decl: st.Decl.Begin(s),
	}
	st.Newest = e
	st.Spawn(func() {
		<-e.Session.Done()
		e.Rest()
		e.Decl.End()
	})
	return e
}

// Present is the way to the lock where it is by now, with the error of its declaration there.
func (e *SessionState) Present(ctx context.Context, q *Handle) (*Handle, error) {
	at, err := q.C.Decl.Present(ctx, e.Decl, &q.Name)
	if at == &q.Name {
		return q, err
	}
	return q.named(at), err
}

// Handle says which lock a program wants, and how. It does not change from one call to the next.
type Handle struct {
	C *Client
	wait.Handle
	ctxKey     held.Key // contexts find its leases by it
	key        any      // the same
	Reentrant  bool
	MaxWait    time.Duration
	MaxRelease time.Duration // for whoever gives back
}

// named is the handle by another name of its lock.
func (q *Handle) named(n *declare.Name) *Handle {
	at := *q
	at.Name = *n
	at.Keyed()
	return &at
}

// turnKey names the local queue for the lock.
func (q *Handle) turnKey() turn.Key { return turn.Key{Kind: q.Kind, Path: q.Path, Shared: q.Shared} }

// Keyed sets the key of its path.
func (q *Handle) Keyed() {
	q.ctxKey = held.Key{Of: q.C, Path: q.Path}
	q.key = q.ctxKey
}

// caller is told about a call, and makes its errors.
type caller interface {
	Observed() bool                                  // there is an Observer
	Names(path string, members []Member)             // the locks of the call, by their present paths
	Queued(node string, why func() error)            // the call waits, once
	WasQueued() bool                                 // it does
	Held(b *Blocked) error                           // the error of a call that is blocked
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

// Package recipes documents these errors.
var (
	ErrHeld          = errors.New("recipes: held by another contender")
	ErrWouldDeadlock = errors.New("recipes: would deadlock")
	ErrLockOrder     = errors.New("recipes: wrong order of locks")
)
