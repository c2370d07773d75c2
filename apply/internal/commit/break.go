package commit

import (
	"context"
	"errors"
	"slices"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
)

// breakTries bounds how often the contenders of a lock that is broken are listed
// again because one came or left before the transaction was executed. This library's
// clients stay away from a draining lock; other clients do not know the state.
const breakTries = 5

// force commits the transaction, including the deletion of the contenders of the locks it breaks.
//
// Without such locks it is commit. Otherwise the contenders are deleted first in the transaction, so
// that the lock is empty when it is deleted. If others come or leave between the listing and the
// transaction, all of it is refused, and force lists again. The history goes along, and is read again in the same way.
func (r *Sender) force(ctx context.Context) (resolved bool, err error) {
	for range breakTries {
		var breaks []tx.Op
		if err = r.sweep(ctx); err != nil {
			return false, err
		}
		if breaks, err = r.contenders(ctx, r.tx.Changes); err != nil {
			return false, err
		}
		r.all = append(breaks, r.tx.Ops...)
		if tx.Size(r.all) > tx.MaxTransaction {
			large := failure.TooLarge(r.tx.Changes, r.all, false)
			large.Breaks = len(breaks)
			return false, large
		}
		notes := append(r.note(), r.first()...)
		r.all, r.notes = slices.Concat(notes, r.all), len(notes) // the record stays the last
		r.size = tx.Size(r.all)
		if resolved, err = r.commit(ctx); err == nil || !r.missed(ctx, err) && !r.overtaken(err, breaks) {
			return resolved, err
		}
	}
	return false, err
}

// first returns the operation because of which two stacks cannot both be applied to a root for the first time: it raises the version
// of the directory in which another stack had no record.
func (r *Sender) first() []tx.Op {
	if !r.Record.Absent || r.tx.Index == nil {
		return nil
	}
	return []tx.Op{{Kind: tx.OpSet, Path: kind.ParentPath(r.Record.Path), Version: r.Records}}
}

// overtaken reports whether the transaction was refused because the contenders of
// a lock that is broken were no longer those that were listed, or because of the node of a key that nobody uses since.
func (r *Sender) overtaken(err error, breaks []tx.Op) bool {
	var used *failure.InUseError
	var conflict *failure.ConflictError
	switch {
	case errors.As(err, &used):
		return slices.ContainsFunc(r.tx.Changes, func(c *plan.Change) bool { return c.Break && c.Addr == used.Addr || gone(c, used) })
	case errors.As(err, &conflict):
		return slices.ContainsFunc(breaks, func(op tx.Op) bool { return op.Path == conflict.Path })
	}
	return false
}

// gone reports whether a family is in nobody's use by now, although something was in it.
func gone(c *plan.Change, e *failure.InUseError) bool {
	return c.Addr == e.Addr && c.NeedsIdle() && c.Before.Kind().Key != nil && !e.Usage.Busy()
}

// contenders returns the deletions that break the locks of the plan, and reports whose
// they are. They are part of the transaction, so nothing is broken unless everything is
// applied.
func (r *Sender) contenders(ctx context.Context, changes []*plan.Change) (ops []tx.Op, err error) {
	for _, c := range changes {
		if !c.Break || !c.NeedsIdle() {
			continue
		}
		usage, err := read.Usage(ctx, r.Held.Session, c.Before)
		if err != nil {
			return nil, err
		}
		if !usage.Busy() {
			continue
		}
		all, err := read.Contents(ctx, r.Held.Session, c.Before)
		if err != nil {
			return nil, err
		}
		// Any version: a contender's data changes (it notes that it holds, or is asked to give the
		// lock back). The name is enough: its sequence number is used only once.
		for _, path := range all {
			ops = append(ops, tx.Op{Kind: tx.OpDelete, Addr: c.Addr, Path: path, Version: -1})
		}
		r.Held.Emit(event.Breaking{Addr: c.Addr, Path: c.Path, Usage: usage})
	}
	return ops, nil
}

// sweep deletes the nodes of keys that nobody uses from families that are to go. A crash leaves such nodes, and servers that collect
// them take their time.
//
// Each is deleted by a transaction of its own, before the one of the plan: there may be more of them than one can delete, and it does
// no harm to delete them if that one is refused.
func (r *Sender) sweep(ctx context.Context) error {
	for _, c := range r.tx.Changes {
		if !c.NeedsIdle() || c.Before.Kind().Key == nil {
			continue
		}
		if _, err := read.KeyInUse(ctx, r.Held.Session, c.Before, r.clear); err != nil {
			return err
		}
	}
	return nil
}

// clear deletes the node of a key, unless somebody has come, or it is gone.
func (r *Sender) clear(ctx context.Context, ops []tx.Op) error {
	ctx, cancel := context.WithTimeout(ctx, r.Held.Session.Timeout())
	defer cancel()
	results, err := r.Held.Lease.Multi(ctx, wire.Requests(ops)...)
	switch {
	case err == nil:
		r.Besides.Swept()
		return nil
	case failure.Overtaken(err), failure.Unknown(err):
		return nil // what is still there has the transaction refused
	}
	return r.Held.Refusal(ctx, r.Plan, ops, results, err)
}
