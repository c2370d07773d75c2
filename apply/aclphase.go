package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// listing is the phase after the last transaction.
type listing struct {
	*locked
	noted  *plan.Index // what that transaction wrote
	before plan.Pin    // the record before it
}

// list sets the access lists of existing nodes, which the transaction noted as pending in
// the record, and then clears the note. It stops between two lists when ctx ends: the rest
// stays noted.
//
// These writes are not in a transaction with the check of the lock. Their session fences them:
// job.s is the lease's, and once that has ended its requests are refused. Against those who do not
// take the lock, each write has the version of the list that it replaces.
//
// It makes two passes over all lists: every right is granted everywhere before any is withdrawn. What this apply created admits
// the old and the new administrators (plan.Op.Then). So if an apply that replaces an administrator ends at any write, either the
// old one or the new one can still do everything, and a connection that presents both always can.
//
// The last of the steps is .locktree, if the set of the root changes: the first pass begins with it. So from the first new right
// to the last old one it shows the set that admits both.
func (t *sending) list(ctx context.Context, steps []plan.ACLStep) error {
	if len(steps) == 0 && (t.tx.Index == nil || len(t.tx.Index.Pending) == 0) {
		return nil
	}
	r, set := &listing{locked: t.locked, noted: t.tx.Index, before: t.index}, 0
	var closed error // because of the first node that somebody else has closed to us
	if len(steps) > 0 {
		r.emit(event.ACLPhase{Total: len(steps)})
	}
	fail := func(err error) error {
		return &failure.ACLPhaseError{ApplyID: r.id, Done: set, Total: len(steps), Err: err}
	}
	for _, narrow := range []bool{false, true} {
		for i := range steps {
			if last := len(steps) - 1; !narrow && steps[last].Path == plan.ScaffoldPath(r.p.Root) {
				i = (i + last) % len(steps)
			}
			write, done, err := r.half(ctx, &steps[i], narrow)
			if err == nil && write != nil {
				steps[i].Aversion, err = r.setNext(ctx, *write)
			}
			if steps[i].OfKey && errors.Is(err, zk.ErrNoNode) { // nobody uses the key any more
				done, err = narrow, nil
			}
			// Whoever has all rights on one node must not keep those who leave on all others. Those of a key may be all that a program
			// has with which it is used, so the family keeps them too.
			if errors.Is(err, zk.ErrNoAuth) && !steps[i].OfKey && !r.p.Administers(steps[i].Before) {
				closed = cmp.Or(closed, err)
				continue
			}
			if err != nil {
				return fail(err)
			}
			if done {
				set++
				r.emit(event.ACLApplied{Addr: steps[i].Addr, Path: steps[i].Path})
			}
		}
	}
	if closed != nil {
		return fail(closed)
	}
	if err := r.clearPending(ctx); err != nil {
		return fail(err)
	}
	return nil
}

// half returns what one of the two passes writes of a step, nil for nothing, and whether the step is then done.
// The first pass adds rights; the second, with narrow, removes them.
func (r *listing) half(ctx context.Context, step *plan.ACLStep, narrow bool) (write *plan.ACLStep, done bool, err error) {
	if !narrow {
		if step.Before, err = r.shown(ctx, step.Path, step.Before); err != nil {
			return nil, false, failure.ACL(*step, err)
		}
	}
	both := slices.Concat(step.Before, step.ACL).Normalize()
	gains, loses := !both.Equal(step.Before), !both.Equal(step.ACL)
	if narrow && !loses || !narrow && !gains && loses {
		return nil, false, nil
	}
	next := *step
	if !narrow {
		next.ACL = both
	}
	return &next, narrow || !loses, nil
}

// shown returns the list with the hashes that the servers show us, if they have hidden some from whoever planned.
func (r *job) shown(ctx context.Context, path string, planned kind.List) (kind.List, error) {
	if !planned.Masked() {
		return planned, nil
	}
	got, _, err := r.s.GetACL(ctx, path)
	return wire.FromZK(got), err
}

// setNext sets the next list, if we may go on. It returns the aversion since then, or that of the step.
func (r *listing) setNext(ctx context.Context, step plan.ACLStep) (int32, error) {
	if err := context.Cause(ctx); err != nil {
		return step.Aversion, err
	}
	if r.lease.Context().Err() != nil {
		return step.Aversion, r.lockLost(context.Cause(r.lease.Context()))
	}
	aversion, err := r.setACL(ctx, step)
	if err != nil && !(step.OfKey && errors.Is(err, zk.ErrNoNode)) {
		r.emit(event.Failed{Addr: step.Addr, Path: step.Path, Action: plan.Update, Err: err})
	}
	return aversion, err
}

