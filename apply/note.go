package apply

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
)

// entry is what the history will have of the apply.
func (r *job) entry() history.Entry {
	c := r.p.Summary()
	e := r.x.opts.Author.Entry(r.x.client, "apply", r.start)
	switch {
	case r.p.Destroy:
		e.Operation = "destroy"
	case c.Import > 0 && c == plan.Counts{Import: c.Import, Change: c.Change}:
		e.Operation = "import"
	}
	e.ID, e.Plan, e.Changes = r.id, r.p.Sum(), &history.Changes{Add: c.Add, Change: c.Change, Destroy: c.Destroy, Import: c.Import, Forget: c.Forget}
	return e
}

// lookBack reads the history, before the apply lock is taken: the less lies between that and the transaction, the fewer come into a lock
// that was idle. If it is written meanwhile, it is read again.
func (r *job) lookBack(ctx context.Context, s *recipes.Session) (err error) {
	r.history, err = history.Open(ctx, s, plan.HistoryPath(r.p.Root, r.p.Stack))
	return err
}

// note returns the operation that writes the history. Others write it without the apply lock; the version makes the transaction fail
// then, and it is sent again with what they wrote.
func (r *sending) note() []plan.Op {
	entry := r.entry
	entry.Unfinished = !r.tx.Last
	ops := r.history.Note(entry)
	if r.noted = nil; ops != nil {
		r.noted = &entry
	}
	return ops
}

// missed reports whether a transaction was refused because of the history, and may be sent again.
func (r *sending) missed(ctx context.Context, err error) bool {
	var conflict *failure.ConflictError
	var node *failure.NodeError
	switch h := &r.history; {
	case r.noted == nil:
		return false
	case errors.As(err, &conflict) && conflict.Path == h.Path:
		return r.lookBack(ctx, r.s) == nil
	case errors.As(err, &node) && node.Path == h.Path && errors.Is(err, zk.ErrNoAuth):
		h.State = history.Closed
	case errors.Is(err, plan.ErrTooLong) && !r.tx.Divisible && h.State == history.Whole && 4*plan.Size(r.all[:r.notes]) > r.size: // else it is not why
		h.State = history.Short
	default:
		return false
	}
	return true
}

// written goes on from a transaction that was committed.
func (r *sending) written() {
	if r.noted != nil {
		r.history.Wrote(r.all[0].Data)
	}
}
