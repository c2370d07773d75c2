package tx

import (
	"cmp"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// head is the operation of the record.
func (b *batcher) head(tx *Transaction) ([]Op, error) {
	if tx.Last && b.p.DropsIndex() {
		return dropIndex(b.p, b.at, b.acl)
	}
	tx.Index = indexHead(b.p, tx.ID, slices.Concat(b.steps, stepsOf(tx.Ops)))
	return b.withRecord(tx.Index, tx)
}

func (b *batcher) withRecord(x *record.Record, tx *Transaction) ([]Op, error) {
	x.Untracked, x.Nodes = b.untracked, b.roll(tx)
	if tx.Last {
		x.Untracked = Untracked(b.p, true)
	}
	op, err := recordOp(x, b.at, b.acl)
	return []Op{op}, err
}

// indexHead is the record without what depends on the transaction. steps are the access lists to set on what was created.
func indexHead(p *plan.Plan, applyID string, steps []plan.ACLStep) *record.Record {
	x := &record.Record{Apply: applyID, Key: keyOf(p), Extra: p.Before.Extra}
	x.Pending = pendingOf(slices.Concat(p.ACLSteps(), keySteps(p), steps))
	noteSet(p, x, len(x.Pending) > 0)
	for _, o := range p.Outputs {
		if o.After == nil {
			continue
		}
		if x.Outputs == nil {
			x.Outputs = map[string]record.Output{}
		}
		x.Outputs[o.Name] = record.Output{Type: o.After.Type, Value: o.After.Value, Sensitive: o.After.Sensitive}
	}
	return x
}

// ApplyIDLen is the length of an apply id: hexadecimal digits of 64 random bits.
// It is fixed so that the size of a transaction is known before the id is.
const ApplyIDLen = 16

func pendingOf(steps []plan.ACLStep) (all []record.Pending) {
	size := 0
	for _, s := range steps {
		one := record.Pending{From: s.Before, To: s.ACL}
		if slices.ContainsFunc(all, func(p record.Pending) bool { return slices.Equal(p.From, one.From) && slices.Equal(p.To, one.To) }) {
			continue
		}
		size += len(`{"from":[],"to":[]},`)
		for _, a := range slices.Concat(one.From, one.To) {
			size += len(a.Scheme) + len(a.ID) + len(`["","","cdrwa"],`)
		}
		if size > maxPending {
			return all
		}
		all = append(all, one)
	}
	return all
}

// recordOp writes the record where it was read.
func recordOp(x *record.Record, at plan.Pin, acl kind.List) (Op, error) {
	data, err := x.Encode()
	if at.Absent {
		return Op{Kind: OpCreate, Path: at.Path, Data: data, ACL: acl}, err
	}
	return Op{Kind: OpSet, Path: at.Path, Data: data, Version: at.Version}, err
}

// dropIndex deletes the record, if there is one, and counts the destroys: who sends this
// holds the apply lock, so that any version of its data is right.
func dropIndex(p *plan.Plan, index plan.Pin, acl kind.List) ([]Op, error) {
	ops, err := lockOp(p, acl) // the version of that node is the count
	if !index.Absent {
		ops = append(ops, Op{Kind: OpDelete, Path: index.Path, Version: index.Version})
	}
	return ops, err
}

// Untracked are the nodes of the stack that no walk from the root finds: a namespace around them is not walked into, or is another
// program's by now. The record names them until they are gone, and before the last transaction also those that are yet to go.
func Untracked(p *plan.Plan, last bool) []string {
	ours := func(n *plan.Node) bool { return n != nil && n.Payload.Owner.Stack == p.Stack }
	open := func(n *plan.Node) bool { return n != nil && n.Kind().Container && access.OthersCreateAfter(p, n.ACL) }
	walked := map[string]bool{}
	for c := range p.Each() {
		namespace := c.Kind.Container && ours(c.After) || ours(c.Before) && c.Before.Kind().Container
		if _, unread := p.Unread[c.Path]; namespace && !open(cmp.Or(c.After, c.Before)) && (!unread || open(c.Before)) {
			walked[c.Path] = true
		}
	}
	found := func(path string) bool {
		for path != p.Root && walked[path] {
			path = kind.ParentPath(path)
		}
		return path == p.Root
	}
	out := slices.Clone(p.Before.Untracked)
	for c := range p.Each() {
		if !found(kind.ParentPath(c.Path)) && (ours(c.After) || !last && ours(c.Before)) {
			out = append(out, c.Path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// noteSet writes into a record what set the stack knows: while it is being replaced, both.
func noteSet(p *plan.Plan, x *record.Record, pending bool) {
	x.Access, x.Next = p.Before.Noted, nil
	switch {
	case p.RootSet.Limited && !p.Index.Absent:
		x.Next = p.Before.Next
	case p.RootSet.Standing == plan.StandsReplaces && pending:
		if x.Access, x.Next = between(&p.Before), p.Set.List(); !p.RootSet.There.Masked() {
			x.Access = p.RootSet.There
		}
	case p.RootSet.Named():
		x.Access = p.Set.List()
	}
}

// Settled is the record after the plan, once all access lists are set.
func Settled(p *plan.Plan, x *record.Record) *record.Record {
	next := *x
	next.Pending = nil
	noteSet(p, &next, false)
	return &next
}

// relock writes the data of the apply lock anew, which says what its contenders are created with. Who
// sends this holds the lock, so that any version of its data is right. It counts as a destroy, see
// [plan.Tree]: all that matters there is that no plan of before fits.
// While lists are to be set, contenders are of those who were let in before, too: they may have to finish.
func relock(p *plan.Plan) ([]Op, error) {
	for _, c := range p.Access {
		if list := c.After; c.Contenders {
			if len(p.ACLSteps()) > 0 {
				list = slices.Concat(c.Before, list).Normalize()
			}
			return lockOp(p, list)
		}
	}
	return nil, nil
}

func lockOp(p *plan.Plan, list kind.List) ([]Op, error) {
	data, err := record.LockPayload(p.Stack, list)
	return []Op{{Kind: OpSet, Path: record.LockPath(p.Root, p.Stack), Data: data, Version: -1}}, err
}

// Relock is what is left to be written to the apply lock when all lists are set.
func Relock(p *plan.Plan) ([]Op, error) {
	for _, c := range p.Access {
		if c.Contenders && !c.After.Covers(c.Before) {
			return lockOp(p, c.After)
		}
	}
	return nil, nil
}

// keySteps are what the record notes of the lists of nodes of keys, which are not known before they are set.
func keySteps(p *plan.Plan) (steps []plan.ACLStep) {
	for c := range p.Each() {
		for _, l := range c.FormerLists {
			steps = append(steps, plan.ACLStep{Addr: c.Addr, Path: c.Path, Before: l, ACL: c.After.Payload.ChildACL})
		}
	}
	return steps
}

// keyOf is that of the sums that the plan writes: of a plan that is only measured, one of the same length.
func keyOf(p *plan.Plan) string {
	if p.Before.Key == "" {
		return strings.Repeat("0", record.KeyLen)
	}
	return p.Before.Key
}

// maxPending bounds the list of pending changes, in bytes. What is beyond it counts as changed by hand if the apply is interrupted.
const maxPending = 64 << 10

// between is all that may be in the set while it is replaced.
func between(p *plan.Before) kind.List { return slices.Concat(p.Noted, p.Next).Normalize() }
