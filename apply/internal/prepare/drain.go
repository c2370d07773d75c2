package prepare

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/lock"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
)

// drainPoll is how often draining locks are checked. Contenders are gone as soon as they
// release, so this interval bounds how much longer a person waits.
const drainPoll = 250 * time.Millisecond

// copyPlan lets the apply note the versions that its own preparations write, without changing the caller's plan.
//
// The caller may show the plan afterwards, or apply it again: with our versions, it would match a state that only this run
// produced. Nodes are shared until one is changed (setState, widen).
func copyPlan(of *plan.Plan) *plan.Plan {
	p := *of
	p.Changes, p.Pins = slices.Clone(p.Changes), slices.Clone(p.Pins)
	return &p
}

// Leave removes from a plan the replacement of nodes that may be containers, if they are now in use. Programs of other libraries
// ignore the state draining, and the plan's other changes must not wait for them. Leave returns the changed plan, and the addresses
// of the nodes that stay.
func Leave(ctx context.Context, h *lock.Held, p *plan.Plan) (_ *plan.Plan, left []plan.Addr, err error) {
	again := func(c plan.Change) bool { return c.Reason == plan.ReasonReplaceContainer }
	if !slices.ContainsFunc(p.Changes, again) {
		return p, nil, nil
	}
	p = copyPlan(p)
	var changes []*plan.Change
	for c := range p.Each() {
		if again(*c) {
			changes = append(changes, c)
		}
	}
	busy, err := read.Occupied(ctx, h.Session, changes)
	for _, c := range busy {
		if c.Leave() {
			left = append(left, c.Addr)
		}
	}
	return p, left, err
}

// Drained are the locks that an apply has closed in order to drain them.
type Drained struct {
	Plan    *plan.Plan // with the versions that draining wrote
	held    *lock.Held
	besides *refusal.Besides
	closed  []*plan.Change
}

// If the plan asks for it, Drain closes the locks that must be idle: in the state draining, they grant nothing new. It waits for
// their users, except for locks to be broken. If a lock is still in use at the end, the error is an [*failure.InUseError], and the
// locks are opened again.
func Drain(ctx context.Context, h *lock.Held, p *plan.Plan, besides *refusal.Besides) (*Drained, error) {
	d := &Drained{Plan: p, held: h, besides: besides}
	if p.Drain <= 0 && !slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.Break }) {
		return d, nil
	}
	p = copyPlan(p)
	d.Plan = p
	// Each round looks, and closes locks that are in use and still open. Drain is done when only locks to be broken by force have
	// contenders. The transaction deletes these contenders, so no round waits for them. A contender may come between the look and
	// the closing; the next round sees it.
	deadline := time.Now().Add(time.Duration(p.Drain) * time.Millisecond)
	inUse := map[*plan.Change]string{}
	for {
		stats, err := read.StatsToIdle(ctx, h.Session, p)
		if err != nil {
			return nil, d.Reopen(ctx, err)
		}
		busy := 0
		for c := range p.Each() {
			if !c.NeedsIdle() || !(c.Break || p.Drain > 0) {
				continue
			}
			if inUse[c], err = read.Used(ctx, h.Session, c, stats, inUse[c]); err != nil {
				return nil, d.Reopen(ctx, err)
			} else if inUse[c] == "" {
				continue
			}
			if !slices.Contains(d.closed, c) {
				// An interrupt does not end this write: a lock that it may have closed must be opened again.
				whole, cancel := lock.Detached(ctx, h.Session)
				err := d.setState(whole, c, kind.StateDraining)
				cancel()
				if err != nil {
					return nil, d.Reopen(ctx, err)
				}
				d.closed = append(d.closed, c)
				h.Emit(event.Draining{Addr: c.Addr, Path: c.Path, Usage: c.Usage})
			}
			if !c.Break {
				busy++
			}
		}
		if busy == 0 {
			return d, nil
		}
		if !time.Now().Before(deadline) {
			if err := read.Idle(ctx, h.Session, p, stats); err != nil { // nil if the last used key of a family was released meanwhile
				return nil, d.Reopen(ctx, err)
			}
			return d, nil
		}
		select {
		case <-ctx.Done():
			return nil, d.Reopen(ctx, context.Cause(ctx))
		case <-h.Lease.Context().Done():
			return nil, d.Reopen(ctx, refusal.Lock(h.Lease.Path(), context.Cause(h.Lease.Context())))
		case <-time.After(min(drainPoll, time.Until(deadline))):
		}
	}
}

// setState writes the state of a lock that is to be deleted, and notes the new version in the plan. The apply lock fences the write.
// After a crash, a new plan makes the same changes, and warns that the lock was left draining.
//
// setState does not raise the generation, and the lock's checksum does not cover the state. So the state is no drift: a plan opens
// a declared lock again ([plan.Change].Revive), and warns of any other lock that is closed (warnDraining in plan/diff).
func (d *Drained) setState(ctx context.Context, c *plan.Change, state kind.State) error {
	before, live, payload := *c.Before, *c.Before.Live, *c.Before.Payload
	payload.State = state
	data, err := payload.Encode()
	if err != nil {
		return err
	}
	if err := d.held.Write(ctx, c.Path, data, live.Version); err != nil {
		return d.held.Explain(ctx, d.Plan, tx.Op{Kind: tx.OpSet, Addr: c.Addr, Path: c.Path}, err)
	}
	live.Version++
	before.Live, before.Payload, c.Before = &live, &payload, &before
	if pin := pinOf(d.Plan, c.Path); pin != nil {
		pin.Version = live.Version
	}
	return nil
}

