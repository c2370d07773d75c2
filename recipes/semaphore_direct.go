package recipes

import (
	"context"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// direct creates the permits and looks whether that was within the limit with nobody waiting: one round trip.
//
// What keeps the limit is the order of the permits alone. A permit is granted when, in a listing that its creation
// precedes, fewer than the limit are older. Take all permits held at some moment, and the newest of them: the others
// are older and were there in the listing that granted it, so they were fewer than the limit. That nobody stands in
// the queue is looked at for fairness only: a place given up between our create and our listing leaves no trace.
func (d *draw) direct(ctx context.Context) (*holding, error) {
	if err := d.prepare(ctx); err != nil {
		return nil, notQueued(err)
	}
	if err := look(ctx, d.s, d); err != nil {
		return nil, notQueued(d.timedOut(ctx, err))
	}
	permits, err := d.makePermits()
	if err != nil {
		return nil, err
	}
	t := &txn{c: d.q.c, s: d.s, born: permits}
	lists, err := t.run(ctx, d.both()...)
	if err != nil {
		d.q.c.state.keepOut(d.q.path, t.left)
		return nil, d.missing(ctx, err)
	}
	d.permits = permits
	if lists == nil { // lost with its connection, or cut off from the create by it
		if lists, err = listAllAgain(ctx, d.s, d.both()...); err != nil {
			return nil, d.withdraw(ctx, d.timedOut(ctx, err))
		}
	}
	// A limit that was lowered, or a lock that was drained, before our permits were created: see claim.wait.
	if err := d.obey(ctx); err != nil {
		return nil, d.withdraw(ctx, err)
	}
	if err := d.free(lists); err != nil {
		return nil, d.withdraw(ctx, err)
	}
	if err := exhaustedAny(permits); err != nil {
		return nil, d.withdraw(ctx, err)
	}
	return d.hold(ctx)
}

// free says whether permits that were created directly are granted: nil, or who is in the way.
func (d *draw) free(lists [][]string) error {
	// The last of the transaction's permits decides: they have consecutive numbers.
	v, err := decide(d.q.place(), d.d.params, lists[0], d.permits[len(d.permits)-1].name)
	waiting, _ := kind.SortContenders(lists[1])
	busy := err != nil || !v.granted || len(waiting) > 0
	d.d.busy.Store(busy)
	if !busy {
		return nil
	}
	permits, _ := kind.SortContenders(lists[0])
	return d.held(permits[:max(0, v.position+1-d.n)], waiting)
}

// look refuses permits without creating any, where those created directly were refused the last time. Whoever polls
// a semaphore that is taken reads, then, and writes nothing: a permit that is created only to be withdrawn is in the way
// of Curator's clients, which count every permit there is, and of everybody else's tries. The first try after that costs
// a round trip more. Of several semaphores, it looks at all at once.
//
// Behind the place of a waiter each call makes such permits once at most, and each client does in the calls that are
// under way then and in one more: its listing shows the place, and so does every later look of that session.
func look(ctx context.Context, s *Session, ds ...*draw) error {
	var busy []*draw
	var dirs []string
	for _, d := range ds {
		if d.n > 0 && d.d.busy.Load() {
			busy, dirs = append(busy, d), append(dirs, d.both()...)
		}
	}
	lists, err := s.ListAll(ctx, dirs)
	if err != nil {
		lists, err = listAllAgain(ctx, s, dirs...)
	}
	if err != nil && !isNoNode(err) { // what the layout lacks, the create tells
		return err
	}
	for i, d := range busy[:len(lists)/2] {
		permits, _ := kind.SortContenders(lists[2*i])
		waiting, _ := kind.SortContenders(lists[2*i+1])
		if len(permits)+d.n > d.limit() || len(waiting) > 0 {
			return d.held(permits, waiting)
		}
	}
	return nil
}

// held is the error of a try: these permits and waiters are in the way.
func (d *draw) held(permits, waiting []kind.Contender) error {
	if err := d.possible(); err != nil { // any more
		return err
	}
	e, dirs := &HeldError{Path: d.q.path, Position: len(permits) + len(waiting), c: d.q.c}, d.both()
	switch {
	case len(permits) > 0:
		e.Holder = inspect.NewContender(dirs[0], permits[0])
	case len(waiting) > 0:
		e.Holder = inspect.NewContender(dirs[1], waiting[0])
	}
	return e
}

// withdraw deletes the permits in the background and returns err.
func (d *draw) withdraw(ctx context.Context, err error) error {
	ks := d.permits
	d.permits = nil
	d.q.c.leaveBehind(ctx, ks, func() {})
	return err
}
