package recipes

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// prove makes a grant certain: it is the one step between "the queue admits us" and a lease. It makes the committed write
// that confirms the grant, unless one was made already: into our own node if we may write it, which tells our successor that
// we are the first. done is false if the declaration has changed; then the caller asks the queue again, under the new one.
//
// What proves a grant. A listing that contains our contender, read behind a write of ours in the same session, is of a
// state at or after that write; in that state our node existed, so our session was alive, and every earlier contender
// it does not show was gone. Staleness can only show contenders that have left already, never hide one that is ahead.
// The write is the create itself when nobody was ahead, or one made for the purpose. A listing alone proves nothing:
// a follower cut off from its leader goes on showing a node whose session has expired (5.82 s measured).
//
// The declaration is checked once more behind that write. Nothing in ZooKeeper compares it with our create: a lock
// can be drained or moved, seen to be idle, between the reading of one and the commit of the other. But a server tells
// a session of a change before it answers anything of a later state, so a watch that is silent behind our write says
// that the declaration we know was in force when we queued.
func (p *place) prove(ctx context.Context) (done bool, err error) {
	if err := p.confirm(ctx); err != nil {
		return false, err
	}
	if !p.d.stale() {
		return true, nil
	}
	return false, p.redeclare(ctx)
}

// confirm makes the write of prove.
func (p *place) confirm(ctx context.Context) error {
	if p.proven {
		return nil
	}
	k := p.node()
	// If nobody would read the mark, a check of our node is as good a commit, and wakes nobody. But the node must name the holder.
	mark, named := p.in.Marked || !p.named(), k.id
	err := retry(ctx, p.s, unanswered, func() error {
		for {
			var stat *zk.Stat
			var err error
			if mark {
				k.id = "" // until we know
				stat, err = p.s.Set(ctx, k.path, heldData(p.in, k.data, p.q.id()), p.version)
			} else {
				err = p.s.Confirm(ctx, k.path)
			}
			switch {
			case err == nil:
				if p.proven = true; !mark {
					return nil
				}
				k.id = p.q.id()
				return p.ours(stat)
			case isNoNode(err):
				return lostError(k.path, err)
			case errors.Is(err, zk.ErrNoAuth) && mark: // we may not write it: our successor lists
				mark, k.id = false, named
				continue
			case !errors.Is(err, zk.ErrBadVersion):
				return err
			}
			// Somebody else wrote our node, or an earlier try of ours did and its reply was lost.
			p.unwatch()
			if err := p.readOwn(ctx); err != nil {
				return err
			}
			if p.hidden { // we may read neither its version nor a request to step back
				p.version = -1
			}
		}
	})
	if err == nil || errors.Is(err, ErrLost) {
		return err
	}
	return p.timedOut(ctx, err)
}

// confirm confirms all members of a set at one moment: while one was waited for, the node of another may have been deleted.
// A transaction that only checks is committed like any other, so the grant rests on this write, whatever each member has
// proven for itself before. It fails as a whole if one node is gone
// (TestAMultiLockIsNotGrantedWithAMemberThatWentWhileAnotherWasWaitedFor).
func (a *acquisition) confirm(ctx context.Context) error {
	var paths []string
	for _, k := range a.nodes() {
		paths = append(paths, k.path)
	}
	s := a.places[0].s
	err := retry(ctx, s, unanswered, func() error { return s.Confirm(ctx, paths...) })
	if isNoNode(err) {
		return lostError(a.path, err)
	}
	return err
}
