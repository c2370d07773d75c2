// Package lists sets access lists after the last transaction, in two passes, and reads back what was written. They are the lists
// of existing nodes, and of new ones that still admit the administrators whom the plan removes.
//
//	err := (&lists.Phase{Held: held, Plan: p, ID: id, Noted: index, Before: pin}).Set(ctx, steps)
//	err = lists.ReadBack(ctx, held, p, id)
//
// ZooKeeper cannot set lists in a transaction. So each is guarded by its version, and noted in the record beforehand. If an apply
// ends here, the note stays, and the next apply finishes.
//
// The package relies on a held lock, whose session fences the writes, and on plan for the steps. The only data that it changes is
// that of the record and of the apply lock.
package lists

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
	"github.com/locktree/locktree/apply/internal/lock"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
)

// Phase is the phase after the last transaction.
type Phase struct {
	Held   *lock.Held
	Plan   *plan.Plan
	ID     string         // of the apply
	Noted  *record.Record // what the last transaction wrote
	Before plan.Pin       // the record before the last transaction
}

// Set carries out the steps, and then clears the note about them that the transaction
// left in the record. It stops between two lists when ctx ends: the rest stays noted.
//
// These writes are not in a transaction with the check of the lock. Their session fences them: the session of Held is the lease's,
// and after its end servers refuse its requests. Programs may change a list without the lock, so each write checks the version of
// the list that it replaces.
//
// Set makes two passes over all lists: every right is granted everywhere before any is withdrawn. New nodes of this apply admit
// the old and the new administrators (tx.Op.Then). So if an apply that replaces an administrator ends at any write, the old one or
// the new one can still do everything. A connection that presents both can do everything at any time.
//
// If the root's administrators change, the step of .locktree comes first in the first pass, and last in the second. So while the
// lists change, the list of .locktree admits the old and the new administrators.
func (r *Phase) Set(ctx context.Context, steps []plan.ACLStep) error {
	if len(steps) == 0 && (r.Noted == nil || len(r.Noted.Pending) == 0) {
		return nil
	}
	set := 0
	var closed error // the error of the first node that is closed to us
	if len(steps) > 0 {
		r.Held.Emit(event.ACLPhase{Total: len(steps)})
	}
	fail := func(err error) error {
		return &failure.ACLPhaseError{ApplyID: r.ID, Done: set, Total: len(steps), Err: err}
	}
	for _, narrow := range []bool{false, true} {
		for i := range steps {
			if last := len(steps) - 1; !narrow && steps[last].Path == record.ScaffoldPath(r.Plan.Root) {
				i = (i + last) % len(steps)
			}
			write, done, err := r.listOfPass(ctx, &steps[i], narrow)
			if err == nil && write != nil {
				steps[i].Aversion, err = r.setNext(ctx, *write)
			}
			if steps[i].OfKey && errors.Is(err, zk.ErrNoNode) { // the key is not used any more
				done, err = narrow, nil
			}
			// One node that another identity has closed to us must not stop the removal of rights on all others. But if a key's
			// node is closed to us, the apply fails, and the note about the old list stays in the record. A client of the key may
			// depend on that list.
			if errors.Is(err, zk.ErrNoAuth) && !steps[i].OfKey && !access.Administers(r.Plan, steps[i].Before) {
				closed = cmp.Or(closed, err)
				continue
			}
			if err != nil {
				return fail(err)
			}
			if done {
				set++
				r.Held.Emit(event.ACLApplied{Addr: steps[i].Addr, Path: steps[i].Path})
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

// listOfPass returns the list that one of the two passes writes for a step, nil for none, and whether the step is done after it.
// The first pass adds rights. The second pass (the parameter narrow) removes rights.
func (r *Phase) listOfPass(ctx context.Context, step *plan.ACLStep, narrow bool) (write *plan.ACLStep, done bool, err error) {
	if !narrow {
		if step.Before, err = read.Shown(ctx, r.Held.Session, step.Path, step.Before); err != nil {
			return nil, false, refusal.ACL(*step, err)
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

// setNext sets the next list, if we may go on. It returns the new version of the access list, or that of the step if nothing was
// set.
func (r *Phase) setNext(ctx context.Context, step plan.ACLStep) (int32, error) {
	if err := context.Cause(ctx); err != nil {
		return step.Aversion, err
	}
	if r.Held.Lease.Context().Err() != nil {
		return step.Aversion, r.Held.LostSince(context.Cause(r.Held.Lease.Context()))
	}
	aversion, err := r.Held.SetACL(ctx, step)
	if err != nil && !(step.OfKey && errors.Is(err, zk.ErrNoNode)) {
		r.Held.Emit(event.Failed{Addr: step.Addr, Path: step.Path, Action: plan.Update, Err: err})
	}
	return aversion, err
}

// clearPending writes the record without its note, under the lock. The data of the apply lock contains the access list for its
// contenders. If that list loses entries, clearPending also writes the final list there. The record has the version that our
// transaction left.
func (r *Phase) clearPending(ctx context.Context) error {
	data, err := tx.Settled(r.Plan, r.Noted).Encode()
	if err != nil {
		return err
	}
	// The last transaction created the record or raised its version by one. No other apply writes it while
	// we have the lock; an edit by hand is not overwritten.
	version := int32(0)
	if !r.Before.Absent {
		version = r.Before.Version + 1
	}
	lock, err := tx.Relock(r.Plan)
	if err != nil {
		return err
	}
	if err := r.Held.Write(ctx, r.Plan.Index.Path, data, version, wire.Requests(lock)...); err != nil {
		return r.Held.Explain(ctx, r.Plan, tx.Op{Kind: tx.OpSet, Path: r.Plan.Index.Path}, err)
	}
	return nil
}

// ReadBack reads one node for each different access list that was written: the server may
// rewrite a list, and does so in the same way for equal lists. The data need not be read: a
// transaction writes what it was sent.
//
// A list that reads back differently would appear as a difference in every later plan. It is better
// reported now, by the apply that wrote it.
func ReadBack(ctx context.Context, h *lock.Held, p *plan.Plan, id string) error {
	ctx, cancel := lock.Detached(ctx, h.Session)
	defer cancel()
	// Do not use the session of the lock, which may have been lost after the transaction.
	session, err := h.Client.Session(ctx)
	if err != nil {
		return &failure.VerifyError{ApplyID: id, Err: err}
	}
	seen := map[string]bool{}
	var diffs []failure.Difference
	for _, want := range finalLists(p) {
		key, err := json.Marshal(want.ACL.Normalize())
		if err != nil || seen[string(key)] {
			continue
		}
		seen[string(key)] = true
		got, _, err := session.GetACL(ctx, want.Path)
		switch {
		case errors.Is(err, zk.ErrNoAuth):
			// With allow_lockout we may be unable to read the list that we wrote.
		case err != nil:
			return &failure.VerifyError{ApplyID: id, Err: refusal.Read(want.Path, err)}
		case !wire.FromZK(got).Equal(want.ACL):
			diffs = append(diffs, failure.Difference{
				Addr: want.Addr, Path: want.Path,
				What: fmt.Sprintf("access list is %s instead of %s", wire.FromZK(got), want.ACL),
			})
		}
	}
	if len(diffs) > 0 {
		return &failure.VerifyError{ApplyID: id, Differences: diffs}
	}
	return nil
}

// finalLists returns the access lists that nodes now have by this apply.
func finalLists(p *plan.Plan) (out []plan.ACLStep) {
	for c := range p.Each() {
		if c.After != nil && c.Action != plan.NoOp && !c.Hides() {
			out = append(out, plan.ACLStep{Addr: c.Addr, Path: c.Path, ACL: c.After.ACL})
		}
	}
	for _, s := range p.ACLSteps() {
		out = append(out, plan.ACLStep{Addr: s.Addr, Path: s.Path, ACL: s.ACL})
	}
	return out
}
