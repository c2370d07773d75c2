package recipes

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// prove makes the committed write that confirms a waited grant, unless one was made already. Into our own node where
// we may write it: that is what tells our successor that we are the first. It is done when that was made under the
// declaration in force; else whether we are granted under that one, the queue tells.
//
// What proves a grant. A listing that contains our contender, read behind a write of ours in the same session, is of a
// state at or after that write; in that state our node existed, so our session was alive, and every earlier contender
// it does not show was gone. Staleness can only show contenders that have left already, never hide one that is ahead.
// The write is the create itself when nobody was ahead, or one made for the purpose. A listing alone proves nothing:
// a follower cut off from its leader goes on showing a node whose session has expired (5.82 s measured).
//
// The declaration is looked at once more behind that write. Nothing in ZooKeeper compares it with our create: a lock
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
	// Where nobody would read the mark, a check of our node is as good a commit, and wakes nobody. But who holds is named.
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
			case errors.Is(err, zk.ErrNoAuth) && mark: // nor we: our successor lists, then
				mark, k.id = false, named
				continue
			case !errors.Is(err, zk.ErrBadVersion):
				return err
			}
			// Somebody wrote our node, or an earlier try of ours did without our hearing of it.
			p.unwatch()
			if err := p.readOwn(ctx); err != nil {
				return err
			}
			if p.hidden { // the version it has now is nothing we may read, nor a request to step back
				p.version = -1
			}
		}
	})
	if err == nil || errors.Is(err, ErrLost) {
		return err
	}
	return p.timedOut(ctx, err)
}

// confirm confirms all members at one moment: while one was waited for, another's node may have been deleted. A transaction
// that only checks is committed like any other, so this is the write that the grant rests on, whatever each member has
// proven for itself before. It fails as a whole when one node is gone
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
