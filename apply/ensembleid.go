package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
)

// Recognize checks that an ensemble has the id that is pinned, if one is, and that the root belongs to no other stack, as far as we may
// read that. It reads nothing more.
func Recognize(ctx context.Context, s *recipes.Session, desired *plan.Tree) error {
	if err := rightEnsemble(ctx, s, desired); err != nil {
		return err
	}
	if _, err := alone(ctx, s, desired.Root, desired.Stack); !errors.Is(err, zk.ErrNoAuth) { // which other reads say
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
	got, there, err := ensembleID(ctx, s, root)
	if err == nil && !there { // a follower may not have seen it yet
		if err = s.Sync(ctx, path); err == nil {
			got, there, err = ensembleID(ctx, s, root)
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

// ensembleID reads the id, "" if there is none, and whether there is a node for it.
func ensembleID(ctx context.Context, s *recipes.Session, root string) (id string, there bool, err error) {
	data, _, err := s.Get(ctx, plan.ScaffoldPath(root))
	if errors.Is(err, zk.ErrNoNode) {
		return "", false, nil
	}
	return plan.MarkedAs(data), err == nil, err
}

// identify gives an ensemble an id if an earlier version of locktree has made its nodes. Whoever may not do that leaves it to others,
// and a write whose outcome is not known is one that the next apply finds, or makes.
func (r *job) identify(ctx context.Context) {
	path := plan.ScaffoldPath(r.p.Root)
	if !r.p.Unmarked() {
		return
	}
	if data, stat, err := r.s.Get(ctx, path); err == nil && len(data) == 0 {
		if _, err := r.s.Set(ctx, path, plan.MarkOf(newID()+newID()), stat.Version); err == nil {
			r.prepared = append(r.prepared, "the ensemble was given an id")
		}
	}
}

// checkID says which ensemble this is, if an apply has been here and we may know.
func checkID(ctx context.Context, s *recipes.Session, declared *plan.Tree) ([]inspect.Condition, error) {
	id, _, err := ensembleID(ctx, s, declared.Root)
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return nil, nil
	case err != nil:
		return nil, failure.Read(plan.ScaffoldPath(declared.Root), err)
	case id == "": // no apply was here, or one of an earlier version
		return nil, nil
	}
	k := inspect.Condition{Name: "ensemble id", What: "it is " + id + ", as the ensemble block says",
		Why: "the same names may lead to other servers"}
	if declared.EnsembleID == "" {
		k.What = fmt.Sprintf("it is %s; with id = %q in the ensemble block, every other ensemble is refused", id, id)
	}
	return []inspect.Condition{k}, nil
}
