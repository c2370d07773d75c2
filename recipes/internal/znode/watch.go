package znode

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// Watch is on a node of ours, which may be deleted under us, or carry a request to step back. Who waits has one, and
// who holds one for each node.
type Watch struct {
	K       *Node
	W       *session.Watch // nil while none is set
	Hidden  bool           // we may not read the node
	Version int32          // of its data
	Czxid   int64          // its own; 0 until read
}

// Read reads and watches the node. A node that we may not read cannot be watched: it is hidden then, and exists looks for it.
func (o *Watch) Read(ctx context.Context, call func()) error {
	data, stat, w, err := GetCalledPersistent(ctx, o.K.Owner.Session, o.K.Path, call)
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		o.Hidden = true
		return nil
	case IsNoNode(err):
		return o.deleted(err)
	case err != nil:
		return err
	}
	o.W = w
	if err := o.Ours(stat); err != nil {
		return err
	}
	if string(data) == kind.RevokeMessage {
		return fmt.Errorf("%w: %s, while waiting", ErrRevoked, o.K.Path)
	}
	return nil
}

// Exists checks that a hidden node is still there and ours. Servers that hide it (see Session.Exists) say only that it is there:
// such a lease has no token.
func (o *Watch) Exists(ctx context.Context) error {
	var stat *zk.Stat
	err := retry.Do(ctx, o.K.Owner.Session, Unanswered, func() (err error) {
		stat, err = o.K.Owner.Session.Exists(ctx, o.K.Path)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return nil
	case err != nil:
		return err
	case stat == nil:
		return o.deleted(zk.ErrNoNode)
	}
	return o.Ours(stat)
}

func (o *Watch) deleted(err error) error {
	return LostError(o.K.Path, fmt.Errorf("the node was deleted by somebody else: %w", err))
}

// Ours checks whose the node is, and records its version and its token.
func (o *Watch) Ours(stat *zk.Stat) error {
	if id := o.K.Owner.Session.ID(); stat.EphemeralOwner != id {
		return LostError(o.K.Path, fmt.Errorf("it belongs to session %#x, ours is %#x", stat.EphemeralOwner, id))
	}
	o.Version, o.Czxid = stat.Version, stat.Czxid
	return nil
}

// Silent reports whether the node is watched, on the present connection, and was there at all that we have seen so far.
func (o *Watch) Silent() bool { return o.W != nil && o.W.Event() == 0 }

func (o *Watch) Unwatch() { o.W = Stop(o.W) }

// Stop stops w, if there is one, and returns nil.
func Stop(w *session.Watch) *session.Watch {
	if w != nil {
		w.Stop()
	}
	return nil
}

// ListChildren lists a node, however often the answer is lost with its connection.
func ListChildren(ctx context.Context, s *session.Session, dir string) (children []string, err error) {
	err = retry.Do(ctx, s, Unanswered, func() error {
		children, _, err = s.Children(ctx, dir)
		return err
	})
	return children, err
}

// ListAll lists several nodes in one round trip, however often the answers are lost. What is absent may count as empty: the gate of
// a key is created when somebody has to wait.
func ListAll(ctx context.Context, s *session.Session, dirs []string, absent bool) ([][]string, error) {
	b := s.Batch()
	sent := make([]*session.Reply, len(dirs))
	for i, dir := range dirs {
		sent[i] = b.List(dir)
	}
	lists, err := [][]string(nil), b.Send(ctx)
	if err == nil {
		lists, err = awaitLists(ctx, sent, absent)
	}
	if err != nil {
		lists, err = ListAllAgain(ctx, s, dirs, absent)
	}
	return lists, err
}

// ListAllAgain lists several nodes, one after the other: it is for lists that were lost.
func ListAllAgain(ctx context.Context, s *session.Session, dirs []string, absent bool) (lists [][]string, err error) {
	lists = make([][]string, len(dirs))
	for i, dir := range dirs {
		if lists[i], err = ListChildren(ctx, s, dir); err != nil && !(absent && IsNoNode(err)) {
			return nil, err
		}
	}
	return lists, nil
}

// GetCalledPersistent is GetCalled until it is answered.
func GetCalledPersistent(ctx context.Context, s *session.Session, path string, call func()) (data []byte, stat *zk.Stat, w *session.Watch, err error) {
	for t := (retry.Tries{}); ; {
		if data, stat, w, err = s.GetCalled(ctx, path, call); t.Over(ctx, s, Unanswered, &err) {
			return data, stat, w, err
		}
	}
}

// ChildrenCalledPersistent is ChildrenCalled until it is answered.
func ChildrenCalledPersistent(ctx context.Context, s *session.Session, path string, call func()) (children []string, w *session.Watch, err error) {
	err = retry.Do(ctx, s, Unanswered, func() error {
		children, _, w, err = s.ChildrenCalled(ctx, path, call)
		return err
	})
	return children, w, err
}
