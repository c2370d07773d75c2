package recipes

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/lock"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/wait"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// The tests are outside the package, like any other program. This file has the internals that they need.

const (
	LastSequence      = znode.LastSequence
	MaxDeclarations   = declare.MaxDeclarations
	MaxEphemeralBytes = znode.MaxEphemeralBytes
	ObserverGrace     = observerGrace
)

var (
	ContendersACL        = declare.ContendersACL
	CreateNode           = declare.CreateNode
	ErrNotApplied        = znode.ErrNotApplied
	ErrSessionFull       = znode.ErrSessionFull
	ErrSequenceExhausted = znode.ErrSequenceExhausted
	ErrNotListed         = wait.ErrNotListed
	Find                 = znode.Find
	HeldData             = znode.HeldData
	HolderSelf           = znode.HolderSelf
	Hostname             = znode.Hostname
	ResultOf             = resultOf
)

// Decide says whether a contender is admitted, or which one it waits for.
func Decide(q kind.Queue, p kind.Params, children []string, name string) (granted bool, behind string, err error) {
	var v wait.Verdict
	err = v.Decide(q, p, children, name)
	return v.Granted, v.Behind, err
}

// Newest returns the client's newest session, which may be over.
func (c *Client) Newest() *session.Session { return c.conn.Newest() }

// State returns the state of that session.
func (c *Client) State() session.State { return c.Newest().State() }

// Live returns the live session, with the methods that programs do not see.
func (c *Client) Live(ctx context.Context) (*session.Session, error) { return c.live(ctx) }

// Crowd sets the number of contenders beyond which a queue is long.
func (c *Client) Crowd(n int) { c.state.Crowd = n }

// KeepDeclarations bounds the number of declarations that are kept.
func (c *Client) KeepDeclarations(n int) { c.state.Decl.MaxDecls = n }

// Declarations returns the number of declarations that are kept.
func (c *Client) Declarations() int { return c.state.Decl.Kept() }

// Pinned returns the paths whose declarations must be kept.
func (c *Client) Pinned() []string { return c.state.Decl.Pinned() }

// PathBytes returns the counter of a session's bytes of ephemeral paths.
func (c *Client) PathBytes(s *session.Session) *atomic.Int64 { return &c.state.StateOf(s).Bytes }

// Remove leaves the deletion of contenders to the janitor.
func (c *Client) Remove(s *session.Session, ks ...*znode.Node) *sync.WaitGroup {
	return c.state.StateOf(s).Janitor.Remove(ks...)
}

// Leftovers says what a client still keeps although none of its calls holds or waits.
func (c *Client) Leftovers() (left []string) {
	s := c.conn.Newest()
	c.state.Mu.Lock()
	if turns := c.state.Turns.Keys(); len(turns) > 0 {
		left = append(left, fmt.Sprintf("local turns %v", turns))
	}
	if n := len(c.state.Lost); n > 0 && s.State() != session.StateLost && c.state.Newest.Session == s { // they stay until the next session is used
		left = append(left, fmt.Sprintf("epochs of %d lost sessions", n))
	}
	declared := 0
	if e := c.state.Newest; e != nil {
		if n := e.Bytes.Load(); n != 0 && e.Session.State() != session.StateLost {
			left = append(left, fmt.Sprintf("%d bytes booked for nodes that do not exist", n))
		}
		e.Janitor.Mu.Lock()
		if e.Janitor.Running || len(e.Janitor.Chores) > 0 {
			left = append(left, fmt.Sprintf("%d chores", len(e.Janitor.Chores)))
		}
		e.Janitor.Mu.Unlock()
		declared = c.state.Decl.Kept()
	}
	c.state.Mu.Unlock()

	if s.State() == session.StateLost {
		return left
	}
	busy := s.Stats()
	if busy.Holds > 0 {
		left = append(left, fmt.Sprintf("%d holds", busy.Holds))
	}
	if len(busy.Watches) > declared {
		left = append(left, fmt.Sprintf("%d watches for %d declarations: %v", len(busy.Watches), declared, busy.Watches))
	}
	if busy.Requests > 0 {
		left = append(left, fmt.Sprintf("%d operations under way", busy.Requests))
	}
	return left
}

// Declared reads the lock's declaration and does nothing more.
func (m *Mutex) Declared(ctx context.Context) error     { return m.q.readDeclared(ctx) }
func (m *Semaphore) Declared(ctx context.Context) error { return m.q.readDeclared(ctx) }

func (q *handle) readDeclared(ctx context.Context) error {
	e, err := q.c.state.Live(ctx)
	if err == nil {
		_, err = e.Decl.Of(ctx, &q.Name)
	}
	return err
}

// Contenders returns n contenders that have not been created.
func (m *Mutex) Contenders(ctx context.Context, s *session.Session, n int) (ks []*znode.Node, err error) {
	e := m.q.c.state.StateOf(s)
	d, err := e.Decl.Of(ctx, &m.q.Name)
	for range n {
		if err != nil {
			break
		}
		var k *znode.Node
		k, err = m.q.Contender(e.SessionNodes, d, kind.Mutex.Queues[0], znode.HolderSelf("a"))
		ks = append(ks, k)
	}
	return ks, err
}

func (m *Semaphore) Client() *Client { return m.q.c }
func (m *Mutex) Client() *Client     { return m.q.c }

func (l *Lease) Client() *Client           { return l.u.Listener().(*tenure).q.c }
func (l *Lease) Session() *session.Session { return l.u.H.Session().Session }
func (l *Lease) SessionID() int64          { return l.u.H.Session().Session.ID() }
func (l *Lease) Reads() bool               { return lock.SubjectOf(l.u).Handle.Shared }
func (l *Lease) Ended() error              { return l.u.Ended() }

// Nodes returns the lease's nodes: one, or one for each permit or member.
func (l *Lease) Nodes() []string { return l.u.H.Nodes() }

// With says whether two leases are of one held lock.
func (l *Lease) With(other *Lease) bool { return l.u.H == other.u.H }

// Told sends an Observer the events in the life of a call.
func (m *Mutex) Told(ctx context.Context, refused error, l *Lease) {
	k := &callReport{c: m.q.c, q: m.q, call: m.q.c.call(ctx, m.q.Path, lock.Member{Handle: &m.q.Handle})}
	k.Queued("", nil)
	k.sendRefused(refused)
	l.u.Listener().Granted(1)
}

// Crowds returns how many semaphores have a crowd that is kept.
func (c *Client) Crowds(family string) int {
	c.state.Mu.Lock()
	defer c.state.Mu.Unlock()
	return len(c.state.Newest.Crowds.All)
}
