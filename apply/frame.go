package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// frame reads the access lists of the root and of the tool's own nodes.
func (r *reader) frame(ctx context.Context, desired *plan.Tree) error {
	access := desired.Intent.Access
	paths := framePaths(r.tree, desired)
	found := make([]*plan.Framed, len(paths))
	err := each(ctx, r.s, paths, func(paths []string) recipes.Reads { return recipes.Reads{GetACL: paths} },
		func(ctx context.Context, s *recipes.Session, i int) error {
			acl, stat, err := s.GetACL(ctx, paths[i])
			switch {
			case errors.Is(err, zk.ErrNoNode):
				return nil
			case errors.Is(err, zk.ErrNoAuth):
				found[i] = &plan.Framed{Path: paths[i], Closed: true}
				return nil
			case err != nil:
				return readError(paths[i], err)
			}
			found[i] = &plan.Framed{Path: paths[i], ACL: fromZK(acl), Pin: pinOf(paths[i], plan.EnsembleAddr(r.tree.Ensemble), stat), Data: stat.DataLength > 0}
			return nil
		})
	if err != nil {
		return err
	}
	for _, f := range found {
		if f != nil {
			r.tree.Frame = append(r.tree.Frame, *f)
		}
	}
	if slices.ContainsFunc(r.tree.Frame, func(f plan.Framed) bool { return f.Path == r.tree.Root && f.Data }) {
		if err := r.owner(ctx); err != nil {
			return err
		}
	}
	r.tree.Frame = slices.Clip(r.tree.Frame)
	if access == nil {
		return nil
	}
	return r.company(ctx, access)
}

// framePaths are the root and the tool's own nodes. Without declared lists they serve only a warning, and a
// stack that was never applied has none of its own.
func framePaths(tree, desired *plan.Tree) []string {
	root := tree.Root
	lock, index := plan.LockPath(root, tree.Stack), plan.IndexPath(root, tree.Stack)
	paths := []string{root, plan.ScaffoldPath(root), kind.ParentPath(index), index, kind.ParentPath(lock), lock}
	if desired.Intent.Access == nil {
		if tree.IndexPin.Absent {
			paths = paths[:1]
		}
		return paths
	}
	for at := kind.ParentPath(root); root != "/" && at != "/"; at = kind.ParentPath(at) {
		paths = append(paths, at)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// company reads what else matters if a shared list has entries that are not declared here: what the other stacks on the
// root need.
func (r *reader) company(ctx context.Context, access *plan.Access) error {
	root, indexes := r.tree.Root, kind.ParentPath(plan.IndexPath(r.tree.Root, r.tree.Stack))
	shared := []string{root, plan.ScaffoldPath(root), indexes, kind.ParentPath(plan.LockPath(root, r.tree.Stack))}
	extra := false
	for _, f := range r.tree.Frame {
		if f.Path == root && f.Data {
			continue
		}
		if slices.Contains(shared, f.Path) && (f.ACL.Masked() || !access.List().Covers(f.ACL)) {
			// A masked entry may belong to another stack: it looks like ours if the user is the same.
			extra = true
		}
	}
	if !extra {
		return nil
	}
	names, _, err := r.s.Children(ctx, indexes)
	if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
		return readError(indexes, err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == r.tree.Stack })
	slices.Sort(names)
	others, paths := make([]plan.OtherStack, len(names)), make([]string, len(names))
	for i, name := range names {
		paths[i] = kind.JoinPath(indexes, name)
	}
	err = each(ctx, r.s, paths, func(paths []string) recipes.Reads { return recipes.Reads{Get: paths} },
		func(ctx context.Context, s *recipes.Session, i int) error {
			data, _, err := s.Get(ctx, paths[i])
			if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
				return readError(paths[i], err)
			}
			others[i].Stack, others[i].Closed = names[i], errors.Is(err, zk.ErrNoAuth)
			if x, err := plan.DecodeIndex(data); err == nil {
				others[i].Access = x.Access
			}
			return nil
		})
	r.tree.Others = others
	return err
}

// owner reads whose declaration the root is. It is an error if that is a stack with our name: it declares what is in the root
// too, see apart.
func (r *reader) owner(ctx context.Context) error {
	data, _, err := r.s.Get(ctx, r.tree.Root)
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
		return nil
	case err != nil:
		return readError(r.tree.Root, err)
	}
	r.tree.RootOwner = "another program"
	p, err := kind.Decode(data)
	switch {
	case err != nil || p.Owner.Stack == "":
	case p.Owner.Stack == r.tree.Stack:
		return &NodeError{
			Path: r.tree.Root, Op: "read", Addr: plan.Addr(p.Owner.Addr),
			Why:  fmt.Sprintf("a configuration of the same stack, %q, declares this root, so their nodes cannot be told apart", p.Owner.Stack),
			Next: "Give one of the two another stack or another root.",
		}
	default:
		r.tree.RootOwner = "stack " + p.Owner.Stack
	}
	return nil
}
