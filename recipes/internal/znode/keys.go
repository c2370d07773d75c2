package znode

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// KeyNode has what one place in the queue of a key knows about the key's node and the children that its kind needs.
//
// The node of a key lives from its first contender to its last. Each life is a new node with a czxid of its own, and its contenders are
// numbered from 0 again. Admission is as safe as for a declared lock:
//  1. No life ends while a contender is in it: this client and the servers' collector only use a delete that ZooKeeper refuses while the
//     node has children. So contenders that exist at one moment are in one life, and a listing compares numbers of one life.
//  2. Names of contenders are never used twice, and tokens are czxids, which grow. So Lease.Multi never meets a node of another life, and
//     no token occurs in two lives.
//  3. One transaction creates a set's contenders and the missing nodes of its keys. So two sets that wait for one key are in one life of
//     the key's node. They have the same order in every queue that both are in (see MultiLock).
//  4. No client is granted a key at the wrong place: see check.
//
// A client guesses which nodes exist, and learns from refusals (learn).
type KeyNode struct {
	Family     *Family  // what is declared for each key
	Foreign    bool     // the node may have any access list
	Dirs       []string // the path of the node, and then those of its children
	Made       []bool   // for each of Dirs: whether the node is believed to exist
	Needed     int      // the place needs the first Needed of Dirs
	SeenOthers bool     // another contender was seen in the queue
}

// path returns the path of the key's node.
func (n *KeyNode) path() string { return n.Dirs[0] }

// creates appends to ops the creates of the needed nodes whose entry in the list made is false.
func (n *KeyNode) creates(ops []any, made []bool) []any {
	for i, dir := range n.Dirs[:n.Needed] {
		if !made[i] {
			ops = append(ops, &session.Container{Path: dir, ACL: n.Family.NodeACL})
		}
	}
	return ops
}

// check checks that the declaration of the family is the one that was read. A late transaction with a former path of the key can still
// pass this check: versions repeat, because a family that was destroyed and declared again starts at version 0. So waiter.prove looks
// whether the declaration has changed, and if so, reads the path of the key again. Txn.recheck deletes the late node.
func (n *KeyNode) check() *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: n.Family.Path, Version: n.Family.Version}
}

// learn reports whether a refusal shows that another client has created or deleted the node, or a child of it.
func (n *KeyNode) learn(refusal *session.OpError) (learnt bool) {
	for i, dir := range n.Dirs {
		switch {
		case errors.Is(refusal, zk.ErrNodeExists) && refusal.Path == dir && !n.Made[i]:
			n.Made[i], learnt = true, true
			for j := range n.Needed { // usually all nodes of a key exist together
				n.Made[j] = n.Made[j] || i == 0
			}
		case IsNoNode(refusal) && kind.ParentPath(refusal.Path) == dir && n.Made[i]:
			n.Made[i], learnt = false, true
			for j := range n.Made {
				n.Made[j] = n.Made[j] && i > 0
			}
		}
	}
	return learnt
}

// noteListing notes what the result of a listing says about the node and its children.
func (n *KeyNode) noteListing(dir string, err error) {
	j := slices.Index(n.Dirs, dir)
	switch {
	case j < 0:
	case err == nil:
		n.Made[0], n.Made[j] = true, true
	case IsNoNode(err) && (j == 0 || j >= n.Needed):
		n.Made[j] = false
	}
}

// anchorPrefix begins the names of anchors. Curator and kazoo sort such names behind all contenders.
const anchorPrefix = "_key_"

// anchor returns an anchor: an ephemeral child that is no contender. The anchor keeps the key's node in place until our transaction
// deletes the anchor. An earlier transaction of the same batch creates the anchor: see sendAnchor.
func (n *KeyNode) anchor(owner *SessionNodes) *Node {
	for i := range n.Made {
		n.Made[i] = n.Made[i] || i < n.Needed
	}
	dir := n.Dirs[n.Needed-1]
	u := NewUUID()
	name := anchorPrefix + hex.EncodeToString(u[:])
	own := *n // a copy, because the janitor may still use it when n changes
	own.Made = slices.Clone(n.Made)
	k := &Node{Owner: owner, Dir: dir, Prefix: name, ACL: n.Family.ACL, Flags: zk.FlagEphemeral, Key: &own,
		Name: name, Path: kind.JoinPath(dir, name)}
	k.freed.Store(true) // an anchor lives so briefly that it does not count towards the session's limit of bytes
	return k
}

