package znode

import (
	"context"
	"errors"
	"slices"

	"github.com/locktree/locktree/recipes/internal/session"
)

// How the node of a key goes. Whoever deletes a contender of a key, does one of two things:
//
//   - It deletes the node in the same transaction, which ZooKeeper refuses as a whole if anybody else is in the queue.
//   - It deletes the contender alone, at once where others were seen and else after such a refusal, and looks behind that, on the same
//     connection, whether anybody is left. If not it deletes the node; if somebody has come meanwhile, ZooKeeper refuses that.
//
// So the last of several that leave at once finds that nobody is left: its look shows a state behind all deletions. What is left is
// left by a crash, and is a container, which ZooKeeper collects.

// removal deletes contenders, some of which are those of keys.
type removal struct {
	ks    []*Node
	keys  []*Parent // of these
	whole bool      // with the nodes of keys
	sent  *session.Reply
	looks [][]*session.Reply // at the nodes of keys that were not deleted; nil for others
}

// keysOf are the nodes of the contenders' keys, each once; nil if they are no keys'.
func keysOf(ks []*Node) (keys []*Parent) {
	for _, k := range ks {
		if k.Key != nil && !slices.ContainsFunc(keys, func(n *Parent) bool { return n.path() == k.Key.path() }) {
			keys = append(keys, k.Key)
		}
	}
	return keys
}

func newRemoval(ks []*Node) *removal { return &removal{ks: ks, keys: keysOf(ks), whole: true} }

// batch makes the requests.
func (r *removal) batch() *session.Batch {
	b := r.ks[0].E.S.Batch()
	all := Paths(r.ks)
	r.looks = make([][]*session.Reply, len(r.keys))
	for _, n := range r.keys {
		if r.whole && n.alone() {
			all = append(all, n.existing()...)
		}
	}
	r.sent = b.Delete(all...)
	for i, n := range r.keys {
		if !r.whole || !n.alone() {
			r.looks[i] = n.look(b)
		}
	}
	return b
}

// alone reports whether the node is to go in the transaction that deletes our contenders: nobody else was seen, and all of it is known
// to exist.
func (n *Parent) alone() bool { return !n.Rival && !slices.Contains(n.Made[:n.Need], false) }

// finish waits until the contenders are gone, and with them the nodes that nobody is left in.
func (r *removal) finish(ctx context.Context) error {
	err := r.sent.Wait(ctx)
	if r.whole && refused(err) { // mostly somebody has queued
		r.whole = false
		if err = r.batch().Send(ctx); err == nil {
			err = r.sent.Wait(ctx)
		}
	}
	if err = deleted(r.ks, err); err != nil {
		return err
	}
	s := r.ks[0].E.S
	for i, n := range r.keys {
		if r.looks[i] == nil {
			continue
		}
		left, err := n.left(ctx, r.looks[i])
		if err == nil && left != nil {
			err = remove(ctx, s, left)
		}
		if err != nil {
			err = n.sweep(ctx, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove deletes nodes that nobody was in. It is no error that somebody has come. Of a NoNode the servers' collector may be the cause,
// which has taken one of several: then look again.
func remove(ctx context.Context, s *session.Session, paths []string) error {
	b := s.Batch()
	b.Delete(paths...)
	if err := b.Do(ctx); IsNoNode(err) || !refused(err) {
		return err
	}
	return nil
}

// refused: a server has looked at a request and refused it.
func refused(err error) bool {
	return err != nil && session.OutcomeOf(err) == session.OutcomeDefinite && !errors.Is(err, session.ErrThrottled)
}

// look asks for the stat of each node, children first: what the servers' collector takes meanwhile is not taken for somebody.
func (n *Parent) look(b *session.Batch) []*session.Reply {
	looks := make([]*session.Reply, len(n.Dirs))
	for i, dir := range slices.Backward(n.Dirs) {
		looks[i] = b.Exists(dir)
	}
	return looks
}

// left are the nodes to be deleted if nobody is in them, children first; nil if somebody is, or nothing is there.
func (n *Parent) left(ctx context.Context, looks []*session.Reply) (paths []string, err error) {
	children := 0
	for i, r := range slices.Backward(looks) {
		switch err := r.Wait(ctx); {
		case IsNoNode(err):
		case refused(err): // another program's node, which we may not look at
			return nil, nil
		case err != nil:
			return nil, err
		case int(r.Stat().NumChildren) > children || i > 0 && r.Stat().NumChildren > 0:
			return nil, nil
		default:
			paths = append(paths, n.Dirs[i])
			children++
		}
	}
	return paths, nil
}

// sweep deletes the nodes if nobody is in them. It fails if that may not have been looked at.
func (n *Parent) sweep(ctx context.Context, s *session.Session) error {
	again := func(err error) bool { return Unanswered(err) || IsNoNode(err) }
	return Retry(ctx, s, again, func() error {
		b := s.Batch()
		looks := n.look(b)
		if err := b.Send(ctx); err != nil {
			return err
		}
		left, err := n.left(ctx, looks)
		if err != nil || left == nil {
			return err
		}
		return remove(ctx, s, left)
	})
}
