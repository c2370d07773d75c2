// Package direct reads and writes nodes of ZooKeeper in the session of a client. It is for a program that keeps data beside its locks, and
// for tools. [github.com/locktree/locktree/recipes.Client.Session] returns a Session:
//
//	s, err := c.Session(ctx)
//	data, stat, err := s.Get(ctx, "/app/config")
//
// The package relies on package recipes for the connection, and takes no lock. For a write that must not happen after a lock is lost, use
// [github.com/locktree/locktree/recipes.Lease.Multi]. Its types are [Session], [Reads], and [OpError], the error of every operation.
package direct

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
)

// Session is one ZooKeeper session. It is safe for use by many goroutines. When it is lost, ask the client for the next one. A lost session
// is never revived, and no operation runs in another session than its own.
//
// Operations wait for a connection until ctx ends or the session is lost. Reads whose answer was lost with a connection are
// repeated, up to three times; writes never are. Every error is an [*OpError]; it says what is known about the operation's
// effect. Paths are absolute, and the types, flags and errors are those of package zk. Ephemeral nodes vanish when the client is
// closed or the servers expire the session. Without a connection the servers expire the session up to Timeout (and a tick) after
// they last heard from it.
type Session struct{ ahead session.Ahead }

// Of wraps a session of package internal/session. A program calls Client.Session of package recipes instead.
func Of(s *session.Session) *Session { return &Session{session.Ahead{Session: s}} }

// ID returns the session's id.
func (s *Session) ID() int64 { return s.ahead.ID() }

// Timeout returns the session timeout that the servers granted last; a reconnect may change it.
func (s *Session) Timeout() time.Duration { return s.ahead.Timeout() }

// Done returns a channel that is closed when the session is lost. Operations then fail with recipes.ErrSessionLost, and say why. The session's
// leases have ended by then.
func (s *Session) Done() <-chan struct{} { return s.ahead.Done() }

// Get returns a node's data and stat.
func (s *Session) Get(ctx context.Context, path string) (data []byte, stat *zk.Stat, err error) {
	return s.ahead.Get(ctx, path)
}

// Exists returns a node's stat, nil when there is no such node. Servers before 3.8.4 and 3.9.2 answer all clients. Later servers
// require READ on a node that exists (ZOOKEEPER-2590), so zk.ErrNoAuth proves that the node exists.
func (s *Session) Exists(ctx context.Context, path string) (*zk.Stat, error) {
	return s.ahead.Exists(ctx, path)
}

// Children returns the names (not paths) of a node's children, in no particular order, and its stat.
func (s *Session) Children(ctx context.Context, path string) (names []string, stat *zk.Stat, err error) {
	return s.ahead.Children(ctx, path)
}

// GetACL returns a node's access list as the server stored it, and its stat.
func (s *Session) GetACL(ctx context.Context, path string) (acl []zk.ACL, stat *zk.Stat, err error) {
	return s.ahead.GetACL(ctx, path)
}

// GetW is Get plus a watch: the channel changed is closed if the node should be read again. That is after a change or deletion
// of the node, a reconnect (events may be lost), the loss of the session, or the end of ctx. No change after the read is missed,
// unless the server forgets the watch or an access list hides the node. A closed channel does not prove that the node has
// changed. On any error, including zk.ErrNoNode, changed is nil and nothing is left behind.
func (s *Session) GetW(ctx context.Context, path string) (data []byte, stat *zk.Stat, changed <-chan struct{}, err error) {
	watched, call := context.WithCancel(ctx)
	data, stat, w, err := s.ahead.GetCalled(ctx, path, call)
	return data, stat, changeChannel(watched, call, w), err
}

// ChildrenW is Children plus a watch on the list of children and the node's deletion, as with GetW.
func (s *Session) ChildrenW(ctx context.Context, path string) (names []string, stat *zk.Stat, changed <-chan struct{}, err error) {
	watched, call := context.WithCancel(ctx)
	names, stat, w, err := s.ahead.ChildrenCalled(ctx, path, call)
	return names, stat, changeChannel(watched, call, w), err
}