// setACL sets one list. If the reply is lost, or the version has changed, it reads the list to
// see whether it is as it should be. A repeated request is guarded by the same version. It returns the aversion since then, or that
// of the step.
func (r *locked) setACL(ctx context.Context, step plan.ACLStep) (aversion int32, err error) {
	for range commitTries {
		var stat *zk.Stat
		if stat, err = r.s.SetACL(ctx, step.Path, wire.ToZK(step.ACL), step.Aversion); err == nil {
			return stat.Aversion, nil
		}
		if !failure.Unknown(err) && !errors.Is(err, zk.ErrBadVersion) {
			break
		}
		got, stat, readErr := r.s.GetACL(ctx, step.Path)
		if readErr == nil && wire.FromZK(got).Equal(step.ACL) {
			return stat.Aversion, nil
		}
		if errors.Is(readErr, recipes.ErrSessionLost) { // this says more than the lost reply
			err = readErr
		}
		// Not set, and the version has changed or is unknown: do not overwrite somebody's list
		// (TestAccessListChangedByHandIsNotOverwritten).
		if readErr != nil || !failure.Unknown(err) {
			break
		}
	}
	if errors.Is(err, recipes.ErrSessionLost) {
		return step.Aversion, r.lockLost(err)
	}
	return step.Aversion, failure.ACL(step, err)
}

// lockLost is for a lock that is lost after the last transaction: ACLPhaseError says what to do next.
func (r *locked) lockLost(err error) error {
	e := failure.Lock(r.lease.Path(), err)
	e.Written, e.Next = "", ""
	return e
}

// clearPending writes the record again without its note, under the lock, and also the final access list for the lock's
// contenders. The record has the version that our transaction left.
func (r *listing) clearPending(ctx context.Context) error {
	data, err := r.p.Settled(r.noted).Encode()
	if err != nil {
		return err
	}
	// The last transaction created the record or raised its version by one. No other apply writes it while
	// we have the lock; an edit by hand is not overwritten.
	version := int32(0)
	if !r.before.Absent {
		version = r.before.Version + 1
	}
	lock, err := r.p.Relock()
	if err != nil {
		return err
	}
	if err := r.write(ctx, r.p.Index.Path, data, version, wire.Requests(lock)...); err != nil {
		return r.explain(ctx, plan.Op{Kind: plan.OpSet, Path: r.p.Index.Path}, err)
	}
	return nil
}

// readBack reads one node for each different access list that was written: the server may
// rewrite a list, and does so in the same way for equal lists. The data need not be read: a
// transaction writes what it was sent.
//
// A list that reads back differently would appear as a difference in every later plan. It is better
// reported now, by the apply that wrote it.
func (r *locked) readBack(ctx context.Context) error {
	ctx, cancel := detached(ctx, r.s)
	defer cancel()
	// Not the session of the lock: that may have been lost after the transaction.
	session, err := r.x.client.Session(ctx)
	if err != nil {
		return &failure.VerifyError{ApplyID: r.id, Err: err}
	}
	seen := map[string]bool{}
	var diffs []failure.Difference
	for _, want := range r.written() {
		key, err := json.Marshal(want.ACL.Normalize())
		if err != nil || seen[string(key)] {
			continue
		}
		seen[string(key)] = true
		got, _, err := session.GetACL(ctx, want.Path)
		switch {
		case errors.Is(err, zk.ErrNoAuth):
			// as intended with allow_lockout
		case err != nil:
			return &failure.VerifyError{ApplyID: r.id, Err: failure.Read(want.Path, err)}
		case !wire.FromZK(got).Equal(want.ACL):
			diffs = append(diffs, failure.Difference{
				Addr: want.Addr, Path: want.Path,
				What: fmt.Sprintf("access list is %s instead of %s", wire.FromZK(got), want.ACL),
			})
		}
	}
	if len(diffs) > 0 {
		return &failure.VerifyError{ApplyID: r.id, Differences: diffs}
	}
	return nil
}

// written returns the access lists that nodes now have by this apply.
func (r *locked) written() (out []plan.ACLStep) {
	for c := range r.p.Each() {
		if c.After != nil && c.Action != plan.NoOp && !c.Hides() {
			out = append(out, plan.ACLStep{Addr: c.Addr, Path: c.Path, ACL: c.After.ACL})
		}
	}
	for _, s := range r.p.ACLSteps() {
		out = append(out, plan.ACLStep{Addr: s.Addr, Path: s.Path, ACL: s.ACL})
	}
	return out
}
