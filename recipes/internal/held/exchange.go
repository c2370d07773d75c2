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

// Exchange replaces the lock of l by another one, whose node node makes and which it has in the same transaction. grant completes what the new
// lock is. With an error l is held as before if no server can execute the transaction any more, else it has ended.
func (l *Use) Exchange(ctx context.Context, node func() (*znode.Node, error), grant func(*znode.Node) (Grant, Listener)) (*Use, error) {
	if err := l.Alone(); err != nil {
		return nil, err
	}
	old := l.H
	// It is still held, and heartbeats go on; sessionSays ignores a node that they find gone meanwhile.
	old.stopWatching() // what happens to the node now is our doing
	next, err := old.swap(ctx, node)
	if err == nil {
		g, told := grant(next)
		return l.replace(ctx, g, told)
	}
	switch {
	case znode.IsNoNode(err):
		old.Lose(err)
	case errors.Is(err, znode.ErrNotApplied):
		// A slow server may execute it all the same: see resolve. It fails once the old node is gone.
		old.Lose(fmt.Errorf("an exchange for another lease may still be executed: %w", err))
	case session.OutcomeOf(err) == session.OutcomeUnknown:
		// Both nodes are being deleted by now (txn.abandon), so neither lease would last.
		old.Lose(fmt.Errorf("whether it was exchanged for another lease is unknown: %w", err))
	default:
		old.resumed()
		return nil, err
	}
	return nil, l.Ended()
}

// Alone checks that l is held, and not entered again. Then it is its caller's to exchange, and nobody else's.
func (l *Use) Alone() error {
	h := l.H
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := l.over(); err != nil {
		return err
	}
	if h.leases > 1 {
		return fmt.Errorf("recipes: %s was entered %d times; give the inner leases back first", h.Of.Path(), h.leases)
	}
	if !h.state.to(exchanging) { // an Unlock that comes from here on hands it on to nobody
		return fmt.Errorf("recipes: %s is being exchanged by another call of Downgrade", h.Of.Path())
	}
	return nil
}

// swap exchanges our node for another one of the same number, again as long as a try has done nothing. Its error is
// ErrNotApplied if that was said of any of the tries.
func (h *Lock) swap(ctx context.Context, node func() (*znode.Node, error)) (next *znode.Node, err error) {
	k := h.nodes[0]
	var unapplied error // what was said of the first such try
	err = retry.Do(ctx, h.owner.Session, znode.DidNothing, func() error {
		if next, err = node(); err != nil {
			return err
		}
		// Our own place, also to those who have listed the queue already: the writers behind find a reader where
		// they were to wait for a writer, the readers behind are let in.
		next.Flags, next.Digits = zk.FlagEphemeral, k.Name[len(k.Prefix):]
		next.Key = k.Key
		inUse := h.inUse
		next.InUse.Store(&inUse)
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

// replace ends l and hands out a use of another lock, whose nodes exist. That is held before l is let go: the session is never
// without a hold in between, and so never without heartbeats.
func (l *Use) replace(ctx context.Context, g Grant, told Listener) (*Use, error) {
	old := l.H
	g.was = old
	now, err := Hold(ctx, g, told)
	old.stopWatching() // its node is gone, by our own hand
	if err != nil {
		l.release()
	} else {
		l.become(now)
	}
	if old.finish(fmt.Errorf("%w: %s, exchanged for another lease", ErrReleased, old.Of.Path()), false) != over {
		old.close(nil, nil)
	}
	if err != nil {
		_ = znode.Drop(ctx, g.Nodes, func() {}) // goes on in the background if it must
		return nil, err
	}
	return now, nil
}
