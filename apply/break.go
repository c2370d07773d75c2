package apply

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// breakTries bounds how often the contenders of a lock that is broken are listed
// again because one came or went before the transaction did. Ours stay away from
// a draining lock; other clients do not know of it.
const breakTries = 5

// force commits the transaction, with the places of those in the locks it breaks.
//
// Without breaks it is commit. With them, the deletions of the contenders come first in the
// transaction, so that the lock is empty when it is deleted. Between the listing and the
// transaction others may come or leave: the whole of it is refused then, and listed anew.
func (r *sending) force(ctx context.Context) (resolved bool, err error) {
	for range breakTries {
		var breaks []plan.Op
		if breaks, err = r.contenders(ctx, r.tx.Changes); err != nil {
			return false, err
		}
		r.all = append(breaks, r.tx.Ops...)
		r.size = plan.Size(r.all)
		if r.size > MaxBytes {
			return false, tooLarge(r.tx.Changes, r.all, false)
		}
		resolved, err = r.commit(ctx)
		if err == nil || !r.overtaken(err, breaks) {
			return resolved, err
		}
	}
	return false, err
}

// overtaken reports whether the transaction was refused because the contenders of
// a lock that is broken were not those that were listed.
func (r *sending) overtaken(err error, breaks []plan.Op) bool {
	var used *InUseError
	var conflict *ConflictError
	switch {
	case errors.As(err, &used):
		return slices.ContainsFunc(r.tx.Changes, func(c *plan.Change) bool { return c.Break && c.Addr == used.Addr })
	case errors.As(err, &conflict):
		return slices.ContainsFunc(breaks, func(op plan.Op) bool { return op.Path == conflict.Path })
	}
	return false
}

// contenders lists the deletions that break the locks of the plan, and says whose
// places these are. The transaction carries them, so nothing is broken unless all
// is applied.
func (r *locked) contenders(ctx context.Context, changes []*plan.Change) (ops []plan.Op, err error) {
	for _, c := range changes {
		if !c.Break || !c.NeedsIdle() {
			continue
		}
		usage, err := readUsage(ctx, r.s, c.Before)
		if err != nil {
			return nil, err
		}
		if !usage.Busy() {
			continue
		}
		for _, dir := range directories(c) {
			names, _, err := r.s.Children(ctx, dir)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return nil, readError(dir, err)
			}
			// Any version: contenders write their own data (since when they hold, that they are asked
			// back). The name is enough: the sequence number in it is given out once.
			for _, name := range without(names, partNames(c, dir)) {
				ops = append(ops, plan.Op{Kind: plan.OpDelete, Addr: c.Addr, Path: kind.JoinPath(dir, name), Version: -1})
			}
		}
		r.emit(Breaking{Addr: c.Addr, Path: c.Path, Usage: usage})
	}
	return ops, nil
}

// directories are where the contenders of a lock stand.
func directories(c *plan.Change) []string {
	out := []string{c.Path}
	for _, part := range c.Before.Live.Parts {
		if !part.Absent {
			out = append(out, kind.JoinPath(c.Path, part.Name))
		}
	}
	return out
}

func partNames(c *plan.Change, dir string) (names []string) {
	if dir == c.Path {
		for _, part := range c.Before.Live.Parts {
			names = append(names, part.Name)
		}
	}
	return names
}
