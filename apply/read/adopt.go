package read

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
)

// adopt completes what was read of nodes that are to be imported: as they say
// nothing about themselves, the declaration says what their children mean.
//
// A contender of a semaphore stands in another place than one of a mutex: without a kind,
// children are only children. A node that was let go still has its own declaration, and that
// counts, as its users go by it.
func (r *reader) adopt(ctx context.Context, desired *plan.Tree) error {
	for _, imp := range desired.Intent.Imports {
		n := r.seen[imp.Path]
		if n == nil || r.ours(n) {
			continue
		}
		as := n.Payload
		if want := desired.Find(imp.Path); as == nil && want != nil {
			as = want.Payload
		}
		if as == nil {
			continue
		}
		acl, _, err := r.s.GetACL(ctx, imp.Path)
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
			continue
		case err != nil:
			return failure.Read(imp.Path, err)
		}
		n.ACL = wire.FromZK(acl)
		if as.Params.Kind().Container { // it must not be another stack's root
			if _, err := Alone(ctx, r.s, imp.Path, r.tree.Stack); err != nil {
				return err
			}
			continue
		}
		// On a copy: the node itself must not get the payload, which would make it somebody's.
		live := *n.Live
		tmp := &plan.Node{Path: imp.Path, Payload: as, Live: &live}
		if err := r.use(ctx, r.s, tmp); err != nil {
			return err
		}
		n.Live = tmp.Live
	}
	return nil
}
