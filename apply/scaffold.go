package apply

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// scaffoldTries bounds how often the missing nodes are determined again because
// another apply creates them at the same time.
const scaffoldTries = 5

// scaffold creates the nodes that an apply needs: the root and its ancestors, the directory
// of records, the history and the apply lock. It returns the paths it created, and has read the history. It creates them in one
// transaction, so that nobody sees a lock without a declaration.
//
// The lock is not held yet, so any number of applies may do this at once. It writes nothing that
// exists: if it finds a node created meanwhile, it determines again what is missing. A lost reply does
// not matter either: what exists then is what was wanted.
//
// acl is the access list of the nodes. The contenders of the lock have that of the tool's own nodes.
func (r *job) scaffold(ctx context.Context, acl kind.List) (_ []string, err error) {
	if r.p.Index.Absent { // another stack may have been applied since the plan
		if r.records, err = read.Alone(ctx, r.s, r.p.Root, r.p.Stack); err != nil {
			return nil, err
		}
	}
	for try := 0; ; try++ {
		missing, err := r.absent(ctx)
		if err != nil || len(missing) == 0 {
			return nil, err
		}
		var ops []any
		for _, path := range missing {
			op := &zk.CreateRequest{Path: path, Data: []byte{}, Acl: wire.ToZK(acl)}
			switch path {
			case plan.ScaffoldPath(r.p.Root):
				op.Data = plan.MarkOf(history.NewID() + history.NewID())
			case plan.LockPath(r.p.Root, r.p.Stack):
				if op.Data, err = plan.LockPayload(r.p.Stack, r.own); err != nil {
					return nil, err
				}
			}
			ops = append(ops, op)
		}
		_, err = r.s.Multi(ctx, ops...)
		switch {
		case err == nil:
			if slices.Contains(missing, r.history.Path) {
				r.history.State = history.Whole
			}
			return missing, nil
		case try < scaffoldTries && errors.Is(err, zk.ErrNodeExists), try < scaffoldTries && failure.Unknown(err):
			continue
		}
		return nil, failure.Scaffold(missing[0], err)
	}
}

// scaffoldPaths lists the nodes that must exist, parents first.
func scaffoldPaths(root, stack string) []string {
	var out []string
	for i := 1; root != "/" && i <= len(root); i++ {
		if i == len(root) || root[i] == '/' {
			out = append(out, root[:i])
		}
	}
	lock, index, history := plan.LockPath(root, stack), plan.IndexPath(root, stack), plan.HistoryPath(root, stack)
	return append(out, plan.ScaffoldPath(root), kind.ParentPath(index), kind.ParentPath(history), history, kind.ParentPath(lock), lock)
}

// absent lists the paths that are missing, in order, and reads the history. If the lock exists so do its ancestors,
// so the common case costs three requests, in one round trip. That does not prove the directory of records and the history,
// which are no ancestors.
func (r *job) absent(ctx context.Context) ([]string, error) {
	paths := scaffoldPaths(r.p.Root, r.p.Stack)
	known := []string{plan.LockPath(r.p.Root, r.p.Stack), kind.ParentPath(plan.IndexPath(r.p.Root, r.p.Stack))}
	ahead := r.s.ReadAhead(ctx, recipes.Reads{Exists: known, Get: []string{plan.HistoryPath(r.p.Root, r.p.Stack)}})
	missing, err := missingOf(ctx, ahead, known)
	if err == nil {
		err = r.lookBack(ctx, ahead)
	}
	if err != nil || len(missing) == 0 && r.history.State != history.Absent {
		return nil, err
	}
	missing, err = missingOf(ctx, r.s.ReadAhead(ctx, recipes.Reads{Exists: paths}), paths)
	if err == nil && r.history.State == history.Absent && !slices.Contains(missing, r.history.Path) { // another apply has created it
		err = r.lookBack(ctx, r.s)
	}
	return missing, err
}

// missingOf are those of the paths at which there is no node.
func missingOf(ctx context.Context, s *recipes.Session, paths []string) (missing []string, err error) {
	for _, path := range paths {
		stat, err := s.Exists(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoAuth): // it exists, see reader.unreadable; we need not be able to read what is above the root
		case err != nil:
			return nil, failure.Read(path, err)
		case stat == nil:
			missing = append(missing, path)
		}
	}
	return missing, nil
}

// identify gives an ensemble an id if an earlier version of locktree has made its nodes. Whoever may not do that leaves it to others,
// and a write whose outcome is not known is one that the next apply finds, or makes.
func (r *job) identify(ctx context.Context) {
	path := plan.ScaffoldPath(r.p.Root)
	if !r.p.Unmarked() {
		return
	}
	if data, stat, err := r.s.Get(ctx, path); err == nil && len(data) == 0 {
		if _, err := r.s.Set(ctx, path, plan.MarkOf(history.NewID()+history.NewID()), stat.Version); err == nil {
			r.prepared = append(r.prepared, "the ensemble was given an id")
		}
	}
}