// isAnchor reports whether k is an anchor.
func (k *Node) isAnchor() bool {
	return k.Flags&zk.FlagSequence == 0 && k.Key != nil && k.Name == k.Prefix
}

// sendAnchor adds several versions of the transaction that creates the anchor k. Each version expects a different number of the
// key's nodes to exist. All versions fail only if another contender came and went between them.
func (n *KeyNode) sendAnchor(b *session.Batch, k *Node) {
	create := &zk.CreateRequest{Path: k.Path, Data: []byte{}, Acl: k.ACL, Flags: zk.FlagEphemeral}
	for have := range n.Needed { // this version expects that the nodes 0 to have-1 exist, and creates the rest
		made := make([]bool, len(n.Dirs))
		for i := range have {
			made[i] = true
		}
		b.Multi(append(n.creates([]any{n.check()}, made), create)...)
	}
	b.Create(create)
}

// noteExistence notes that all nodes exist. It then refuses the node of another client that has a wrong access list (ErrKeyForeign).
// The parameter read is the answer that has the access list, or nil if the node is ours.
func (n *KeyNode) noteExistence(ctx context.Context, s *session.Session, read *session.Reply) error {
	for j := range n.Needed {
		n.Made[j] = true
	}
	if read == nil {
		return nil
	}
	var list []zk.ACL
	err := read.Wait(ctx)
	switch {
	case err == nil:
		list = read.ACL()
	case Unanswered(err):
		err = retry.Do(ctx, s, Unanswered, func() (err error) {
			list, _, err = s.GetACL(ctx, n.path())
			return err
		})
	}
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return errs.Errorf("%w: its access list is hidden from this client: %w", ErrKeyForeign, err)
	case err != nil:
		return err
	}
	if got := fromZK(list); !got.Equal(n.Family.Declares) {
		return fmt.Errorf("%w: %s has the access list %s, its family declares %s; delete the node when nobody uses the key, or declare the family with foreign = true",
			ErrKeyForeign, n.path(), got, n.Family.Declares)
	}
	return nil
}

// existingPaths returns the paths of the nodes that are believed to exist, children first.
func (n *KeyNode) existingPaths() (paths []string) {
	for i, dir := range slices.Backward(n.Dirs) {
		if n.Made[i] {
			paths = append(paths, dir)
		}
	}
	return paths
}

// removesNode reports whether the first transaction of a removal also deletes the key's node. It does if, as far as this client
// knows, no other contender was there, and the nodes that the place needs exist.
func (n *KeyNode) removesNode() bool {
	return !n.SeenOthers && !slices.Contains(n.Made[:n.Needed], false)
}

// look asks for the stat of each node, children first. If look asked for the parent first, the parent's count could include a child
// that the servers' collector then deletes. removeEmpty would take that child for a contender.
func (n *KeyNode) look(b *session.Batch) []*session.Reply {
	looks := make([]*session.Reply, len(n.Dirs))
	for i, dir := range slices.Backward(n.Dirs) {
		looks[i] = b.Exists(dir)
	}
	return looks
}

// removeEmpty deletes the nodes, children first, unless looks show a contender in them. It is no error if a contender comes meanwhile.
// NoNode may mean that the servers' collector has deleted one of several nodes, so the caller looks again.
func (n *KeyNode) removeEmpty(ctx context.Context, s *session.Session, looks []*session.Reply) error {
	var paths []string
	for i, r := range slices.Backward(looks) {
		switch err := r.Wait(ctx); {
		case IsNoNode(err):
		case isRefused(err): // another program's node, hidden from us
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
	if err := b.Do(ctx); IsNoNode(err) || !isRefused(err) {
		return err
	}
	return nil
}

// sweep deletes the nodes if they are empty. After an error, empty nodes may still be there.
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
	Path     string // the node of the family; every transaction checks its version
	Version  int32
	ACL      []zk.ACL // access list of contenders
	NodeACL  []zk.ACL // access list of the nodes of keys
	Declares kind.List
}

// fromZK converts an access list.
func fromZK(acl []zk.ACL) kind.List {
	out := make(kind.List, len(acl))
	for i, a := range acl {
		out[i] = kind.ACL{Scheme: a.Scheme, ID: a.ID, Perms: kind.Perm(a.Perms)}
	}
	return out
}
