package recipes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// permits takes the permits of one semaphore: directly if no goroutine of this client waits, else with the ticket of the local
// queue and through the gate. The ticket is passed on once the permits are ours: many goroutines of one client hold permits.
func (a *acquisition) permits(ctx context.Context) (*holding, error) {
	q, st := a.members[0].q, &a.c.state
	if a.try {
		if held := st.ticketOwner(ctx, q.localKey()); held != nil {
			return nil, a.heldLocally(q, held)
		}
		return a.direct(ctx)
	}
	if !st.taken(q.localKey()) {
		h, err := a.direct(ctx)
		if !errors.Is(err, ErrHeld) {
			return h, err
		}
		// Somebody was first: from here on the local queue and the gate keep the order.
	}
	t, err := a.enter(ctx, q, nil)
	if err != nil {
		return nil, err
	}
	h, err := a.contend(ctx, t)
	if err == nil {
		st.leave(q.localKey())
	}
	return h, err
}

// direct takes the permits at once, in one transaction, if they are free; else it fails with ErrHeld. It tries again while a try
// has done nothing, in the next session if need be. Once the nodes exist there is one try: whatever ends one ends all.
func (a *acquisition) direct(ctx context.Context) (h *holding, err error) {
	defer a.asked()
	err = retry(ctx, nil, didNothing, func() error { return a.create(ctx) })
	var ahead error
	if err == nil {
		ahead, err = a.atOnce(ctx)
	}
	if err = cmp.Or(err, ahead); err == nil {
		h, err = a.hold(ctx)
	}
	if err != nil {
		return nil, a.giveUp(ctx, err)
	}
	return h, nil
}

// create makes the nodes of the permits, unless they are known not to be free.
func (a *acquisition) create(ctx context.Context) error {
	places, err := a.open(ctx, nil)
	if err != nil {
		return err
	}
	p := places[0]
	if err = p.ask(ctx); err == nil {
		err = p.look(ctx)
	}
	if err != nil {
		return notQueued(p.timedOut(ctx, err))
	}
	if err := p.prepare(p.q.decides()); err != nil {
		return err
	}
	return a.join(ctx, places)
}

// atOnce says who is ahead of what was just created; nobody if it was granted at once. A listing that was lost with its connection
// is read again: a later one shows everybody who is still ahead, and our places as long as they exist.
//
// The order of the permits alone keeps a semaphore's limit. A permit is granted when, in a listing behind its creation,
// fewer than the limit are older. Take all permits held at some moment, and the newest of them: the others are older and
// were in the listing that granted it, so they were fewer than the limit. The gate is looked at for fairness only: a place
// given up between our create and our listing leaves no trace.
func (a *acquisition) atOnce(ctx context.Context) (ahead, err error) {
	for _, p := range a.places {
		if err := p.exhausted(); err != nil {
			return nil, err
		}
	}
	// Behind the transaction and before the listings are judged: a limit lowered before our permits were created counts.
	if err := obey(ctx, a.places...); err != nil {
		return nil, err
	}
	for _, p := range a.places {
		if p.lists == nil { // shared in a crowd; lost with its connection, or cut off from the create by it
			// The gate may be missing: another program makes the layout now, or Curator's, a container, was reaped.
			err := retry(ctx, p.s, didNothing, func() (err error) {
				if p.permits() {
					p.lists, err = p.listed(ctx)
				} else {
					p.lists, err = listAllAgain(ctx, p.s, p.dirs()...)
				}
				return p.q.complete(ctx, p.s, err)
			})
			if err != nil {
				return nil, p.timedOut(ctx, a.halfMade(err))
			}
			p.proven = true
		}
	}
	for _, p := range a.places {
		if ahead := p.granted(); ahead != nil {
			return ahead, nil
		}
	}
	return nil, nil
}

// granted returns nil if the place was granted when it was created, else who is in the way. The create before the listings is
// the committed write that proves the grant: see prove.
func (p *place) granted() error {
	// The last of a transaction's permits decides: they have consecutive numbers.
	var v verdict
	err := v.decide(p.in, p.d.params, p.lists[0], p.node().name)
	var waiting []kind.Contender
	if p.permits() {
		waiting, _ = kind.SortContenders(p.lists[1])
	}
	held := err != nil || !v.granted || len(waiting) > 0
	if p.permits() {
		p.d.crowd.busy.Store(held)
	}
	if !held {
		return nil
	}
	line, _ := kind.SortContenders(p.lists[0])
	return p.heldBy(line[:max(0, v.position+1-len(p.nodes))], waiting)
}

// look refuses permits without creating any, if those created directly were refused the last time. So a caller that polls
// a busy semaphore reads, and writes nothing: a permit that is created only to be withdrawn is in the way of Curator's
// clients, which count every permit there is, and of everybody else's tries. The first try after that costs one round trip
// more.
//
// Once a waiter has a place at the gate, a client creates such permits in the calls that are under way and in one more: the
// listing of that one shows the place, and so does every later look of that session.
func (p *place) look(ctx context.Context) error {
	if !p.d.crowd.busy.Load() {
		return nil
	}
	// Not a listing that began before the call: the caller may have released permits meanwhile.
	lists, err := p.listWithOthers(ctx, func(*listing) bool { return false })
	if err != nil {
		if isNoNode(err) { // the create reports what the layout lacks
			err = nil
		}
		return err
	}
	permits, _ := kind.SortContenders(lists[0])
	waiting, _ := kind.SortContenders(lists[1])
	if len(permits)+p.n > p.limit() || len(waiting) > 0 {
		return p.heldBy(permits, waiting)
	}
	return nil
}

