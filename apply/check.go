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

// Check reports whether Run would refuse the plan now, and writes nothing: because
// something has changed since the plan, a lock that has to be idle is in use, a
// transaction is too large or, without LockTimeout, another apply holds the lock. Its
// errors are those of Run. Things may still change before Run. Check is for plans of
// several ensembles, which cannot share a transaction: if one of them would be refused
// anyway, none is written.
func (x *Executor) Check(ctx context.Context, p *plan.Plan) error {
	r := x.job(p)
	if err := r.permitted(); err != nil || !p.HasChanges() {
		return err
	}
	if err := r.prepare(); err != nil {
		return err
	}
	// If we have the lock, or would wait for it, it is no reason for Run to refuse.
	if err := r.verify(ctx); err != nil || r.fresh || x.LockTimeout > 0 {
		return err
	}
	return free(ctx, r.s, plan.LockPath(p.Root, p.Stack))
}

// free returns an error that names the holder of an apply lock, if there is one. If we may not look, queueing
// will tell.
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
	_ = json.Unmarshal(data, &contender) // another program's data has no such field
	return &LockedError{Info: parseInfo(contender.ID), Path: path}
}
