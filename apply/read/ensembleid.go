package read

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
)

// Recognize checks that an ensemble has the id that is pinned, if one is, and that the root belongs to no other stack, as far as we may
// read that. It reads nothing more.
func Recognize(ctx context.Context, s *recipes.Session, desired *plan.Tree) error {
	if err := rightEnsemble(ctx, s, desired); err != nil {
		return err
	}
	if _, err := Alone(ctx, s, desired.Root, desired.Stack); !errors.Is(err, zk.ErrNoAuth) { // which other reads say
		return err
	}
	return nil
}

func rightEnsemble(ctx context.Context, s *recipes.Session, desired *plan.Tree) error {
	root, pinned := desired.Root, desired.EnsembleID
	if pinned == "" {
		return nil
	}
	path := plan.ScaffoldPath(root)
	got, there, err := EnsembleID(ctx, s, root)
	if err == nil && !there { // a follower may not have seen it yet
		if err = s.Sync(ctx, path); err == nil {
			got, there, err = EnsembleID(ctx, s, root)
		}
	}
	switch {
	case err != nil:
		return failure.Read(path, err)
	case got != pinned:
		return &failure.WrongEnsembleError{Path: path, Want: pinned, Got: got, Absent: !there}
	}
	return nil
}

// EnsembleID reads the id, "" if there is none, and whether there is a node for it.
func EnsembleID(ctx context.Context, s *recipes.Session, root string) (id string, there bool, err error) {
	data, _, err := s.Get(ctx, plan.ScaffoldPath(root))
	if errors.Is(err, zk.ErrNoNode) {
		return "", false, nil
	}
	return plan.MarkedAs(data), err == nil, err
}
