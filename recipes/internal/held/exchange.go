package held

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
)

// Exchange replaces the lock of l by another: one transaction deletes the old node and creates the new one. The function node
// prepares the new node, and the function grant makes the new grant from it. After an error l is held as before if no server can
// execute the transaction any more. Otherwise l has ended.
func (l *Use) Exchange(ctx context.Context, node func() (*znode.Node, error), grant func(*znode.Node) (Grant, Listener)) (*Use, error) {
	if err := l.Alone(); err != nil {
		return nil, err
	}
	old := l.H
	// The old lock is still held, and heartbeats go on. If a heartbeat finds the old node gone, sessionSays ignores that.
	old.stopWatching() // from here on we change the node ourselves
	next, err := old.swap(ctx, node)
	if err == nil {
		g, told := grant(next)
		return l.replace(ctx, g, told)
	}
	switch {
	case znode.IsNoNode(err):
		old.Lose(err)
	case errors.Is(err, znode.ErrNotApplied):
		// A slow server may still execute the transaction: see Txn.resolve of package znode. The transaction fails once the old
		// node is gone, so delete the old node.
		old.Lose(fmt.Errorf("an exchange for another lease may still be executed: %w", err))
	case session.OutcomeOf(err) == session.OutcomeUnknown:
		// Both nodes are being deleted by now (Txn.abandon), so neither lease would last.
		old.Lose(fmt.Errorf("whether it was exchanged for another lease is unknown: %w", err))
	default:
		old.mu.Lock()
		step(holdMoves, &old.state, held) // no move if the lock was given back meanwhile
		old.mu.Unlock()
		old.startWatching()
		return nil, err
	}
	return nil, l.Ended()
}

// Alone checks that l is held and not entered again, and reserves its lock for an exchange.
func (l *Use) Alone() error {
	h := l.H
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := l.endedLocked(); err != nil {
		return err
	}
	if h.leases > 1 {
		return fmt.Errorf("recipes: %s was entered %d times; give the inner leases back first", h.Of.Path(), h.leases)
	}
	if !step(holdMoves, &h.state, exchanging) { // from here on the loss of the old node does not end the lock
		return fmt.Errorf("recipes: %s is being exchanged by another call of Downgrade", h.Of.Path())
	}
	return nil
}

// swap exchanges our node for another with the same number. It repeats a try that had no effect. Its error matches ErrNotApplied
// if any try failed with that.
func (h *Lock) swap(ctx context.Context, node func() (*znode.Node, error)) (next *znode.Node, err error) {
	k := h.nodes[0]
	var unapplied error // the error of the first try with ErrNotApplied
	err = retry.Do(ctx, h.owner.Session, znode.DidNothing, func() error {
		if next, err = node(); err != nil {
			return err
		}
		// The new node has the same number, so it has our place in the queue, also for clients that listed the queue before. The
		// writers behind it wait for a reader now, and the readers behind it are admitted.
		next.Flags, next.Digits = zk.FlagEphemeral, k.Name[len(k.Prefix):]
		next.Key = k.Key
		next.Work.Store(&h.work)
		_, err = (&znode.Txn{Owner: h.owner, Born: []*znode.Node{next}, Gone: []*znode.Node{k}}).Run(ctx)
		if errors.Is(err, znode.ErrNotApplied) {
			unapplied = cmp.Or(unapplied, err)
		}
		return err
	})
	if err != nil && unapplied != nil && !errors.Is(err, znode.ErrNotApplied) {
		err = errs.Errorf("%w; before that: %w", err, unapplied)
	}
	return next, err
}

// replace ends l and hands out a use of the new lock. The new lock is held before l ends, so the session heartbeats throughout.
func (l *Use) replace(ctx context.Context, g Grant, told Listener) (*Use, error) {
	old := l.H
	g.was = old
	now, err := Hold(ctx, g, told)
	old.stopWatching() // its node is gone: we deleted it
	if err != nil {
		l.release()
	} else {
		l.become(now)
	}
	if old.finish(fmt.Errorf("%w: %s, exchanged for another lease", ErrReleased, old.Of.Path()), false) != over {
		old.close(nil, nil)
	}
	if err != nil {
		_ = znode.Drop(ctx, g.Nodes, func() {}) // if the delete takes long, it goes on in the background
		return nil, err
	}
	return now, nil
}
