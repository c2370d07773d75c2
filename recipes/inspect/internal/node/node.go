// Package node reads one node, recognises which lock the node is, and reads the contenders in its queues.
//
//	n, err := node.Read(ctx, session, "/locks/payments/ledger") // the node and the names of its children
//	err = n.Recognise(ctx, session)                             // its kind, holders and waiters
//
// A caller that has already listed the queues (package scan) calls the steps directly: [Contenders], [Judge] and [Junk]. The package
// remembers nothing and writes nothing.
package node

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect/internal/evidence"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// Node is one node, and what Recognise found about its lock.
type Node struct {
	Path     string
	Data     []byte
	Stat     *zk.Stat
	Children []string
	Payload  *kind.Payload // the declaration of the lock; nil if there is none
	Why      error         // why there is no declaration

	evidence.Found
	Holders, Waiters []kind.Party
	Junk             []string // paths of children that are not contenders
}

// Read reads a node, its declaration and the names of its children.
func Read(ctx context.Context, s *session.Session, path string) (*Node, error) {
	data, stat, err := s.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	children, _, err := s.Children(ctx, path)
	if err != nil {
		return nil, err
	}
	n := &Node{Path: path, Data: data, Stat: stat, Children: children}
	if n.Payload, n.Why = kind.Decode(data); n.Why != nil {
		n.Payload = nil
	} else {
		n.Payload.Read(stat.Mtime)
	}
	return n, nil
}

// Recognise finds out what the node is, and reads its contenders if it is a lock.
func (n *Node) Recognise(ctx context.Context, s *session.Session) (err error) {
	children := func(dir string) ([]string, error) {
		if dir == n.Path {
			return n.Children, nil
		}
		names, _, err := s.Children(ctx, dir)
		if errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
		return names, err
	}
	n.Found, err = evidence.Of(n.Path, n.Payload, n.Data, n.Children, func(name string) ([]string, error) {
		names, err := children(kind.JoinPath(n.Path, name))
		if errors.Is(err, zk.ErrNoAuth) {
			err = nil
		}
		return names, err
	})
	if err != nil {
		return err
	}
	switch {
	case n.Kind == nil || n.Kind.Container:
		n.Junk = Junk(n.Kind, n.Path, n.Path, n.Children)
		return nil
	case n.Kind.Key != nil: // a family's children are keys, and not contenders
		return nil
	}
	n.Holders, n.Waiters, n.Junk, err = Contenders(n.Path, n.Found, children, func(dir string) Reader {
		return func(k kind.Contender) (*kind.Party, error) { return ReadContender(ctx, s, dir, k) }
	})
	return err
}

// List is an access list in the library's own type.
func List(in []zk.ACL) (out kind.List) {
	for _, a := range in {
		out = append(out, kind.ACL{Scheme: a.Scheme, ID: a.ID, Perms: kind.Perm(a.Perms)})
	}
	return out
}
