package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/kind"
)

// A lock that moves leaves a mark at its old path, which names the new one. Handles on the old path follow it: when they are used,
// and while they wait.
//
// Why two programs of this library never hold such a lock at once, one at each path. The move is one transaction. It deletes the old
// node, which ZooKeeper refuses while anybody is in its queue, creates the mark in its place, and creates the lock at the new path.
// So all contenders of before the transaction have gone by then. A holder whose session has expired knows by its own clock that it
// has lost the lease (see prove), wherever the next one is granted. A contender that is created in the mark later is granted nothing:
// the server tells its session that the declaration has changed before it answers the create, and a grant looks at that last.
//
// Where the mark has no structural children, or lets nobody create in it, the server refuses such a contender (NoNode, NoAuth), and
// the handle reads the declaration again (reread).
//
// A mark is followed only to the lock that it was written for: of the same stack, address and kind. So a path that has been given
// to another lock since is never taken for the one that was there.

// maxSteps is how many marks a handle follows.
const maxSteps = 8

// elsewhereError is the error of a declaration which says that the lock is at another path, or is about to go there: then it admits
// nobody new, and those who wait leave until it has gone. follow acts on it; a caller sees it only where it does not wait.
type elsewhereError struct{ mark *declaration }

func (e *elsewhereError) Error() string {
	to := kind.Visible(e.mark.payload.MovedTo)
	if e.goes() {
		return fmt.Sprintf("%v: %s is about to move to %s", ErrDraining, e.mark.path, to)
	}
	return fmt.Sprintf("%v: %s is now %s", ErrMoved, e.mark.path, to)
}

func (e *elsewhereError) Unwrap() error {
	if e.goes() {
		return ErrDraining
	}
	return ErrMoved
}

// goes reports whether the lock is still where it was.
func (e *elsewhereError) goes() bool { return e.mark.payload.State == kind.StateDraining }

// strayed is the error of a mark that is not followed.
func strayed(mark *declaration, format string, args ...any) error {
	return fmt.Errorf("%w: %s is now %s, %w", ErrMoved, mark.path, kind.Visible(mark.payload.MovedTo), fmt.Errorf(format, args...))
}

// step is the handle on the lock at the path that the mark at the handle's own path names.
func (q *queue) step(mark *declaration) (*queue, error) {
	if err := q.continues(mark); err != nil {
		return nil, err
	}
	to := mark.payload.MovedTo
	next := *q
	if next.path = to; q.family != "" {
		next.family, next.fanout = to, ""
		next.path, _ = new(kind.KeyedParams).Path(to, q.name) // what is wrong with a key was found when the handle was made
	}
	next.key = leaseKey{q.c, next.path}
	next.trail = append(slices.Clip(q.trail), mark)
	next.opts.params, next.opts.create = nil, false // only a declaration says that it is the same lock
	passed := func(d *declaration) bool { return d.path == to }
	switch err := kind.ValidatePath(to); {
	case err != nil:
		return nil, strayed(mark, "which is no path of a lock: %v", err)
	case slices.ContainsFunc(next.trail, passed):
		return nil, strayed(mark, "from where it came: the marks lead in a circle; apply the configuration of %s again", kind.Visible(mark.payload.Owner.String()))
	case len(next.trail) > maxSteps:
		return nil, strayed(mark, "and %d times before that from %s on: use its present path", maxSteps, next.trail[0].path)
	}
	return &next, nil
}

// continues refuses, at a path to which a mark has led, what is not the lock that the mark was written for.
func (q *queue) continues(d *declaration) error {
	if len(q.trail) == 0 {
		return nil
	}
	switch mark := q.trail[len(q.trail)-1]; {
	case d.payload == nil:
		return strayed(mark, "which has no declaration that this program can read: %w", d.why)
	case d.payload.Owner != mark.payload.Moves():
		return strayed(mark, "which is a lock of %s by now; it was written for %s", kind.Visible(d.payload.Owner.String()), kind.Visible(mark.payload.Moves().String()))
	case d.payload.Params.Kind() != mark.payload.Params.Kind():
		return strayed(mark, "which is declared as %s by now; it was a %s", d.payload.Params.Kind(), mark.payload.Params.Kind())
	}
	return nil
}

// outrun reports whether a mark on the way may have changed since it was read. A server tells a session of a change before
// anything of a later state, and a new connection fires every watch. So while all are silent behind the last read, all of the
// marks were there at one moment.
func (q *queue) outrun() bool { return slices.ContainsFunc(q.trail, (*declaration).stale) }

// declares reports whether err is about what is declared at a path.
func declares(err error) bool {
	return errors.Is(err, ErrMoved) || errors.Is(err, ErrNotProvisioned) || errors.Is(err, ErrKindMismatch)
}

