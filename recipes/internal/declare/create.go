package declare

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// createTree makes the node, its parents and the children its kind needs, where they are missing, for WithCreate.
func createTree(ctx context.Context, s *session.Session, path string, k *kind.Kind, acl []zk.ACL) error {
	err := CreateNode(ctx, s, path, acl)
	for _, child := range k.Children {
		if err == nil {
			err = CreateNode(ctx, s, kind.JoinPath(path, child), acl)
		}
	}
	return err
}

// CreateNode makes a node unless it is there, and its parents only where they are missing: a server looks at the rights
// before it looks whether a node exists, and those of the nodes on the way may not be ours.
func CreateNode(ctx context.Context, s *session.Session, path string, acl []zk.ACL) error {
	create := func() error {
		_, err := s.Create(ctx, path, nil, 0, acl)
		return err
	}
	err := znode.Retry(ctx, s, znode.Unanswered, create) // if it was applied, the next one finds the node
	if znode.IsNoNode(err) {
		if err = CreateNode(ctx, s, kind.ParentPath(path), acl); err == nil {
			err = znode.Retry(ctx, s, znode.Unanswered, create)
		}
	}
	if errors.Is(err, zk.ErrNoAuth) { // there, perhaps, and hidden from us: see Session.Exists
		if stat, unknown := s.Exists(ctx, path); stat != nil || errors.Is(unknown, zk.ErrNoAuth) {
			return nil
		}
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// Complete makes, with WithCreate, what err, a NoNode, says is missing of the layout: another try may succeed then,
// as errNotApplied says. (declared looks at the lock node only, whose children may be missing.)
func (q *Name) Complete(ctx context.Context, s *session.Session, err error) error {
	if !znode.IsNoNode(err) || q.Params == nil || !q.Create {
		return err
	}
	if err := createTree(ctx, s, q.Path, q.Kind, q.CreateACL); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s lacked a node, which exists now", znode.ErrNotApplied, q.Path)
}