// Reopen undoes the draining after a failure, as far as that is possible. A lock that stays draining is opened by the next apply
// that finds it declared. It grants nothing new until then, so the caller gets a [*failure.ClosedError].
func (d *Drained) Reopen(ctx context.Context, cause error) error {
	if len(d.closed) == 0 {
		return cause
	}
	left, e := d.closed, &failure.ClosedError{Err: cause}
	if d.held.Lease.Context().Err() == nil { // otherwise writes are refused, and another apply may have begun
		ctx, cancel := lock.Detached(ctx, d.held.Session)
		defer cancel()
		left = nil
		for _, c := range d.closed {
			if err := d.setState(ctx, c, kind.StateActive); err != nil {
				left, e.Why = append(left, c), err
			}
		}
	}
	if len(left) == 0 {
		return d.besides.Say(cause, "locks that were closed in order to drain them are open again")
	}
	for _, c := range left {
		e.Locks = append(e.Locks, failure.Named(c.Addr, c.Path))
	}
	return e
}

// Gone takes note that locks were deleted, or are open again.
func (d *Drained) Gone(changes []*plan.Change) {
	d.closed = slices.DeleteFunc(d.closed, func(c *plan.Change) bool { return slices.Contains(changes, c) })
}

// Widen adds the rights that we lack for the transaction to the access lists of nodes where we have ADMIN. It only adds, and only
// to lists that the plan replaces in any case. So if an apply ends here, the next one finishes it.
//
// Widen does not touch a node to be imported, which is another program's until the transaction. It does not touch a namespace
// whose list stays as it is either, even if something is to be created in it. Our missing right there may be intended, so the
// transaction fails and its error names the right.
//
// Widen returns the plan with the versions that it wrote.
func Widen(ctx context.Context, h *lock.Held, p *plan.Plan, besides *refusal.Besides) (*plan.Plan, error) {
	var steps []int
	for i := range p.Changes {
		c := &p.Changes[i]
		if c.Action == plan.Update && c.ACL != nil && !c.NeedsIdle() && c.Importing == "" &&
			!c.Before.ACL.Equal(c.After.ACL) && missingRights(h, c, c.Before.ACL) != 0 {
			steps = append(steps, i)
		}
	}
	if len(steps) == 0 {
		return p, nil
	}
	p = copyPlan(p)
	for _, i := range steps {
		c := &p.Changes[i]
		before, live := *c.Before, *c.Before.Live
		list, err := read.Shown(ctx, h.Session, c.Path, before.ACL)
		if err != nil {
			continue // the transaction's error will say what is missing
		}
		before.ACL = list
		admin := slices.IndexFunc(before.ACL, func(a kind.ACL) bool {
			sure, _ := kind.List{a}.Rights(h.Client.Identities()...)
			return sure&kind.PermAdmin != 0
		})
		if admin < 0 || missingRights(h, c, list) == 0 {
			continue // the transaction's error will say what is missing
		}
		grant := before.ACL[admin]
		grant.Perms = missingRights(h, c, list)
		before.ACL = append(slices.Clone(list), grant).Normalize()
		step := plan.ACLStep{Addr: c.Addr, Path: c.Path, ACL: before.ACL, Aversion: live.Aversion}
		if live.Aversion, err = h.SetACL(ctx, step); err != nil {
			return nil, err
		}
		besides.Add("we were given the rights that we lacked on " + c.Path)
		h.Emit(event.ACLWidened{Addr: c.Addr, Path: c.Path})
		before.Live, c.Before = &live, &before
		if pin := pinOf(p, c.Path); pin != nil {
			pin.Aversion = live.Aversion
		}
	}
	return p, nil
}

// missingRights returns the rights that the transaction needs on the node, without those that the parameter list gives us. READ is
// not among them: a node that we may not read is not in the plan. Entries that may be ours (ip, schemes of plug-ins) do not count
// here. At worst we grant ourselves too much, until the plan's list is set.
func missingRights(h *lock.Held, c *plan.Change, list kind.List) kind.Perm {
	need := kind.PermWrite
	if access.Need(c.Kind)&kind.PermCreate != 0 {
		need |= kind.PermCreate | kind.PermDelete
	}
	sure, _ := list.Rights(h.Client.Identities()...)
	return need &^ sure
}

// pinOf is the pin of a path, nil if the plan did not rely on it.
func pinOf(p *plan.Plan, path string) *plan.Pin {
	i, ok := slices.BinarySearchFunc(p.Pins, path, func(pin plan.Pin, path string) int { return strings.Compare(pin.Path, path) })
	if !ok {
		return nil
	}
	return &p.Pins[i]
}