// heldBy is the error of a try that these contenders and waiters are ahead of.
func (p *place) heldBy(line, waiting []kind.Contender) error {
	if err := p.possible(); err != nil { // any more
		return err
	}
	p.position = len(line) + len(waiting)
	switch {
	case len(line) > 0:
		p.holder = &rival{Contender: line[0], dir: p.q.decides().Dir(p.q.path)}
	case len(waiting) > 0:
		p.holder = &rival{Contender: waiting[0], dir: p.q.entrance().Dir(p.q.path)}
	}
	return p.held()
}

// possible refuses more permits than are declared. A waiter asks whenever it is not admitted (see ahead): the number may have
// been lowered, and its place, or permits of its own that were not granted, would keep everybody else out.
func (p *place) possible() error {
	if p.n == 0 {
		return nil
	}
	if most := p.limit(); p.n > most {
		return fmt.Errorf("%w: semaphore %s: %d permits asked for, %d are declared", ErrTooManyPermits, p.q.path, p.n, most)
	}
	return nil
}

func (p *place) limit() int { return p.q.kind.Permits(p.d.params) }

// relabel corrects whom an inherited place at a gate names, and for how many permits. That is a label: if it cannot be
// written, the wait goes on without it. What somebody else wrote, a revocation, stays.
func (p *place) relabel(ctx context.Context) {
	var was kind.Holder
	k := p.node()
	if p.n == 0 || json.Unmarshal(k.data, &was) != nil || was.ID == p.q.id() && was.Permits == p.n {
		return
	}
	data, stat, err := p.s.Get(ctx, k.path)
	if err != nil || string(data) != string(k.data) {
		return
	}
	wish := holderSelf(p.q.id())
	wish.Permits = p.n
	if _, err := p.s.Set(ctx, k.path, wish.Encode(), stat.Version); err == nil {
		k.data = wish.Encode()
	}
}

// serve waits, as the first at the gate, until the permits are free, and takes them in the transaction that gives the place up.
//
// Why callers that poll cannot keep the first waiting. It counts the permits that exist when it becomes the first, and none
// that are created later: nobody else takes permits through the gate meanwhile, and a client that creates some directly finds
// our place in its listing and withdraws them. So of L declared permits it waits for at most L that are held; the others are
// being withdrawn. After take it waits for direct permits older than ours. Those are being withdrawn too, unless their listing
// was read behind our transaction, which deletes our place: then at most L are granted. So the first waits for 2L releases at
// most, and each waiter behind it for that many more. For Curator's clients see look.
func (p *place) serve(ctx context.Context) error {
	permits := p.q.decides().Dir(p.q.path)
	var known map[string]bool
	for {
		if err := p.possible(); err != nil {
			return err
		}
		children, w, err := childrenCalledPersistent(ctx, p.s, permits, p.waker())
		if err != nil {
			return p.timedOut(ctx, err)
		}
		line, _ := kind.SortContenders(children)
		if known == nil {
			known = map[string]bool{}
			for _, k := range line {
				known[k.Name] = true
			}
		}
		line = slices.DeleteFunc(line, func(k kind.Contender) bool { return !known[k.Name] })
		if len(line)+p.n <= p.limit() {
			w.Stop()
			if taken, err := p.take(ctx); taken || err != nil {
				return err
			}
			continue
		}
		// line is not empty: if it were, n would be more than the limit, which possible has refused.
		if err = p.ahead(permits, &verdict{position: len(line), first: &line[0]}); err == nil {
			p.identify(ctx)
			_, err = p.next(ctx, w)
		}
		w.Stop()
		if err != nil {
			return err
		}
	}
}

// take makes that transaction, and waits on among the permits: others may have created permits directly since we counted. Then
// the last of ours is beyond the limit until enough older ones have gone. If it returns neither taken nor an error, look again.
func (p *place) take(ctx context.Context) (taken bool, err error) {
	next := &place{member: p.member, a: p.a, s: p.s, d: p.d, queued: true, holder: p.holder, position: p.position}
	if err := next.prepare(p.q.decides()); err != nil {
		return false, err
	}
	// Any write to the declaration fails this: the limit may have been lowered.
	limit := &zk.CheckVersionRequest{Path: p.q.path, Version: p.d.version}
	t := &txn{c: p.q.c, s: p.s, born: next.nodes, gone: p.nodes, with: []any{limit}}
	lists, err := t.run(ctx, next.dirs()[0])
	path := p.node().path
	if p.left = t.left; p.left != nil { // abandoned: the background deletes the place and the permits
		p.nodes = nil // nobody can inherit it
	}
	switch {
	case err == nil:
		p.unwatch() // the place at the gate is gone; from here on the last permit waits
		next.lists, next.proven = lists, lists != nil
		*p = *next
		if err := p.exhausted(); err != nil {
			return true, err
		}
		return true, p.wait(ctx)
	case isNoNode(err):
		return false, fmt.Errorf("%w, or %s lacks a child its layout needs (%v): run apply then", lostError(path, err), p.q.path, p.q.kind.Children)
	case errors.Is(err, zk.ErrBadVersion):
		p.q.c.state.outdated(p.d) // its event precedes this answer, unless it was lost
		return false, p.redeclare(ctx)
	case (didNothing(err) || errors.Is(err, session.ErrThrottled)) && ctx.Err() == nil:
		return false, pause(ctx, p.s, 10*time.Millisecond)
	default:
		return false, p.timedOut(ctx, err)
	}
}
