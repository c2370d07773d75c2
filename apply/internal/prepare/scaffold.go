// Package prepare makes a tree ready for the transactions of a plan.
//
//	ground, err := prepare.Scaffold(ctx, session, p, own, own) // before the apply lock is taken
//	p, err = prepare.Widen(ctx, held, p, besides)              // under it
//	drained, err := prepare.Drain(ctx, held, p, besides)
//
// [Scaffold] creates the nodes that an apply needs, and [Widen] grants the rights that it lacks. [Drain] waits until the locks
// that are to be deleted or replaced are idle. [Scaffold] returns the paths of the nodes that it created. [Widen] and [Drain] note
// in a [refusal.Besides] what they wrote, for error messages. They note the versions that they wrote in a copy of the plan.
//
// The package relies on read for the present nodes. [Widen] and [Drain] rely on a held lock for their writes; [Scaffold] needs
// none. The package writes nothing of the plan, so an apply that ends here leaves what the next one finishes or undoes;
// [Drained.Reopen] opens the locks again.
package prepare

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

// scaffoldTries bounds how often the missing nodes are determined again because
// another apply creates them at the same time.
const scaffoldTries = 5

// Ground is what an apply knows of its own nodes before it takes the lock.
type Ground struct {
	Made    []string // the nodes that were created
	History history.Node
	Records int32 // the data version of the directory of records; only set before the stack's first apply
}

// Scaffold creates the nodes that an apply needs: the root and its ancestors, the directory of records, the history and the apply
// lock. It creates the missing ones in one transaction. The node of the apply lock gets the lock's declaration as its data. It
// returns the created paths, and the history.
//
// The lock is not held yet, so any number of applies may do this at once. Scaffold writes nothing that exists: if it finds a node
// created meanwhile, it determines again what is missing. A lost reply does no harm either: what exists then is what was wanted.
//
// The parameter acl is the access list of the created nodes. The parameter own is the list that the contenders of the lock get.
func Scaffold(ctx context.Context, s *direct.Session, p *plan.Plan, own, acl kind.List) (g *Ground, err error) {
	g = &Ground{}
	if p.Index.Absent { // another stack may have been applied since the plan
		if g.Records, err = read.Alone(ctx, s, p.Root, p.Stack); err != nil {
			return nil, err
		}
	}
	for try := 0; ; try++ {
		missing, err := g.missingPaths(ctx, s, p)
		switch {
		case err != nil:
			return nil, err
		case len(missing) == 0:
			return g, nil
		}
		var ops []any
		for _, path := range missing {
			op := &zk.CreateRequest{Path: path, Data: []byte{}, Acl: wire.ToZK(acl)}
			switch path {
			case record.ScaffoldPath(p.Root):
				op.Data = record.MarkOf(history.NewID() + history.NewID())
			case record.LockPath(p.Root, p.Stack):
				if op.Data, err = record.LockPayload(p.Stack, own); err != nil {
					return nil, err
				}
			}
			ops = append(ops, op)
		}
		_, err = s.Multi(ctx, ops...)
		switch {
		case err == nil:
			if slices.Contains(missing, g.History.Path) {
				g.History.State = history.Whole
			}
			g.Made = missing
			return g, nil
		case try < scaffoldTries && errors.Is(err, zk.ErrNodeExists), try < scaffoldTries && refusal.Unknown(err):
			continue
		}
		return nil, refusal.Scaffold(missing[0], err)
	}
}

// ScaffoldPaths lists the nodes that must exist, parents first.
func ScaffoldPaths(root, stack string) []string {
	var out []string
	for i := 1; root != "/" && i <= len(root); i++ {
		if i == len(root) || root[i] == '/' {
			out = append(out, root[:i])
		}
	}
	lock, index, history := record.LockPath(root, stack), record.IndexPath(root, stack), record.HistoryPath(root, stack)
	return append(out, record.ScaffoldPath(root), kind.ParentPath(index), kind.ParentPath(history), history, kind.ParentPath(lock), lock)
}

// missingPaths lists the paths that are missing, in order, and reads the history. If the lock exists, its ancestors also exist, so
// the common case costs three requests, in one round trip. The lock does not prove that the directory of records and the history
// exist.
func (g *Ground) missingPaths(ctx context.Context, s *direct.Session, p *plan.Plan) ([]string, error) {
	paths := ScaffoldPaths(p.Root, p.Stack)
	known := []string{record.LockPath(p.Root, p.Stack), kind.ParentPath(record.IndexPath(p.Root, p.Stack))}
	ahead := s.ReadAhead(ctx, direct.Reads{Exists: known, Get: []string{record.HistoryPath(p.Root, p.Stack)}})
	missing, err := missingOf(ctx, ahead, known)
	if err == nil {
		err = g.lookBack(ctx, ahead, p)
	}
	if err != nil || len(missing) == 0 && g.History.State != history.Absent {
		return nil, err
	}
	missing, err = missingOf(ctx, s.ReadAhead(ctx, direct.Reads{Exists: paths}), paths)
	if err == nil && g.History.State == history.Absent && !slices.Contains(missing, g.History.Path) { // another apply has created it
		err = g.lookBack(ctx, s, p)
	}
	return missing, err
}

// lookBack reads the history before the apply lock is taken: each request between the lock and the transaction gives contenders
// time to enter a lock that was idle. If the history is written meanwhile, it is read again.
func (g *Ground) lookBack(ctx context.Context, s *direct.Session, p *plan.Plan) (err error) {
	g.History, err = history.Open(ctx, s, record.HistoryPath(p.Root, p.Stack))
	return err
}

// missingOf returns the paths without a node.
func missingOf(ctx context.Context, s *direct.Session, paths []string) (missing []string, err error) {
	for _, path := range paths {
		stat, err := s.Exists(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoAuth): // this proves that the node exists, see read.reader.keepUnreadable; we need not be able to read nodes above the root
		case err != nil:
			return nil, refusal.Read(path, err)
		case stat == nil:
			missing = append(missing, path)
		}
	}
	return missing, nil
}

// Identify writes an id into .locktree if that node exists without data. A connection without the right to write it leaves that to
// others. If the outcome of the write is unknown, the next apply finds the id or writes one.
func Identify(ctx context.Context, s *direct.Session, p *plan.Plan, besides *refusal.Besides) {
	path := record.ScaffoldPath(p.Root)
	if !p.Before.Unmarked {
		return
	}
	if data, stat, err := s.Get(ctx, path); err == nil && len(data) == 0 {
		if _, err := s.Set(ctx, path, record.MarkOf(history.NewID()+history.NewID()), stat.Version); err == nil {
			besides.Add("the ensemble was given an id")
		}
	}
}
