package znode

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// The node of a key lives from its first contender to its last. Each life is a node of its own, with a czxid of its own, and the
// numbers of its contenders begin anew. Why that changes nothing in who is admitted:
//
//   - A contender is in one life, and no life ends while a contender is in it: ZooKeeper deletes no node that has children. Nobody
//     deletes the node of a key in any other way, and the servers' collector looks in the same transaction, as everybody does.
//   - So all contenders that exist at one moment are in one life, and a listing, which shows one moment, compares numbers of one life
//     only. What excludes, the order of the contenders that exist, is that of a declared lock's.
//   - A waiter that concludes without a listing that it is the first (waiter.wayClear) has watched its own node. While that was
//     silent its life went on, and its predecessor was in it: names are never used twice, so no contender of another life was
//     taken for it.
//   - A client that held in an earlier life knows by its own clock when its session may have expired (waiter.prove), which does not
//     depend on where its contender was. Its guarded writes check that contender, which is never there again.
//   - Tokens are the czxids of contenders. Those only grow, also from one life to the next.
//   - A set's contenders are created by one transaction, with the nodes of keys that are missing. Two sets that share a key are in one
//     life of it while both wait, and in the same order everywhere (see MultiLock).
//
// Every transaction that makes the node, or a contender in it, also checks the version of the family's declaration, so it fails if
// that says something else by now. Versions begin anew with a family that was destroyed and declared again, so a late transaction may
// fit that one and make a node where its keys are not. Exclusion does not rest on the check: before it grants, a client looks
// whether the declaration has changed since, as for every lock (waiter.prove), and the watch that it looks at has heard of the
// deletion. What it reads then says where the key is, and a place elsewhere is given up (epoch.declared). A late node that its client knows
// nothing of is found and deleted (txn.recheck). A family that replaces another one in one apply has a version of its own (plan).
//
// A client guesses which nodes exist, and learns from a refusal what it did not know (learn). A refusal because of that means that
// another contender came or went meanwhile.

// keyNode is the node of a key, with the children that its kind needs, as one place knows it.
type Parent struct {
	Of      *Family  // what is declared for each key
	Foreign bool     // any access list will do
	Dirs    []string // the node, and then its children
	Made    []bool   // of these: is believed to exist
	Need    int      // how many of these the place needs
	Rival   bool     // somebody else was seen in the queue
}

// path is that of the node itself.
func (n *Parent) path() string { return n.Dirs[0] }

// creates are the operations that make the nodes from the i-th on, as far as they are not believed to exist.
func (n *Parent) creates(ops []any, s *session.Session, made []bool) []any {
	for i, dir := range n.Dirs[:n.Need] {
		switch {
		case made[i]:
		case s.Kind() == session.Keeper: // it knows no containers
			ops = append(ops, &zk.CreateRequest{Path: dir, Data: []byte{}, Acl: n.Of.NodeACL})
		default:
			ops = append(ops, &session.Container{Path: dir, ACL: n.Of.NodeACL})
		}
	}
	return ops
}

func (n *Parent) check() *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: n.Of.Path, Version: n.Of.Version}
}

// existing are the nodes that are believed to exist, children first.
func (n *Parent) existing() (paths []string) {
	for i, dir := range slices.Backward(n.Dirs) {
		if n.Made[i] {
			paths = append(paths, dir)
		}
	}
	return paths
}

// family is what the nodes of keys are made by, and checked against.
type Family struct {
	Path     string // its node, whose version every transaction checks
	Version  int32
	Acl      []zk.ACL // of contenders
	NodeACL  []zk.ACL // of the nodes of keys
	Declares kind.List
}

// haste is after how many refusals in a row a client no longer guesses.
const haste = 3

// runKeyed is run, also for places in the queues of keys, whose nodes the transaction makes where they are missing. A refusal because of
// that is no error: the next transaction knows better. After a few in a row it depends on no guess (anchor).
func (t *Txn) RunKeyed(ctx context.Context, lists ...string) (children [][]string, err error) {
	gone := t.Gone
	for refused := 0; ; refused++ {
		children, err = t.Run(ctx, lists...)
		if err == nil || len(t.Keys) == 0 {
			return children, err
		}
		if anchors := t.Gone[len(gone):]; len(anchors) > 0 {
			t.E.Janitor.Remove(anchors...)
			if session.OutcomeOf(err) != session.OutcomeDefinite {
				(&Txn{E: t.E, Born: anchors}).recheck(time.Second)
			}
		}
		if !t.learn(ctx, lists, err) {
			return nil, t.refusal(err)
		}
		t.Gone, t.Sent, t.lists, t.lookedAt = gone, nil, nil, nil
		for _, k := range t.Born {
			k.freed.Store(false) // a refused transaction has created nothing
		}
		if refused+1 >= haste {
			t.anchor()
		}
	}
}

