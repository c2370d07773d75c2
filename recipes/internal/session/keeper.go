package session

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// ServerKind is what granted a session.
type ServerKind int

const (
	// ZooKeeper is Apache ZooKeeper, or behaves like it: a session outlives its connections.
	ZooKeeper ServerKind = iota
	// Keeper is ClickHouse Keeper. It reads which session a client asks for, and opens another: no session can be resumed, so one
	// whose connection has ended is of no use, and is lost at that moment. The servers keep it, and its nodes, until its timeout
	// has passed since they last heard from it. When a Keeper is stopped in good order it ends the sessions of its clients first,
	// and their connections later: in between such a session is believed to live, by this package too, for up to T/6 while
	// something is held (then a heartbeat is due, which finds the connection at its end), and never beyond Deadline.
	//
	// An operation that a Keeper does not know ends the connection, and so the session. So nothing is sent that depends on its
	// version or on its feature flags: neither create2, which this package does not use for any server, nor setWatches and
	// removeWatches, of which the first also could be believed wrongly.
	Keeper
)

// String returns "Apache ZooKeeper" or "ClickHouse Keeper".
func (k ServerKind) String() string { return [...]string{"Apache ZooKeeper", "ClickHouse Keeper"}[k] }

// keeperRejects is the protocol version with which a Keeper that has no leader refuses a session. The session id beside it means
// nothing.
const keeperRejects = 42

var (
	errNoLeader  = errors.New("it is a ClickHouse Keeper that has no leader")
	errUnresumed = errors.New("the connection has ended, and ClickHouse Keeper resumes no session")
	errOptional  = errors.New("recipes: not asked of a ClickHouse Keeper, which may not know it")
)

// kind says what granted the session: a Keeper's sessions have a password of zeros. ZooKeeper sends one too, with a timeout of 0,
// for a session that has expired.
func (g grant) kind() ServerKind {
	if g.timeout > 0 && bytes.Equal([]byte(g.password), newPassword) {
		return Keeper
	}
	return ZooKeeper
}

// Kind says what granted the session; ZooKeeper before it is granted.
func (s *Session) Kind() ServerKind {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kind
}

// calmDown waits a little where a Keeper has granted a session and ended its connection soon after. Each attempt is a commit there,
// and another session that lives for its timeout.
func (s *Session) calmDown(live context.Context) {
	if s.Kind() == Keeper && s.lasted < settled {
		wait(live, settled/2+s.client.jitter(settled/2))
	}
}

// farewell is the cause with which the link ends on err. A Keeper does not answer closeSession: it ends the connection when that is
// committed. So it does when it dies at that moment, so this is good enough for Close, and not for Gone.
func (l *link) farewell(err error) error {
	l.mu.Lock()
	next := l.calls.first
	l.mu.Unlock()
	if l.s.Kind() == Keeper && next != nil && next.op == jute.OpCloseSession && errors.Is(err, io.EOF) {
		close(l.s.ended)
		return errOver
	}
	return err
}
