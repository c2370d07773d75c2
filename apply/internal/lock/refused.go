package lock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// Explain turns the answer to one operation of the transaction into an error
// that names the change, says what the answer means and what to do.
//
// If the answer means that the plan no longer fits, the error is a [*failure.ConflictError] or an
// [*failure.InUseError], and a new plan helps. All others are about rights and servers, where it does not.
func (h *Held) Explain(ctx context.Context, p *plan.Plan, op tx.Op, err error) error {
	conflict := func(why string) error {
		return &failure.ConflictError{Addr: op.Addr, Path: op.Path, Op: op.Kind, Why: why, Err: err}
	}
	switch {
	case errors.Is(err, zk.ErrNotEmpty):
		return h.occupied(ctx, p, op, err)
	case errors.Is(err, zk.ErrBadVersion):
		if op.Path == kind.ParentPath(p.Index.Path) { // see sending.first
			if _, other := read.Alone(ctx, h.Session, p.Root, p.Stack); other != nil {
				return other
			}
		}
		return conflict("its data was changed")
	case errors.Is(err, zk.ErrNodeExists):
		return conflict("it was created by somebody else")
	case errors.Is(err, zk.ErrNoNode) && op.Kind == tx.OpCreate:
		return conflict("its parent was deleted")
	case errors.Is(err, zk.ErrNoNode):
		return conflict("it was deleted")
	}
	return refusal.Denied(h.Client, op, err)
}

// occupied is the error when a node to be deleted has children. In a lock that is a contender that
// came after we had looked.
func (h *Held) occupied(ctx context.Context, p *plan.Plan, op tx.Op, err error) error {
	for c := range p.Each() {
		if !About(c, op.Addr, op.Path) || c.Before == nil || c.Before.Kind().Container {
			continue
		}
		usage, _ := read.Usage(ctx, h.Session, c.Before) // without it the error only lacks the names
		return failure.InUseBy(usage, c)
	}
	return &failure.ConflictError{Addr: op.Addr, Path: op.Path, Op: op.Kind, Why: "something was created in it", Err: err}
}

// About reports whether a path belongs to this change: its node or one of the parts. The
// address is not enough: a lock whose path changes has it at both paths.
func About(c *plan.Change, addr plan.Addr, path string) bool {
	parent := kind.ParentPath(path)
	return c.Addr == addr && (path == c.Path || parent == c.Path)
}

// Refusal is the error of a transaction that was certainly not committed. Its operations are short.
func (h *Held) Refusal(ctx context.Context, p *plan.Plan, ops []tx.Op, results []zk.MultiResponse, err error) error {
	if op, refused := refusal.FirstRefused(results, ops); refused {
		// err is this answer too, in words: go-zookeeper has none for some of its codes.
		return h.Explain(ctx, p, op, err)
	}
	if errors.Is(err, recipes.ErrLost) || errors.Is(err, recipes.ErrSessionLost) {
		return refusal.Lock(h.Lease.Path(), err)
	}
	return refusal.Commit(p.Root, err)
}