// anchor makes the transaction independent of what others do meanwhile. On the same connection, ahead of it, both forms of one more
// transaction are sent for each key: one that makes the key's node and one that finds it, each with an ephemeral child that is no
// contender. Whichever succeeds, the node stays until the transaction has deleted that child again. All fail only if, in the instant
// between the forms, another contender came and went.
func (t *Txn) anchor() {
	t.Gone = slices.Clip(t.Gone)
	for _, n := range t.Keys {
		for i := range n.Made {
			n.Made[i] = n.Made[i] || i < n.Need
		}
		dir := n.Dirs[n.Need-1]
		u := NewUUID()
		name := anchorPrefix + hex.EncodeToString(u[:])
		own := *n // what the janitor may still have when n has learnt more
		own.Made = slices.Clone(n.Made)
		k := &Node{E: t.E, Dir: dir, Prefix: name, Acl: n.Of.Acl, Flags: zk.FlagEphemeral, Key: &own,
			node: node{Name: name, Path: kind.JoinPath(dir, name)}}
		k.freed.Store(true) // it is too brief to be booked
		t.Gone = append(t.Gone, k)
	}
}

// anchorPrefix begins the names of anchors. Curator and kazoo sort what has such a name behind all contenders.
const anchorPrefix = "_key_"

// anchored adds the forms to a batch.
func (t *Txn) anchored(b *session.Batch) {
	for _, k := range t.Gone {
		if k.Flags&zk.FlagSequence != 0 || k.Key == nil || k.Name != k.Prefix {
			continue
		}
		create := &zk.CreateRequest{Path: k.Path, Data: []byte{}, Acl: k.Acl, Flags: zk.FlagEphemeral}
		for have := range k.Key.Need { // nothing, the node, ...: all that is missing is made
			made := make([]bool, len(k.Key.Dirs))
			for i := range have {
				made[i] = true
			}
			b.Multi(append(k.Key.creates([]any{k.Key.check()}, t.E.S, made), create)...)
		}
		b.Create(create)
	}
}

// learn reports whether a transaction was refused because somebody has made or deleted the node of a key, or a child that its kind
// needs, which was not known. The listings behind it tell about each key.
func (t *Txn) learn(ctx context.Context, lists []string, err error) (learnt bool) {
	var op *session.OpError
	if !errors.As(err, &op) || op.Outcome != session.OutcomeDefinite {
		return false
	}
	for _, n := range t.Keys {
		for i, dir := range n.Dirs {
			switch {
			case errors.Is(err, zk.ErrNodeExists) && op.Path == dir && !n.Made[i]:
				n.Made[i], learnt = true, true
				for j := range n.Need { // mostly it is whole
					n.Made[j] = n.Made[j] || i == 0
				}
			case IsNoNode(err) && kind.ParentPath(op.Path) == dir && n.Made[i]:
				n.Made[i], learnt = false, true
				for j := range n.Made {
					n.Made[j] = n.Made[j] && i > 0
				}
			}
		}
	}
	if !learnt {
		return false
	}
	for i, r := range t.lists {
		err := r.Wait(ctx)
		for _, n := range t.Keys {
			j := slices.Index(n.Dirs, lists[i])
			switch {
			case j < 0:
			case err == nil:
				n.Made[0], n.Made[j] = true, true
			case IsNoNode(err) && (j == 0 || j >= n.Need):
				n.Made[j] = false
			}
		}
	}
	return true
}

// refusal says whose node it is that does not let us in.
func (t *Txn) refusal(err error) error {
	var op *session.OpError
	if !errors.As(err, &op) || !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	for _, n := range t.Keys {
		if slices.Contains(n.Dirs, kind.ParentPath(op.Path)) && n.Made[0] {
			return fmt.Errorf("%w: %s does not let this client in: %w", ErrKeyForeign, n.path(), err)
		}
	}
	return err
}

// admits notes, behind the transaction, that all nodes exist. Of those that somebody else has made it looks at the access list, which
// came with the transaction.
func (t *Txn) Admits(ctx context.Context) error {
	for i, n := range t.Keys {
		for j := range n.Need {
			n.Made[j] = true
		}
		r := t.lookedAt[i]
		if r == nil {
			continue
		}
		var list []zk.ACL
		err := r.Wait(ctx)
		switch {
		case err == nil:
			list = r.ACL()
		case Unanswered(err):
			err = Retry(ctx, t.E.S, Unanswered, func() (err error) {
				list, _, err = t.E.S.GetACL(ctx, n.path())
				return err
			})
		}
		switch {
		case errors.Is(err, zk.ErrNoAuth):
			return fmt.Errorf("%w: its access list is hidden from this client: %w", ErrKeyForeign, err)
		case err != nil:
			return err
		}
		if got := fromZK(list); !got.Equal(n.Of.Declares) {
			return fmt.Errorf("%w: %s has the access list %s, its family declares %s; delete the node when nobody uses the key, or declare the family with foreign = true",
				ErrKeyForeign, n.path(), got, n.Of.Declares)
		}
	}
	return nil
}

// fromZK converts an access list.
func fromZK(acl []zk.ACL) kind.List {
	out := make(kind.List, len(acl))
	for i, a := range acl {
		out[i] = kind.ACL{Scheme: a.Scheme, ID: a.ID, Perms: kind.Perm(a.Perms)}
	}
	return out
}