// changeChannel turns a watch into a channel, the Done channel of the context watched. The watch w calls the function call when it
// fires, and call ends watched. The end of watched also stops w. If w is nil, there is no channel.
func changeChannel(watched context.Context, call func(), w *session.Watch) <-chan struct{} {
	if w == nil {
		call()
		return nil
	}
	context.AfterFunc(watched, w.Stop)
	return watched.Done()
}

// Reads names the nodes to read together, by their paths.
type Reads struct{ Get, GetACL, Exists []string }

// ReadAhead sends reads together, in one write, and returns a Session for one goroutine. The new Session's methods Get, GetACL
// and Exists wait for the answers to these reads, and return each answer once. Any other read is sent when its method is called.
// ReadAhead itself only waits for a connection; the methods return all errors.
//
// An answer may be older than a write that you make after ReadAhead. So do not read ahead a node that you then write.
func (s *Session) ReadAhead(ctx context.Context, reads Reads) *Session {
	return &Session{s.ahead.ReadAhead(ctx, session.Reads(reads))}
}

// Create creates a node and returns its path, which zk.FlagSequence makes longer. flags: 0, zk.FlagEphemeral,
// zk.FlagSequence or both. The parent must exist. Containers are refused, and so are nodes with a TTL.
func (s *Session) Create(ctx context.Context, path string, data []byte, flags int32, acl []zk.ACL) (string, error) {
	return s.ahead.Create(ctx, path, data, flags, acl)
}

// Set replaces a node's data. version must equal Stat.Version; -1 matches any.
func (s *Session) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return s.ahead.Set(ctx, path, data, version)
}

// SetACL replaces a node's access list. version must equal Stat.Aversion; -1 matches any.
func (s *Session) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (*zk.Stat, error) {
	return s.ahead.SetACL(ctx, path, acl, version)
}

// Delete deletes a node without children. version must equal Stat.Version; -1 matches any. It needs the permission DELETE on the parent.
func (s *Session) Delete(ctx context.Context, path string, version int32) error {
	return s.ahead.Delete(ctx, path, version)
}

// Multi applies all operations or none: *zk.CreateRequest (no container, no TTL), *zk.SetDataRequest,
// *zk.DeleteRequest, *zk.CheckVersionRequest. When a server refuses, each result says why its operation failed or that it was
// rolled back. The error's Path is that of the first operation that failed.
func (s *Session) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return s.ahead.Multi(ctx, ops...)
}

// Sync makes the server this session is connected to catch up with its leader, for reads that follow. It is NOT a
// quorum operation: an isolated leader answers it (ZOOKEEPER-1675).
func (s *Session) Sync(ctx context.Context, path string) error { return s.ahead.Sync(ctx, path) }

// OpError is the error of every operation of a [Session]. Many errors of package recipes wrap one:
//
//	Op      string  // "create", "get", "multi", ...
//	Path    string  // the node; of a multi, that of the operation that failed first, or of its first operation if that is not known
//	Outcome Outcome // what is known about the effect: OutcomeUnknown, OutcomeDefinite or OutcomeNotSent
//	Err     error   // the cause; errors.Is finds it
//	Hint    string  // what would help, a clause; may be empty
type OpError = session.OpError

// The possible effects of an operation that failed.
const (
	OutcomeUnknown  = session.OutcomeUnknown  // perhaps the operation was applied, or will be applied later, or never
	OutcomeDefinite = session.OutcomeDefinite // a server refused the operation, which had no effect
	OutcomeNotSent  = session.OutcomeNotSent  // the operation never left this process
)

// ErrServer: the server failed, or does not implement the request; the text has its code. Package recipes has the other errors.
var ErrServer = session.ErrServer