// present is the handle on the lock where it is by now, with the error of its declaration there.
func (q *queue) present(ctx context.Context, e *epoch) (*queue, error) {
	at, needs := q, needs{st: &q.c.state}
	defer needs.end()
	for try := (tries{}); ; {
		needs.add(at.declaredAt())
		d, err := e.declared(ctx, at)
		if err == nil {
			err = at.misspelled(d)
		}
		var key *spelledError
		if errors.As(err, &key) {
			at = key.is
			continue
		}
		var elsewhere *elsewhereError
		if errors.As(err, &elsewhere) && !elsewhere.goes() {
			var next *queue
			if next, err = at.step(elsewhere.mark); err == nil {
				at = next
				continue
			}
		}
		if !declares(err) || !at.outrun() || try.over(ctx, e.s, declares, &err) {
			return at, err
		}
		at = q
	}
}

// follow takes the locks where they are: at the paths of the handles, or where marks lead from there.
//
// What is done behind take has frames of its own, because a waiter waits on top of this one (TestAWaitersStackIsNotDoubledTwice).
func (a *acquisition) follow(ctx context.Context, take func(context.Context) (*Lease, error)) (*Lease, error) {
	course := course{given: a.members}
	needs := needs{st: &a.c.state}
	defer needs.end()
	for {
		for _, m := range a.members {
			needs.add(m.q.declaredAt())
		}
		l, err := take(ctx)
		if err == nil {
			return l, nil
		}
		if err = a.onward(ctx, &course, err); err != nil {
			return l, err
		}
	}
}

// course is how follow came to where it is.
type course struct {
	given []member // those of the handles
	try   tries    // since a mark on the way may have changed
}

// onward makes the members those at the paths to which the marks lead that err is about; else it returns err.
func (a *acquisition) onward(ctx context.Context, c *course, err error) error {
	var e *elsewhereError
	var key *spelledError
	switch {
	case errors.As(err, &key):
		a.respell(key)
		return nil
	case errors.As(err, &e):
		if err = a.step(ctx, e); err == nil {
			return nil
		}
	}
	outrun := slices.ContainsFunc(a.members, func(m member) bool { return m.q.outrun() })
	if !declares(err) || !outrun || c.try.over(ctx, nil, declares, &err) {
		return err
	}
	a.want(c.given)
	return nil
}

// step makes the members that a mark is about those at its new path. If the lock is only about to go there, it waits.
func (a *acquisition) step(ctx context.Context, e *elsewhereError) error {
	if e.goes() {
		return a.await(ctx, e)
	}
	members := slices.Clone(a.members)
	for i, m := range members {
		if m.q.declaredAt() != e.mark.path {
			continue
		}
		var err error
		if members[i].q, err = m.q.step(e.mark); err != nil {
			return err
		}
	}
	a.want(members)
	return nil
}

// want names the locks that the acquisition takes.
func (a *acquisition) want(members []member) {
	paths := make([]string, len(members))
	for i, m := range members {
		paths[i] = m.q.path
	}
	a.members, a.path = members, strings.Join(paths, " + ")
	if a.call != nil {
		a.call.about.Path, a.call.about.Locks = a.path, eventLocks(members)
	}
}

// await waits until a lock that is about to move has gone, or does not go. We have no place in its queue meanwhile: the move waits
// for that.
func (a *acquisition) await(ctx context.Context, elsewhere *elsewhereError) error {
	if a.try {
		return elsewhere
	}
	mark := elsewhere.mark
	e, err := a.c.epoch(ctx)
	if err != nil {
		return err
	}
	select {
	case <-mark.w.C(): // of a lost session, too
	case <-mark.dropped:
	case <-time.After(e.s.Timeout()): // a server that forgot the watch costs no more than that
		e.outdated(mark)
	case <-ctx.Done():
		return fmt.Errorf("%w, and has not gone: %w", elsewhere, whyEnded(ctx))
	}
	return nil
}

// reread finds out, when a server has refused our contenders, whether that is because the declarations are others by now: the lock
// has moved, or was created anew.
func (a *acquisition) reread(ctx context.Context, entries []*entry, refusal error) error {
	older := errors.Is(refusal, zk.ErrBadVersion) // the declaration that a key was to be used under is not in force any more
	if !older && !isNoNode(refusal) && !errors.Is(refusal, zk.ErrNoAuth) {
		return refusal
	}
	for _, e := range entries {
		e.e.outdated(e.d)
		switch d, err := e.e.declared(ctx, e.q); {
		case err != nil:
			return notQueued(err)
		case d.mzxid != e.d.mzxid || older: // our server may lag
			return fmt.Errorf("%w: %s was declared anew (%v)", errNotApplied, e.q.path, refusal)
		}
	}
	return refusal
}
