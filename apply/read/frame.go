package read

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

// frame reads the access lists of the root and of the tool's own nodes.
func (r *reader) frame(ctx context.Context, desired *plan.Tree) error {
	paths := framePaths(r.tree, desired)
	found := make([]*plan.Framed, len(paths))
	records, n := kind.ParentPath(r.tree.IndexPin.Path), int32(0)
	err := forEach(ctx, r.tally, r.s, paths, func(paths []string) direct.Reads { return direct.Reads{GetACL: paths} },
		func(ctx context.Context, s *direct.Session, i int) error {
			acl, stat, err := s.GetACL(ctx, paths[i])
			switch {
			case errors.Is(err, zk.ErrNoNode):
				return nil
			case errors.Is(err, zk.ErrNoAuth):
				found[i] = &plan.Framed{Path: paths[i], Closed: true}
				return nil
			case err != nil:
				return refusal.Read(paths[i], err)
			}
			found[i] = &plan.Framed{Path: paths[i], ACL: wire.FromZK(acl), Pin: PinOf(paths[i], plan.EnsembleAddr(r.tree.Ensemble), stat), Data: stat.DataLength > 0}
			if paths[i] == records {
				n = stat.NumChildren
			}
			return nil
		})
	if err == nil && (n > 1 || n == 1 && r.tree.IndexPin.Absent) {
		_, err = Alone(ctx, r.s, r.tree.Root, r.tree.Stack)
	}
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
	return nil
}

// framePaths returns the root and the tool's own nodes. If the stack declares administrators, it adds the nodes above the root,
// whose lists may have to be set. Otherwise, if the stack has no record, it returns only the root, .locktree and the directory of
// records.
func framePaths(tree, desired *plan.Tree) []string {
	root := tree.Root
	paths := []string{root, record.ScaffoldPath(root)}
	for _, path := range record.OwnPaths(root, tree.Stack) {
		paths = append(paths, kind.ParentPath(path), path)
	}
	if desired.Intent.Access == nil {
		if tree.IndexPin.Absent {
			paths = paths[:3]
		}
		return paths
	}
	for at := kind.ParentPath(root); root != "/" && at != "/"; at = kind.ParentPath(at) {
		paths = append(paths, at)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Alone returns an error if another stack has its record in the root. Before this stack's first apply, it also looks
// at the roots above. If there is no error, it returns the data version of the directory of records, which every first apply
// raises.
func Alone(ctx context.Context, s *direct.Session, root, stack string) (version int32, err error) {
	for at := root; ; at = kind.ParentPath(at) {
		records := kind.ParentPath(record.IndexPath(at, stack))
		names, stat, err := s.Children(ctx, records)
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth) && at != root:
		case err != nil:
			return 0, refusal.Read(records, err)
		case at == root:
			version = stat.Version
		}
		slices.Sort(names)
		for _, name := range names {
			if name != stack {
				return 0, takenError(root, at, stack, name, fmt.Sprintf("%s is its record", record.IndexPath(at, name)))
			}
		}
		if len(names) > 0 || at == "/" {
			return version, nil
		}
	}
}

// takenError is the error of a root that is another stack's, or lies inside another stack's root.
func takenError(root, theirs, stack, other, why string) error {
	which, next := "this root", fmt.Sprintf("Give stack %q a root of its own beside %s: see \"locktree help two-teams\". If stack %q is to go, destroy it first.", stack, theirs, other)
	if root != theirs {
		which = "the root " + theirs + ", which is around this path,"
	}
	if theirs == "/" { // no root can be beside "/"
		next = fmt.Sprintf("Destroy stack %q, then give each stack a root of its own: see \"locktree help two-teams\".", other)
	}
	return &failure.NodeError{
		Path: root, Op: "use",
		Why:  fmt.Sprintf("%s belongs to stack %q (%s), and a root belongs to one stack, so stack %q cannot use it", which, other, why, stack),
		Next: next,
	}
}

