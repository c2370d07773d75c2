package apply

import (
	"context"
	"slices"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// widen adds, before the transaction, the rights that we lack for it to the access lists
// of nodes on which we have ADMIN. It only adds, and only to lists that the plan replaces
// in any case, so that if an apply ends here the next one finishes it.
//
// It does not touch a node to be imported, which is another program's until the transaction. Nor does
// it touch a namespace whose list stays as it is, even if something is to be created in it: as far as
// we can know, that right was taken from us on purpose, and the error says what is missing.
func (r *locked) widen(ctx context.Context) error {
	var steps []int
	for i := range r.p.Changes {
		c := &r.p.Changes[i]
		if c.Action == plan.Update && c.ACL != nil && !c.NeedsIdle() && c.Importing == "" &&
			!c.Before.ACL.Equal(c.After.ACL) && r.lacks(c, c.Before.ACL) != 0 {
			steps = append(steps, i)
		}
	}
	if len(steps) == 0 {
		return nil
	}
	r.copyChanges()
	for _, i := range steps {
		c := &r.p.Changes[i]
		before, live := *c.Before, *c.Before.Live
		list, err := r.shown(ctx, c.Path, before.ACL)
		if err != nil {
			continue // as below
		}
		before.ACL = list
		admin := slices.IndexFunc(before.ACL, func(a kind.ACL) bool {
			sure, _ := kind.List{a}.Rights(r.x.client.Identities()...)
			return sure&kind.PermAdmin != 0
		})
		if admin < 0 || r.lacks(c, list) == 0 {
			continue // the transaction's error will say what is missing
		}
		grant := before.ACL[admin]
		grant.Perms = r.lacks(c, list)
		before.ACL = append(slices.Clone(list), grant).Normalize()
		step := plan.ACLStep{Addr: c.Addr, Path: c.Path, ACL: before.ACL, Aversion: live.Aversion}
		if live.Aversion, err = r.setACL(ctx, step); err != nil {
			return err
		}
		r.prepared = append(r.prepared, "we were given the rights that we lacked on "+c.Path)
		r.emit(event.ACLWidened{Addr: c.Addr, Path: c.Path})
		before.Live, c.Before = &live, &before
		if pin := r.p.Pin(c.Path); pin != nil {
			pin.Aversion = live.Aversion
		}
	}
	return nil
}

// lacks returns the rights that the transaction needs on the node and a list does not give us. READ is
// not among them: a node that we may not read is not in the plan. Entries that may be ours (ip, schemes
// of plug-ins) do not count here. At worst we grant ourselves too much, until the plan's list is set.
func (r *locked) lacks(c *plan.Change, list kind.List) kind.Perm {
	need := kind.PermWrite
	if plan.Need(c.Kind)&kind.PermCreate != 0 {
		need |= kind.PermCreate | kind.PermDelete
	}
	sure, _ := list.Rights(r.x.client.Identities()...)
	return need &^ sure
}
