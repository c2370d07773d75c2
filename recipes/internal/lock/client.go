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

// Client is shared by the calls of one client. Its zero value is ready. Its mutex is never held during a request: callers wait on
// channels.
//
// TestMutexesAreTakenInOneOrder has the order of all mutexes of the library, and checks it. A session unlocks its own mutex
// before it calls the recipes. No mutex is held when a context is cancelled or an Observer is called.
type Client struct {
	znode.ClientNodes
	Conn *session.Client

	Turns turn.Turns[Handover]
	Decl  declare.Cache

	Mu     sync.Mutex
	Crowd  int           // the number of contenders beyond which a queue is long; 0 = longQueue of package wait (tests set less)
	Newest *SessionState // nil before the first use
}

// SessionState belongs to one session, from its first use to its end. ClientNodes.Lost keeps the nodes that the servers may still
// have after that.
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
			return e, nil // the caller's requests fail at once
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

// Present returns the handle with the lock's current path. The error is that of the declaration at that path.
func (e *SessionState) Present(ctx context.Context, q *Handle) (*Handle, error) {
	at, err := q.C.Decl.Present(ctx, e.Decl, &q.Name)
	if at == &q.Name {
		return q, err
	}
	return q.withName(at), err
}

// Handle says which lock a program wants, and how. It does not change from one call to the next.
type Handle struct {
	C *Client
	wait.Handle
	ctxKey     held.Key // contexts keep the lock's leases by this key
	key        any      // ctxKey as an interface value, made once
	Reentrant  bool
	MaxWait    time.Duration
	MaxRelease time.Duration // bounds the release: see WithMaxRelease
}

// withName returns the handle with another name of its lock.
func (q *Handle) withName(n *declare.Name) *Handle {
	at := *q
	at.Name = *n
	at.Keyed()
	return &at
}

// turnKey names the lock in package turn.
func (q *Handle) turnKey() turn.Key { return turn.Key{Kind: q.Kind, Path: q.Path, Shared: q.Shared} }

// Keyed sets the keys for the handle's path.
func (q *Handle) Keyed() {
	q.ctxKey = held.Key{Of: q.C, Path: q.Path}
	q.key = q.ctxKey
}

// caller receives what happens to a call, and makes its errors.
type caller interface {
	Observed() bool                                  // whether there is an Observer
	Names(path string, members []Member)             // says which locks the call takes, at their present paths
	Queued(node string, why func() error)            // says that the call waits; called once or more
	WasQueued() bool                                 // whether Queued was called
	Held(b *Blocked) error                           // returns the error of a call that is blocked
	Tenure(node string, session int64) held.Listener // says that the lock is granted, and returns the listener for its end
}

// Blocked describes the contender in the way of a call.
type Blocked struct {
	Path     string
	Holder   kind.Party
	Position int
	Local    bool       // whether Holder is a goroutine of this same client
	State    turn.State // what that goroutine does
	Waited   time.Duration
	Cause    error // the reason why the wait ended; nil for a try
	At       time.Time
}

// Package recipes documents these errors.
var (
	ErrHeld          = errors.New("recipes: held by another contender")
	ErrWouldDeadlock = errors.New("recipes: would deadlock")
	ErrLockOrder     = errors.New("recipes: wrong order of locks")
)
