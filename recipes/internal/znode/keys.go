package znode

import (
	"context"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// KeyNode has what one place in the queue of a key knows about the key's node and the children that its kind needs.
//
// The node of a key lives from its first contender to its last. Each life is a new node with its own czxid, and its contenders are
// numbered from 0 again. Admission is as for a declared lock:
//  1. No life ends while a contender is in it: this client and the servers' collector only use a delete that ZooKeeper refuses while the
//     node has children. So contenders that exist at one moment are in one life, and a listing compares numbers of one life.
//  2. Names are never used twice, and tokens are czxids, which grow. So the node that Lease.Multi checks, and a token, are of one life.
//  3. One transaction creates a set's contenders and the missing nodes of its keys. So two sets that wait for one key are in one life of
//     its node, and have the same order in every queue that both are in (see MultiLock).
//  4. No client is granted a key at the wrong place: see check.
//
// A client guesses which nodes exist, and learns from refusals (learn).
type KeyNode struct {
	Family     *Family  // what is declared for each key
	Foreign    bool     // the node may have any access list
	Dirs       []string // the node, and then its children
	Made       []bool   // for each of Dirs: it is believed to exist
	Needed     int      // how many of Dirs the place needs
	SeenOthers bool     // another contender was seen in the queue
}

// path returns the path of the key's node.
func (n *KeyNode) path() string { return n.Dirs[0] }

// creates appends to ops the creates of the needed nodes whose entry in made is false.
func (n *KeyNode) creates(ops []any, made []bool) []any {
	for i, dir := range n.Dirs[:n.Needed] {
		if !made[i] {
			ops = append(ops, &session.Container{Path: dir, ACL: n.Family.NodeACL})
		}
	}
	return ops
}

// check checks that the declaration of the family is the one that was read. A late transaction can pass it at a wrong place: a family that
// was destroyed and declared again starts at version 0. So waiter.prove looks whether the declaration has changed, and then reads again
// where the key is. Txn.recheck deletes the late node.
func (n *KeyNode) check() *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: n.Family.Path, Version: n.Family.Version}
}

// existing returns the paths of the nodes that are believed to exist, children first.
func (n *KeyNode) existing() (paths []string) {
	for i, dir := range slices.Backward(n.Dirs) {
		if n.Made[i] {
			paths = append(paths, dir)
		}
	}
	return paths
}

// alone reports whether the node goes in the transaction that deletes our contenders: no other was seen, and all of it exists, as far as
// this client knows.
func (n *KeyNode) alone() bool { return !n.SeenOthers && !slices.Contains(n.Made[:n.Needed], false) }

// look asks for the stat of each node, children first, so that a child which the servers' collector takes meanwhile is not counted as a
// contender.
func (n *KeyNode) look(b *session.Batch) []*session.Reply {
	looks := make([]*session.Reply, len(n.Dirs))
	for i, dir := range slices.Backward(n.Dirs) {
		looks[i] = b.Exists(dir)
	}
	return looks
}

// removeEmpty deletes the nodes, children first, unless looks show a contender in them. It is no error if one comes meanwhile. NoNode may
// mean that the servers' collector took one of several, so the caller looks again.
func (n *KeyNode) removeEmpty(ctx context.Context, s *session.Session, looks []*session.Reply) error {
	var paths []string
	for i, r := range slices.Backward(looks) {
		switch err := r.Wait(ctx); {
		case IsNoNode(err):
		case refused(err): // another program's node, hidden from us
			return nil
		case err != nil:
			return err
		case int(r.Stat().NumChildren) > len(paths) || i > 0 && r.Stat().NumChildren > 0:
			return nil
		default:
			paths = append(paths, n.Dirs[i])
		}
	}
	if paths == nil {
		return nil
	}
	b := s.Batch()
	b.Delete(paths...)
	if err := b.Do(ctx); IsNoNode(err) || !refused(err) {
		return err
	}
	return nil
}

// sweep deletes the nodes if they are empty. An error says that it may not have looked.
func (n *KeyNode) sweep(ctx context.Context, s *session.Session) error {
	again := func(err error) bool { return Unanswered(err) || IsNoNode(err) }
	return retry.Do(ctx, s, again, func() error {
		b := s.Batch()
		looks := n.look(b)
		if err := b.Send(ctx); err != nil {
			return err
		}
		return n.removeEmpty(ctx, s, looks)
	})
}

// Family has what a client needs to create the nodes of keys, and to check them.
type Family struct {
	Path     string // its node, whose version every transaction checks
	Version  int32
	ACL      []zk.ACL // access list of contenders
	NodeACL  []zk.ACL // access list of the nodes of keys
	Declares kind.List
}
