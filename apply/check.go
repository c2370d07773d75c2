package apply

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// Check looks whether Run would refuse the plan as things stand, and writes nothing:
// whether something changed since the plan, a lock that has to be idle is in use, a
// transaction is too large or, with no LockTimeout, another apply holds the lock. Its
// errors are those of Run. It keeps nobody from changing things before Run comes: it is
// for plans of several ensembles, which share no transaction, so that none of them is
// written where one is refused already.
func (x *Executor) Check(ctx context.Context, p *plan.Plan) error {
	r := x.job(p)
	if err := r.permitted(); err != nil || !p.HasChanges() {
		return err
	}
	if err := r.prepare(); err != nil {
		return err
	}
	// Who has the lock, or would wait for it, is not refused for it.
	if err := r.verify(ctx); err != nil || r.fresh || x.LockTimeout > 0 {
		return err
	}
	return free(ctx, r.s, plan.LockPath(p.Root, p.Stack))
}

// free reports who holds an apply lock. Whoever may not look is told when they queue.
func free(ctx context.Context, s *recipes.Session, path string) error {
	names, _, err := s.Children(ctx, path)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) {
		return nil
	}
	if err != nil {
		return readError(path, err)
	}
	queue, _ := kind.SortContenders(names)
	if len(queue) == 0 {
		return nil
	}
	data, _, err := s.Get(ctx, kind.JoinPath(path, queue[0].Name))
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil // it has just ended
	case err != nil && !errors.Is(err, zk.ErrNoAuth):
		return readError(path, err)
	}
	var contender struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(data, &contender) // of somebody else's making it says nothing
	return &LockedError{Info: parseInfo(contender.ID), Path: path}
}
