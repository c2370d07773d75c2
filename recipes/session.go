package recipes

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"
)

// State is what this process may believe about a session.
type State int

const (
	// Active: connected, and a server answered recently.
	Active State = iota
	// Suspect: disconnected or unanswered, but the local deadline has not passed: the session may still live, and
	// what is held is still held. While something is held, only a committed write leads back to Active.
	Suspect
	// Lost: final.
	Lost
)

// String returns "active", "suspect" or "lost".
func (s State) String() string { return [...]string{"active", "suspect", "lost"}[s] }

// watch is one caller's interest in one node; see Session.getW.
type watch struct{}

// C is closed once, when the caller should read the node again: it changed, it was deleted, the connection was
// re-established (events may have been missed), or the session was lost. Level-triggered: C being closed proves no
// change, and the waiter re-reads. A waiter needs nothing but C and its own ctx.
func (w *watch) C() <-chan struct{} { panic("pending") }

// event says what closed C: zk.EventNodeDataChanged, EventNodeDeleted, EventNodeChildrenChanged; zk.EventSession for a
// re-established connection (or server-side watches that could not be set again); zk.EventNotWatching for a lost
// session. Before C is closed it is 0.
func (w *watch) event() zk.EventType { panic("pending") }

// stop drops the interest. C is not closed by it. Idempotent; must be called once by whoever got the watch, fired or
// not. The watch on the server stays (go-zookeeper cannot remove one) and is shared by the next getW of that path.
func (w *watch) stop() { panic("pending") }

// getW is Get plus a watch on the node's data and deletion. On any error, zk.ErrNoNode included, the watch is nil and
// nothing is left behind. All callers share one server-side watch per path: the second getW costs a plain read.
// An event after the read that getW answers with is never missed. Retries over reconnects like Get.
func (s *Session) getW(ctx context.Context, path string) ([]byte, *zk.Stat, *watch, error) {
	panic("pending")
}

// childrenW is Children plus a watch on the list of children (and the node's deletion). As getW.
func (s *Session) childrenW(ctx context.Context, path string) ([]string, *zk.Stat, *watch, error) {
	panic("pending")
}

// createAndList creates a node and lists the given parents in one round trip: the listings are put on the wire right
// behind the create, on one connection, and ZooKeeper serves a session in order, so every listing is of a state that
// includes the create. create.Path must be unique to this call (a contender's GUID makes it so). create.Flags as in
// Session.Create. children[i] belongs to lists[i].
//
// When createErr is NotSent nothing was sent, listErr is createErr. When createErr is another error the listings may
// have been read before or after the create's effect. When listErr is not nil children is nil: list again. Each is
// an *OpError. No part is retried after it was sent.
func (s *Session) createAndList(ctx context.Context, create *zk.CreateRequest, lists ...string) (created string, createErr error, children [][]string, listErr error) {
	panic("pending")
}

// multiAndList is createAndList for a transaction. The first operation's path must be unique to this call.
func (s *Session) multiAndList(ctx context.Context, ops []any, lists ...string) (results []zk.MultiResponse, multiErr error, children [][]string, listErr error) {
	panic("pending")
}

// confirm proves the session now: it sends, and waits for, a committed write of this session. The write is a
// transaction that only checks that path exists (any version): ZooKeeper takes it through the quorum like every
// multi, but it changes nothing, wakes no watcher and needs only READ on path. So path is the caller's own contender:
// zk.ErrNoNode means it is gone. ErrCannotHeartbeat when its ACL hides it from us. nil advances leaseDeadline to at
// least T/2 after the moment confirm was called.
func (s *Session) confirm(ctx context.Context, path string) error { panic("pending") }

// hold tells the session that the caller holds something on the strength of its node at path. While any hold is
// outstanding the session commits a heartbeat (as confirm, on one held path, whichever was registered first and still
// exists) whenever T/6 passed without a committed write, leaseDeadline applies, and the session is Lost when it passes.
// ErrStaleProof: no committed write is recent enough (the create's reply took long): confirm, then hold again.
// ErrSessionLost when it is. release is idempotent and must be called.
//
// So the order of a grant is: committed write (the create itself, or confirm, or any write), then hold, then hand out.
func (s *Session) hold(path string) (release func(), err error) { panic("pending") }

// leaseDeadline is the time until which, under the conditions of the package documentation, no server will have
// expired this session: T/2 after the SEND of its last committed write, less if the writes before it were too far
// apart, less what the machine slept since. Creating the session counts as a write. It is a time.Now() time
// (monotonic). After Lost it is in the past.
func (s *Session) leaseDeadline() time.Time { panic("pending") }

// stateChanged returns a channel that is closed at the next change of State; take it before reading State, and take
// a new one after it closed.
func (s *Session) stateChanged() <-chan struct{} { panic("pending") }
