package prepare

import (
	"context"
	"slices"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/lock"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// Widen adds, before the transaction, the rights that we lack for it to the access lists
// of nodes on which we have ADMIN. It only adds, and only to lists that the plan replaces
// in any case, so that if an apply ends here the next one finishes it.
//
// It does not touch a node to be imported, which is another program's until the transaction. Nor does
// it touch a namespace whose list stays as it is, even if something is to be created in it: as far as
// we can know, that right was taken from us on purpose, and the error says what is missing.
//
// It returns the plan with the versions that it wrote.
func Widen(ctx context.Context, h *lock.Held, p *plan.Plan, besides *failure.Besides) (*plan.Plan, error) {
	var steps []int
	for i := range p.Changes {
		c := &p.Changes[i]
		if c.Action == plan.Update && c.ACL != nil && !c.NeedsIdle() && c.Importing == "" &&
			!c.Before.ACL.Equal(c.After.ACL) && lacks(h, c, c.Before.ACL) != 0 {
			steps = append(steps, i)
		}
	}
	if len(steps) == 0 {
		return p, nil
	}
	p = copied(p)
	for _, i := range steps {
		c := &p.Changes[i]
		before, live := *c.Before, *c.Before.Live
		list, err := read.Shown(ctx, h.Session, c.Path, before.ACL)
		if err != nil {
			continue // as below
		}
		before.ACL = list
		admin := slices.IndexFunc(before.ACL, func(a kind.ACL) bool {
			sure, _ := kind.List{a}.Rights(h.Client.Identities()...)
			return sure&kind.PermAdmin != 0
		})
		if admin < 0 || lacks(h, c, list) == 0 {
			continue // the transaction's error will say what is missing
		}
		grant := before.ACL[admin]
		grant.Perms = lacks(h, c, list)
		before.ACL = append(slices.Clone(list), grant).Normalize()
		step := plan.ACLStep{Addr: c.Addr, Path: c.Path, ACL: before.ACL, Aversion: live.Aversion}
		if live.Aversion, err = h.SetACL(ctx, step); err != nil {
			return nil, err
		}
		besides.Add("we were given the rights that we lacked on " + c.Path)
		h.Emit(event.ACLWidened{Addr: c.Addr, Path: c.Path})
		before.Live, c.Before = &live, &before
		if pin := p.Pin(c.Path); pin != nil {
			pin.Aversion = live.Aversion
		}
	}
	return p, nil
}

// lacks returns the rights that the transaction needs on the node and a list does not give us. READ is
// not among them: a node that we may not read is not in the plan. Entries that may be ours (ip, schemes
// of plug-ins) do not count here. At worst we grant ourselves too much, until the plan's list is set.
func lacks(h *lock.Held, c *plan.Change, list kind.List) kind.Perm {
	need := kind.PermWrite
	if plan.Need(c.Kind)&kind.PermCreate != 0 {
		need |= kind.PermCreate | kind.PermDelete
	}
	sure, _ := list.Rights(h.Client.Identities()...)
	return need &^ sure
}
