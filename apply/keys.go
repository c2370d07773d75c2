package apply

import (
	"context"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
)

// sweep deletes the nodes of keys that nobody uses from families that are to go. A crash leaves such nodes, and servers that collect
// them take their time.
//
// Each is deleted by a transaction of its own, before the one of the plan: there may be more of them than one can delete, and it does
// no harm to delete them if that one is refused.
func (r *sending) sweep(ctx context.Context) error {
	for _, c := range r.tx.Changes {
		if !c.NeedsIdle() || c.Before.Kind().Key == nil {
			continue
		}
		if _, err := read.KeyInUse(ctx, r.s, c.Before, r.clear); err != nil {
			return err
		}
	}
	return nil
}

// clear deletes the node of a key, unless somebody has come, or it is gone.
func (r *locked) clear(ctx context.Context, ops []plan.Op) error {
	ctx, cancel := context.WithTimeout(ctx, r.s.Timeout())
	defer cancel()
	results, err := r.lease.Multi(ctx, wire.Requests(ops)...)
	switch {
	case err == nil:
		r.swept.Add(1)
		return nil
	case failure.Overtaken(err), failure.Unknown(err):
		return nil // what is still there has the transaction refused
	}
	return r.refusal(ctx, ops, results, err)
}
