package wait

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// serve waits until the permits are free; our node is the first at the gate. One transaction takes the permits and deletes the
// place at the gate.
//
// Callers that poll cannot keep the first waiter waiting for ever. With L declared permits it waits for at most 2L releases,
// and each waiter behind it for 2L more:
//  1. serve counts only the permits that existed when our node became the first (the map known). No other client takes permits
//     through the gate meanwhile. A client that creates permits directly finds our place in its listing and withdraws the
//     permits. So at most L of the counted permits are held.
//  2. After take, our permits wait for older permits that other clients created directly. A client that saw our place at the
//     gate withdraws its permits. Permits stay only if their client listed the gate after our transaction had deleted our
//     place. Of the permits that stay, at most L are granted.
//
// For Curator's clients see Call.look of package lock.
func (w *waiter) serve(ctx context.Context) (Grant, error) {
	permits := w.Handle.Decides().Dir(w.Handle.Path)
	var known map[string]bool
	for try := (retry.Tries{}); ; {
		if err := w.Possible(); err != nil {
			return Grant{}, err
		}
		children, change, err := znode.ChildrenCalledPersistent(ctx, w.Owner.Session, permits, w.waker())
		if znode.IsNoNode(err) && w.Node().Key != nil { // no permit exists: take creates the parent of the permits
			err, w.Node().Key.Made[1] = nil, false
		}
		if err != nil {
			return Grant{}, w.TimedOut(ctx, w.explainMisplaced(err))
		}
		line, _ := kind.SortContenders(children)
		if known == nil {
			known = map[string]bool{}
			for _, k := range line {
				known[k.Name] = true
			}
		}
		line = slices.DeleteFunc(line, func(k kind.Contender) bool { return !known[k.Name] })
		if len(line)+w.Permits <= w.Limit() {
			znode.Stop(change)
			if g, taken, err := w.take(ctx, &try); taken || err != nil {
				return g, err
			}
			continue
		}
		// line is not empty: with no permit ahead, every call up to the limit fits, and Possible refuses a larger call.
		if err = w.mayWait(permits, &Verdict{Position: len(line), first: &line[0]}); err == nil {
			w.identify(ctx)
			_, err = w.Next(ctx, change)
		}
		change.Stop()
		if err != nil {
			return Grant{}, err
		}
	}
}

// explainMisplaced explains a NoNode to a waiter at the gate.
func (w *waiter) explainMisplaced(err error) error {
	if !znode.IsNoNode(err) {
		return err
	}
	return errs.Errorf("%w, or %s lacks a child its layout needs (%v): run apply then", znode.LostError(w.Node().Path, err), w.Handle.Path, w.Handle.Kind.Children)
}

// take exchanges our place at the gate for permits, in one transaction. Then it waits among the permits: other clients may have
// created permits directly since we counted. If so, our last permit is beyond the limit until enough older permits have gone.
// If taken is false without an error, the caller looks again.
func (w *waiter) take(ctx context.Context, try *retry.Tries) (g Grant, taken bool, err error) {
	e, err := w.Opened.Entry(w.Handle.Decides())
	if err != nil {
		return Grant{}, false, err
	}
	// This check fails after any write to the declaration, because such a write may have lowered the limit.
	limit := &zk.CheckVersionRequest{Path: w.Declared.Path, Version: w.Declared.Version}
	t := &znode.Txn{Owner: w.Owner, Born: e.Nodes, Gone: w.Nodes, With: []any{limit}}
	if n := w.Node().Key; n != nil { // the key's node exists as long as our place at the gate exists
		t.With = nil // the key's own operations check the declaration of its family
		n.Family, n.Needed = w.Declared.OfFamily(), len(n.Dirs)-1
		t.Keys = append(t.Keys, n)
		for _, k := range e.Nodes {
			k.Key = n
		}
	}
	lists, err := t.RunKeyed(ctx, e.Dirs()[0])
	if t.Left != nil { // the request is abandoned: package znode deletes the place and the permits, so no goroutine can inherit them
		w.Listener.Left(t.Left)
	}
	switch {
	case err == nil:
		w.own.Unwatch() // the place at the gate is gone; from here on the last permit waits
		w.Listener.GoesOn(e)
		if err := t.Admits(ctx); err != nil {
			return Grant{}, true, err
		}
		if err := e.Exhausted(); err != nil {
			return Grant{}, true, err
		}
		among := e.Waiter()
		among.queued = true
		defer among.End()
		g, err := among.wait(ctx, lists)
		return g, true, err
	case znode.IsNoNode(err):
		return Grant{}, false, w.explainMisplaced(err)
	case errors.Is(err, zk.ErrBadVersion):
		w.Reader.Outdated(w.Declared) // usually the watch has fired before this answer; if its event was lost, renew reads again because of this call
		return Grant{}, false, w.renew(ctx)
	}
	worth := func(err error) bool { return znode.DidNothing(err) || errors.Is(err, session.ErrThrottled) }
	if try.Over(ctx, w.Owner.Session, worth, &err) {
		return Grant{}, false, w.TimedOut(ctx, err)
	}
	return Grant{}, false, nil
}