// owner reads who declared the root node. If any stack did, this one included, owner returns an error: that declaration owns the
// contents of the root, too.
func (r *reader) owner(ctx context.Context) error {
	data, _, err := r.s.Get(ctx, r.tree.Root)
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
		return nil
	case err != nil:
		return refusal.Read(r.tree.Root, err)
	}
	r.tree.RootOwner = "another program"
	p, err := kind.Decode(data)
	switch {
	case err != nil || p.Owner.Stack == "":
	case p.Owner.Stack == r.tree.Stack:
		return &failure.NodeError{
			Path: r.tree.Root, Op: "read", Addr: plan.Addr(p.Owner.Addr),
			Why:  fmt.Sprintf("another configuration of the same stack, %q, declares a node at this root, so the nodes of the two cannot be told apart", p.Owner.Stack),
			Next: "Give one of the two another stack or another root.",
		}
	default:
		return takenError(r.tree.Root, r.tree.Root, r.tree.Stack, p.Owner.Stack, "which declares it as "+p.Owner.Addr)
	}
	return nil
}

// Recognize checks that the ensemble has the pinned id, if one is pinned. It also checks that the root belongs to no other stack, as far as
// we may read that. It reads nothing more.
func Recognize(ctx context.Context, s *direct.Session, desired *plan.Tree) error {
	if err := rightEnsemble(ctx, s, desired); err != nil {
		return err
	}
	if _, err := Alone(ctx, s, desired.Root, desired.Stack); !errors.Is(err, zk.ErrNoAuth) { // other reads report that
		return err
	}
	return nil
}

func rightEnsemble(ctx context.Context, s *direct.Session, desired *plan.Tree) error {
	root, pinned := desired.Root, desired.EnsembleID
	if pinned == "" {
		return nil
	}
	path := record.ScaffoldPath(root)
	got, there, err := EnsembleID(ctx, s, root)
	if err == nil && !there { // a follower may not have seen it yet
		if err = s.Sync(ctx, path); err == nil {
			got, there, err = EnsembleID(ctx, s, root)
		}
	}
	switch {
	case err != nil:
		return refusal.Read(path, err)
	case got != pinned:
		return &failure.WrongEnsembleError{Path: path, Want: pinned, Got: got, Absent: !there}
	}
	return nil
}

// EnsembleID reads the id, "" if there is none, and whether there is a node for it.
func EnsembleID(ctx context.Context, s *direct.Session, root string) (id string, there bool, err error) {
	data, _, err := s.Get(ctx, record.ScaffoldPath(root))
	if errors.Is(err, zk.ErrNoNode) {
		return "", false, nil
	}
	return record.MarkedAs(data), err == nil, err
}

// readIndex reads the stack's record into the tree. If it cannot be understood, that is noted there, so that a plan writes it
// again. A record written by a newer program is an error.
//
// A damaged record must not stop a plan, least of all a destroy: the nodes themselves name their owner.
func readIndex(ctx context.Context, s *direct.Session, tree *plan.Tree) error {
	path := record.IndexPath(tree.Root, tree.Stack)
	head, err := HeadAt(ctx, s, path)
	if err != nil {
		return err
	}
	tree.Index, tree.IndexPin, tree.IndexTrouble = head.Index, head.Pin, head.trouble
	return nil
}

// Head is the node of the record.
type Head struct {
	Index   *record.Record // nil when there is none, or none that can be understood
	Pin     plan.Pin
	trouble string // why it cannot be understood
}

// Of reports whether the transaction with this id wrote the record.
func (h Head) Of(id string) bool { return h.Index != nil && h.Index.Apply == id }

// HeadAt reads the node of the record at path. A record of a newer program is an error.
func HeadAt(ctx context.Context, s *direct.Session, path string) (Head, error) {
	data, stat, err := s.Get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return Head{Pin: plan.Pin{Path: path, Absent: true}}, nil
	}
	if err != nil {
		return Head{}, refusal.Read(path, err)
	}
	h := Head{Pin: PinOf(path, "", stat)}
	h.Index, err = record.Decode(data)
	var newer *record.VersionError
	switch {
	// Writing it again would drop what a newer program wrote
	// (TestRecordOfANewerVersionIsLeftAlone).
	case errors.As(err, &newer):
		return Head{}, &failure.NodeError{Path: path, Op: "read", Why: explain.Plain(err.Error()), Err: err}
	case err != nil:
		h.trouble = explain.Plain(err.Error())
	}
	return h, nil
}
