package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// possible refuses more permits than are declared. A waiter asks whenever it is not admitted (see ahead): the number may have
// been lowered, and its place, or permits of its own that were not granted, would keep everybody else out.
func (t *terms) possible() error {
	if t.n == 0 {
		return nil
	}
	if most := t.limit(); t.n > most {
		return fmt.Errorf("%w: semaphore %s: %d permits asked for, %d are declared", ErrTooManyPermits, t.q.Path, t.n, most)
	}
	return nil
}

func (t *terms) limit() int { return t.q.Kind.Permits(t.d.Params) }

// serve waits, as the first at the gate, until the permits are free, and takes them in the transaction that gives the place up.
//
// Why callers that poll cannot keep the first waiting. It counts the permits that exist when it becomes the first, and none
// that are created later: nobody else takes permits through the gate meanwhile, and a client that creates some directly finds
// our place in its listing and withdraws them. So of L declared permits it waits for at most L that are held; the others are
// being withdrawn. After take it waits for direct permits older than ours. Those are being withdrawn too, unless their listing
// was read behind our transaction, which deletes our place: then at most L are granted. So the first waits for 2L releases at
// most, and each waiter behind it for that many more. For Curator's clients see look.
func (w *waiter) serve(ctx context.Context) (grant, error) {
	permits := w.q.decides().Dir(w.q.Path)
	var known map[string]bool
	for try := (znode.Tries{}); ; {
		if err := w.possible(); err != nil {
			return grant{}, err
		}
		children, change, err := znode.ChildrenCalledPersistent(ctx, w.s.S, permits, w.waker())
		if znode.IsNoNode(err) && w.key() != nil { // nobody holds one: take makes it
			err, w.key().Made[1] = nil, false
		}
		if err != nil {
			return grant{}, w.timedOut(ctx, w.misplaced(err))
		}
		line, _ := kind.SortContenders(children)
		if known == nil {
			known = map[string]bool{}
			for _, k := range line {
				known[k.Name] = true
			}
		}
		line = slices.DeleteFunc(line, func(k kind.Contender) bool { return !known[k.Name] })
		if len(line)+w.n <= w.limit() {
			znode.Stop(change)
			if g, taken, err := w.take(ctx, &try); taken || err != nil {
				return g, err
			}
			continue
		}
		// line is not empty: if it were, n would be more than the limit, which possible has refused.
		if err = w.behind(permits, &verdict{position: len(line), first: &line[0]}); err == nil {
			w.identify(ctx)
			_, err = w.next(ctx, change)
		}
		change.Stop()
		if err != nil {
			return grant{}, err
		}
	}
}

// misplaced says what a NoNode means to who has a place at the gate.
func (w *waiter) misplaced(err error) error {
	if !znode.IsNoNode(err) {
		return err
	}
	return fmt.Errorf("%w, or %s lacks a child its layout needs (%v): run apply then", znode.LostError(w.node().Path, err), w.q.Path, w.q.Kind.Children)
}

// take makes that transaction, and waits on among the permits: others may have created permits directly since we counted. Then
// the last of ours is beyond the limit until enough older ones have gone. If it returns neither taken nor an error, look again.
func (w *waiter) take(ctx context.Context, try *znode.Tries) (g grant, taken bool, err error) {
	e, err := w.terms.entry(w.q.decides())
	if err != nil {
		return grant{}, false, err
	}
	// Any write to the declaration fails this: the limit may have been lowered.
	limit := &zk.CheckVersionRequest{Path: w.d.Path, Version: w.d.Version}
	t := &znode.Txn{E: w.s, Born: e.nodes, Gone: w.nodes, With: []any{limit}}
	if n := w.key(); n != nil { // it exists, as long as our place at the gate does
		t.With = nil // the check is the key's
		n.Of, n.Need = w.d.OfFamily(), len(n.Dirs)-1
		t.Keys = append(t.Keys, n)
		for _, k := range e.nodes {
			k.Key = n
		}
	}
	lists, err := t.RunKeyed(ctx, e.dirs()[0])
	if t.Left != nil { // abandoned: the background deletes the place and the permits, and nobody can inherit it
		w.up.Left(t.Left)
	}
	switch {
	case err == nil:
		w.own.Unwatch() // the place at the gate is gone; from here on the last permit waits
		w.up.GoesOn(e)
		if err := t.Admits(ctx); err != nil {
			return grant{}, true, err
		}
		if err := e.exhausted(); err != nil {
			return grant{}, true, err
		}
		among := e.waiter()
		among.queued = true
		defer among.end()
		g, err := among.wait(ctx, lists)
		return g, true, err
	case znode.IsNoNode(err):
		return grant{}, false, w.misplaced(err)
	case errors.Is(err, zk.ErrBadVersion):
		w.decl.Outdated(w.d) // its event precedes this answer, unless it was lost
		return grant{}, false, w.renew(ctx)
	}
	worth := func(err error) bool { return znode.DidNothing(err) || errors.Is(err, session.ErrThrottled) }
	if try.Over(ctx, w.s.S, worth, &err) {
		return grant{}, false, w.timedOut(ctx, err)
	}
	return grant{}, false, nil
}
