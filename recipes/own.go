package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// own is the watch on a node of ours, which may be deleted under us, or carry a request to step back. Who waits has one, and
// who holds one for each node.
type own struct {
	k       *contender
	w       *session.Watch // nil while none is set
	hidden  bool           // we may not read the node
	version int32          // of its data
	czxid   int64          // its own; 0 until read
}

// read reads and watches the node. A node that we may not read cannot be watched: it is hidden then, and exists looks for it.
func (o *own) read(ctx context.Context, call func()) error {
	data, stat, w, err := getCalledPersistent(ctx, o.k.e.s, o.k.path, call)
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		o.hidden = true
		return nil
	case isNoNode(err):
		return o.deleted(err)
	case err != nil:
		return err
	}
	o.w = w
	if err := o.ours(stat); err != nil {
		return err
	}
	if string(data) == kind.RevokeMessage {
		return fmt.Errorf("%w: %s, while waiting", ErrRevoked, o.k.path)
	}
	return nil
}

// exists checks that a hidden node is still there and ours. Servers that hide it (see Session.Exists) say only that it is there:
// such a lease has no token.
func (o *own) exists(ctx context.Context) error {
	var stat *zk.Stat
	err := retry(ctx, o.k.e.s, unanswered, func() (err error) {
		stat, err = o.k.e.s.Exists(ctx, o.k.path)
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
	return o.ours(stat)
}

func (o *own) deleted(err error) error {
	return lostError(o.k.path, fmt.Errorf("the node was deleted by somebody else: %w", err))
}

// ours checks whose the node is, and records its version and its token.
func (o *own) ours(stat *zk.Stat) error {
	if id := o.k.e.s.ID(); stat.EphemeralOwner != id {
		return lostError(o.k.path, fmt.Errorf("it belongs to session %#x, ours is %#x", stat.EphemeralOwner, id))
	}
	o.version, o.czxid = stat.Version, stat.Czxid
	return nil
}

// silent reports whether the node is watched, on the present connection, and was there at all that we have seen so far.
func (o *own) silent() bool { return o.w != nil && o.w.Event() == 0 }

func (o *own) unwatch() { o.w = stop(o.w) }

// stop stops w, if there is one, and returns nil.
func stop(w *session.Watch) *session.Watch {
	if w != nil {
		w.Stop()
	}
	return nil
}
