package apply

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// scaffoldTries bounds how often the missing nodes are determined again because
// another apply, of this or another stack, creates them at the same time.
const scaffoldTries = 5

// scaffold creates the nodes that an apply needs: the root and its ancestors, the directory
// of records, the history and the apply lock. It returns the paths it created. It creates them in one
// transaction, so that nobody sees a lock without a declaration.
//
// The lock is not held yet, so any number of applies may do this at once. It writes nothing that
// exists: if it finds a node created meanwhile, it determines again what is missing. A lost reply does
// not matter either: what exists then is what was wanted.
//
// contenders is the access list of those of the lock.
func scaffold(ctx context.Context, s *recipes.Session, p *plan.Plan, acl, contenders kind.List) ([]string, error) {
	paths := scaffoldPaths(p.Root, p.Stack)
	for try := 0; ; try++ {
		missing, err := absent(ctx, s, paths)
		if err != nil || len(missing) == 0 {
			return nil, err
		}
		var ops []any
		for _, path := range missing {
			r := &zk.CreateRequest{Path: path, Data: []byte{}, Acl: toZK(acl)}
			switch path {
			case plan.ScaffoldPath(p.Root):
				r.Data = plan.MarkOf(newID() + newID())
			case plan.LockPath(p.Root, p.Stack):
				if r.Data, err = plan.LockPayload(p.Stack, contenders); err != nil {
					return nil, err
				}
			}
			ops = append(ops, r)
		}
		_, err = s.Multi(ctx, ops...)
		switch {
		case err == nil:
			return missing, nil
		case try < scaffoldTries && errors.Is(err, zk.ErrNodeExists), try < scaffoldTries && unknown(err):
			continue
		}
		return nil, scaffoldError(missing[0], err)
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

// absent lists the paths that are missing, in order. If the lock exists so do its ancestors,
// so the common case costs three requests. That does not prove the directory of records and the history, which are
// no ancestors.
func absent(ctx context.Context, s *recipes.Session, paths []string) ([]string, error) {
	lock, history, indexes := paths[len(paths)-1], paths[len(paths)-3], paths[len(paths)-5]
	var missing []string
	for _, known := range [][]string{{lock, history, indexes}, paths} {
		missing = nil
		ahead := s.ReadAhead(ctx, recipes.Reads{Exists: known}) // one round trip
		for _, path := range known {
			stat, err := ahead.Exists(ctx, path)
			if errors.Is(err, zk.ErrNoAuth) {
				continue // it exists, see reader.unreadable; we need not be able to read what is above the root
			}
			if err != nil {
				return nil, readError(path, err)
			}
			if stat == nil {
				missing = append(missing, path)
			}
		}
		if len(missing) == 0 {
			return nil, nil
		}
	}
	return missing, nil
}
