package recipes

import (
	"context"
	"errors"

	"github.com/locktree/locktree/recipes/internal/lock"
)

// Member is a lock that can be part of a MultiLock: a *Mutex, an *Election, a *RWMutex (for writing) or [RWMutex.RLocker]. A
// semaphore cannot be a member: a set that waits would keep permits idle.
type Member interface{ handle() *handle }

func (m *Mutex) handle() *handle    { return m.q }
func (e *Election) handle() *handle { return e.q }
func (m *RWMutex) handle() *handle  { return m.write }

// MultiLock takes several mutexes, elections and read-write locks together: all or none, under one deadline, in any order. One
// ZooKeeper transaction takes the places in all queues; if the whole set is free, that one round trip is all.
//
// MultiLocks do not wait in a circle, neither for each other nor for calls of single locks. One transaction creates all places of
// a set. So of two sets, one has the older place in every queue that they share.
//  1. A place waits only for older places. So the oldest waiting set waits only for holders, and holders are free to finish.
//  2. The goroutines of one client take turns at each lock. A set takes the turns of all its members at one moment, before it
//     creates a node. Until then the set delays no other goroutine, so goroutines that want one of the locks may go first.
//
// A program that takes further locks while it holds some can still deadlock, as with any locks.
type MultiLock struct {
	c       *Client
	handles []*handle
}

// MultiLock returns a handle on the members, which must be different locks of this client. At each member that excludes others,
// the goroutines of this client wait in turn and share one node in the queue. Each reader has a node of its own.
func (c *Client) MultiLock(members ...Member) *MultiLock {
	m := &MultiLock{c: c}
	for _, each := range members {
		if isNil(each) {
			m.handles = append(m.handles, c.failingHandle("", errors.New("recipes: multi-lock: a member is nil")))
			continue
		}
		m.handles = append(m.handles, each.handle())
	}
	return m
}

// Lock waits for all members. ctx bounds the wait as a whole. The lease holds all of them, and is lost or revoked when one member
// is lost or revoked. Errors: see Mutex.Lock; an error that concerns a member names it.
//
// The lease's token is one number for all members, larger than the tokens of their earlier grants.
//
// A handle of a member that was made with WithReentrancy enters this lease again, if its call has a context derived from the
// lease's Context.
func (m *MultiLock) Lock(ctx context.Context) (*Lease, error) { return m.lock(ctx, false) }

// TryLock takes all members if all are free. Otherwise it returns a *HeldError for the first member that is held.
func (m *MultiLock) TryLock(ctx context.Context) (*Lease, error) { return m.lock(ctx, true) }

// Do runs fn while all members are held; see Mutex.Do.
func (m *MultiLock) Do(ctx context.Context, fn func(context.Context, *Lease) error) error {
	return do(ctx, m.Lock, fn)
}

func (m *MultiLock) lock(ctx context.Context, try bool) (*Lease, error) {
	if len(m.handles) == 0 {
		return nil, errors.New("recipes: a multi-lock needs at least one member")
	}
	members := make([]lock.Member, len(m.handles))
	for i, q := range m.handles {
		members[i].Handle = &q.Handle
	}
	return m.c.take(ctx, m.handles[0], true, try, members...)
}
