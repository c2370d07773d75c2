package apply

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// frame reads the access lists of what the stack stands on. It is for a warning:
// what is not there or may not be looked at is left out.
func (r *reader) frame(ctx context.Context) error {
	root, stack := r.tree.Root, r.tree.Stack
	lock, index := plan.LockPath(root, stack), plan.IndexPath(root, stack)
	paths := []string{root, plan.ScaffoldPath(root), kind.ParentPath(index), index, kind.ParentPath(lock), lock}
	if r.tree.IndexPin.Absent {
		paths = paths[:1] // nothing was applied yet
	}
	lists := make([][]zk.ACL, len(paths))
	err := each(ctx, len(paths), func(ctx context.Context, i int) error {
		acl, _, err := r.s.GetACL(ctx, paths[i])
		if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
			return readError(paths[i], err)
		}
		lists[i] = acl
		return nil
	})
	for i, path := range paths {
		if lists[i] != nil {
			r.tree.Frame = append(r.tree.Frame, plan.Framed{Path: path, ACL: fromZK(lists[i])})
		}
	}
	r.tree.Frame = slices.Clip(r.tree.Frame)
	return err
}
