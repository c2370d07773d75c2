package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// permits takes the permits of one semaphore: directly if no goroutine of this client waits, else with the ticket of the local
// queue and through the gate. The ticket is passed on once the permits are ours: many goroutines of one client hold permits.
func (a *acquisition) permits(ctx context.Context) (*holding, error) {
	q, st := a.members[0].q, &a.c.state
	if a.try {
		if ahead := st.turns.Owner(ctx, q.localKey()); ahead != nil {
			return nil, a.heldLocally(ctx, q, ahead)
		}
		return a.direct(ctx)
	}
	if !st.turns.Taken(q.localKey()) {
		h, err := a.direct(ctx)
		if !errors.Is(err, ErrHeld) {
			return h, err
		}
		// Somebody was first: from here on the local queue and the gate keep the order.
	}
	t, err := a.enter(ctx, q)
	if err != nil {
		return nil, err
	}
	h, err := a.contend(ctx, t)
	if err == nil {
		st.turns.Leave(q.localKey())
	}
	return h, err
}

// direct takes the permits at once, in one transaction, if they are free; else it fails with ErrHeld. It tries again while a try
// has done nothing, in the next session if need be. Once the nodes exist there is one try: whatever ends one ends all.
func (a *acquisition) direct(ctx context.Context) (h *holding, err error) {
	defer a.asked()
	var arrived []arrival
	err = znode.Retry(ctx, nil, znode.DidNothing, func() error {
		arrived, err = a.create(ctx)
		return err
	})
	var ahead error
	if err == nil {
		ahead, err = a.atOnce(ctx, arrived)
	}
	if err = cmp.Or(err, ahead); err == nil {
		h, err = a.hold(ctx, grant{entries: a.entries})
	}
	if err != nil {
		return nil, a.giveUp(ctx, err)
	}
	return h, nil
}

// create makes the nodes of the permits, unless they are known not to be free.
func (a *acquisition) create(ctx context.Context) ([]arrival, error) {
	all, err := a.open(ctx, nil)
	if err != nil {
		return nil, err
	}
	t := &all[0]
	if err = t.ask(ctx); err == nil {
		err = t.look(ctx)
	}
	if err != nil {
		return nil, znode.NotQueued(t.timedOut(ctx, err))
	}
	e, err := t.entry(t.q.decides())
	if err != nil {
		return nil, err
	}
	return a.join(ctx, e)
}

// atOnce says who is ahead of what was just created; nobody if it was granted at once. A listing that was lost with its connection
// is read again: a later one shows everybody who is still ahead, and our places as long as they exist.
//
// The order of the permits alone keeps a semaphore's limit. A permit is granted when, in a listing behind its creation,
// fewer than the limit are older. Take all permits held at some moment, and the newest of them: the others are older and
// were in the listing that granted it, so they were fewer than the limit. The gate is looked at for fairness only: a place
// given up between our create and our listing leaves no trace.
func (a *acquisition) atOnce(ctx context.Context, arrived []arrival) (ahead, err error) {
	opened := make([]*terms, len(arrived))
	for i, at := range arrived {
		if err := at.exhausted(); err != nil {
			return nil, err
		}
		opened[i] = at.terms
	}
	// Behind the transaction and before the listings are judged: a limit lowered before our permits were created counts.
	if err := obey(ctx, opened...); err != nil {
		return nil, err
	}
	for i := range arrived {
		if err := arrived[i].relist(ctx); err != nil {
			return nil, arrived[i].timedOut(ctx, a.halfMade(err))
		}
	}
	for _, at := range arrived {
		if ahead := at.granted(); ahead != nil {
			return ahead, nil
		}
	}
	return nil, nil
}

// relist reads listings that were shared in a crowd, lost with their connection, or cut off from the create by it. The gate may be
// missing: another program makes the layout now, or Curator's, a container, was reaped.
func (a *arrival) relist(ctx context.Context) error {
	if a.lists != nil {
		return nil
	}
	return znode.Retry(ctx, a.e.S, znode.DidNothing, func() (err error) {
		if a.permits() {
			a.lists, err = a.listed(ctx)
		} else {
			a.lists, err = znode.ListAllAgain(ctx, a.e.S, a.dirs(), a.d.OfKey())
		}
		return a.q.Complete(ctx, a.e.S, err)
	})
}

// granted returns nil if the place was granted when it was created, else who is in the way. The create before the listings is
// the committed write that proves the grant: see prove.
func (a *arrival) granted() error {
	// The last of a transaction's permits decides: they have consecutive numbers.
	var v verdict
	err := v.decide(a.in, a.d.Params, a.lists[0], a.node().Name)
	a.seen(&v)
	var waiting []kind.Contender
	if a.permits() {
		waiting, _ = kind.SortContenders(a.lists[1])
	}
	held := err != nil || !v.granted || len(waiting) > 0
	if a.permits() {
		a.crowd().busy.Store(held)
	}
	if !held {
		return nil
	}
	line, _ := kind.SortContenders(a.lists[0])
	return a.heldBy(line[:max(0, v.position+1-len(a.nodes))], waiting)
}

// look refuses permits without creating any, if those created directly were refused the last time. So a caller that polls
// a busy semaphore reads, and writes nothing: a permit that is created only to be withdrawn is in the way of Curator's
// clients, which count every permit there is, and of everybody else's tries. The first try after that costs one round trip
// more.
//
// Once a waiter has a place at the gate, a client creates such permits in the calls that are under way and in one more: the
// listing of that one shows the place, and so does every later look of that session.
func (t *terms) look(ctx context.Context) error {
	if !t.crowd().busy.Load() {
		return nil
	}
	// Not a listing that began before the call: the caller may have released permits meanwhile.
	lists, err := t.listWithOthers(ctx, func(*listing) bool { return false })
	if err != nil {
		if znode.IsNoNode(err) { // the create reports what the layout lacks
			err = nil
		}
		return err
	}
	permits, _ := kind.SortContenders(lists[0])
	waiting, _ := kind.SortContenders(lists[1])
	if len(permits)+t.n > t.limit() || len(waiting) > 0 {
		return t.heldBy(permits, waiting)
	}
	return nil
}

// heldBy is the error of a try that these contenders and waiters are ahead of.
func (t *terms) heldBy(line, waiting []kind.Contender) error {
	if err := t.possible(); err != nil { // any more
		return err
	}
	t.position = len(line) + len(waiting)
	switch {
	case len(line) > 0:
		t.holder = &rival{Contender: line[0], dir: t.q.decides().Dir(t.q.Path)}
	case len(waiting) > 0:
		t.holder = &rival{Contender: waiting[0], dir: t.q.entrance().Dir(t.q.Path)}
	}
	return t.held()
}

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
		children, change, err := znode.ChildrenCalledPersistent(ctx, w.e.S, permits, w.waker())
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
	t := &znode.Txn{E: w.e.Session, Born: e.nodes, Gone: w.nodes, With: []any{limit}}
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
		w.a.left, w.a.entries = append(w.a.left, t.Left), nil
	}
	switch {
	case err == nil:
		w.own.Unwatch() // the place at the gate is gone; from here on the last permit waits
		w.a.entries = []*entry{e}
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
		w.e.decl.Outdated(w.d) // its event precedes this answer, unless it was lost
		return grant{}, false, w.renew(ctx)
	}
	worth := func(err error) bool { return znode.DidNothing(err) || errors.Is(err, session.ErrThrottled) }
	if try.Over(ctx, w.e.S, worth, &err) {
		return grant{}, false, w.timedOut(ctx, err)
	}
	return grant{}, false, nil
}
