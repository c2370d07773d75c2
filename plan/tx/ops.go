package tx

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
)

// OpKind is an operation of a ZooKeeper transaction.
type OpKind string

// Op is one operation of the transaction of a plan.
type Op struct {
	Kind    OpKind
	Addr    plan.Addr // the change it belongs to; "" for the record
	Path    string
	Data    []byte    // create, set
	ACL     kind.List // create
	Then    kind.List // create: the final list, which a second pass sets; nil if ACL is final
	Version int32     // check, set, delete
}

// deleteOps returns the operations that delete the node, its parts first.
//
// They are not a recursive deletion. A child that is not a part makes ZooKeeper refuse the whole transaction (NotEmpty). So a
// contender that queued at the last moment keeps its lock (TestContenderThatArrivesAtTheLastMomentIsUnharmed).
func deleteOps(c *plan.Change) []Op {
	if c.Action != plan.Delete && c.Action != plan.Replace || c.Before == nil || c.Before.Live == nil {
		return nil
	}
	var ops []Op
	for _, part := range c.Before.Live.Parts {
		if !part.Absent {
			version := part.Version
			if part.Written && c.Action == plan.Delete && c.NextPath == "" {
				version = -1 // data that was written since is deleted too
			}
			ops = append(ops, Op{Kind: OpDelete, Addr: c.Addr, Path: kind.JoinPath(c.Path, part.Name), Version: version})
		}
	}
	// The deletion also proves that no contender is in the queue. No version proves that: contenders do not change the data version
	// of the lock.
	return append(ops, Op{Kind: OpDelete, Addr: c.Addr, Path: c.Path, Version: c.Before.Live.Version})
}

// keptClear is the data version that a family's new node gets if the old node had a lower one. So a client's transaction fails
// that was sent for the old family and arrives late, because it checks the old version.
const keptClear = 2

// writeOps returns the operations that create or update the node, its parts after it.
func writeOps(p *plan.Plan, c *plan.Change) ([]Op, error) {
	parts := c.MissingParts
	switch {
	case c.Action == plan.Create, c.Action == plan.Replace:
		parts = c.After.Payload.Children()
	}
	if c.Action == plan.Delete || c.Action == plan.NoOp && !c.Renamed() && !c.Unsealed {
		return nil, nil
	}
	data, err := markOf(p, c)
	if err != nil {
		return nil, fmt.Errorf("plan: %s: %w", c.Addr, err)
	}
	var ops []Op
	switch {
	// A transaction can set an access list only with a create (MultiOperationRecord has no setACL). So a new node has its final
	// list at once, or a wider one until the apply has replaced administrators, see Op.Then.
	case c.Action == plan.Create || c.Action == plan.Replace:
		ops = append(ops, Op{Kind: OpCreate, Addr: c.Addr, Path: c.Path, Data: data, ACL: c.After.ACL})
		// A client that locks a key checks the version of the declaration that it read. A late transaction may check the old
		// node's version, or the one before this apply drained the family. The new node must have neither.
		for v := int32(0); c.Action == plan.Replace && c.Before.Kind().Key != nil && c.Before.Live.Version < keptClear && v < keptClear; v++ {
			ops = append(ops, Op{Kind: OpSet, Addr: c.Addr, Path: c.Path, Data: data, Version: v})
		}
	case c.Action == plan.Forget || c.Rewrites() || c.Unsealed:
		ops = append(ops, Op{Kind: OpSet, Addr: c.Addr, Path: c.Path, Data: data, Version: c.Before.Live.Version})
	}
	for _, name := range parts {
		ops = append(ops, Op{Kind: OpCreate, Addr: c.Addr, Path: kind.JoinPath(c.Path, name), Data: recordOf(c, name), ACL: c.Kind.PartACL(name, c.After.ACL)})
	}
	return ops, nil
}

// recordOf is the data of a part that is created.
func recordOf(c *plan.Change, part string) []byte {
	from := c.Before
	if c.PreviousPath != "" || c.NextPath != "" { // the node at this path is another lock's
		from = c.Former
	}
	if part != c.Kind.Record || from.Kind() != c.Kind {
		return nil
	}
	return usersRecord(from)
}

// Admit adds the administrators whom the plan removes to the list of a new node.
func Admit(p *plan.Plan, list kind.List) kind.List {
	return slices.Concat(list, p.Before.Leaving).Normalize()
}

// admit adds the administrators whom the plan removes to the lists of the nodes that the operations create.
func admit(p *plan.Plan, ops []Op) []Op {
	if len(p.Before.Leaving) == 0 {
		return ops
	}
	for i := range ops {
		op := &ops[i]
		if both := Admit(p, op.ACL); op.Kind == OpCreate && !both.Equal(op.ACL) {
			op.ACL, op.Then = both, op.ACL
		}
	}
	return ops
}

// ACLSteps returns the access lists to set on the nodes that the transaction created.
func (tx *Transaction) ACLSteps() []plan.ACLStep { return stepsOf(tx.Ops) }

func stepsOf(ops []Op) (steps []plan.ACLStep) {
	for _, op := range ops {
		if op.Then != nil {
			steps = append(steps, plan.ACLStep{Addr: op.Addr, Path: op.Path, Before: op.ACL, ACL: op.Then})
		}
	}
	return steps
}

// markOf is the data of a node as the plan leaves it. A node of no stack gets no sum. A node whose list is hidden from us also
// gets none, because the plan could not compare that list.
func markOf(p *plan.Plan, c *plan.Change) ([]byte, error) {
	marked := *c.After.Payload
	marked.Sum = ""
	if marked.Owner.Stack != "" && !c.Hides() {
		var err error
		if marked.Sum, err = record.Sum(keyOf(p), c.After.Path, c.After.Payload, c.After.ACL); err != nil {
			return nil, err
		}
	}
	return marked.Encode()
}

// usersRecord is what the users of a lock have written in it; nil for most kinds.
func usersRecord(n *plan.Node) []byte {
	if n == nil || n.Live == nil {
		return nil
	}
	for _, part := range n.Live.Parts {
		if part.Written {
			return slots.CarryRecord(part.Record, part.CreatedMs)
		}
	}
	return nil
}

// The operations.
const (
	OpCheck  OpKind = "check"
	OpCreate OpKind = "create"
	OpSet    OpKind = "set"
	OpDelete OpKind = "delete"
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

// indexHead returns the record without Untracked and Nodes, which withRecord adds. steps are the access lists to set on new
// nodes.
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
// It is fixed so that the size of a transaction is known before the id is known.
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

// recordOp returns the operation that writes the record, if the record is still as pinned.
func recordOp(x *record.Record, at plan.Pin, acl kind.List) (Op, error) {
	data, err := x.Encode()
	if at.Absent {
		return Op{Kind: OpCreate, Path: at.Path, Data: data, ACL: acl}, err
	}
	return Op{Kind: OpSet, Path: at.Path, Data: data, Version: at.Version}, err
}

// dropIndex deletes the record, if there is one, and writes the apply lock. The sender holds that lock, so the write checks no
// version.
func dropIndex(p *plan.Plan, index plan.Pin, acl kind.List) ([]Op, error) {
	ops, err := lockOp(p, acl) // this raises the version that plan.Tree.Destroys has
	if !index.Absent {
		ops = append(ops, Op{Kind: OpDelete, Path: index.Path, Version: index.Version})
	}
	return ops, err
}

// Untracked returns the nodes of the stack that no walk from the root finds. A namespace around them is not walked into, or
// belongs to another program now. The record names them until they are gone, and before the last transaction also those that are
// yet to go.
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

// noteSet writes the root's set into the record. While an apply replaces the set, the record has the old and the new one.
func noteSet(p *plan.Plan, x *record.Record, pending bool) {
	x.Access, x.Next = p.Before.Noted, nil
	switch {
	case p.RootSet.Limited && !p.Index.Absent:
		x.Next = p.Before.Next
	case p.RootSet.Standing == record.StandsReplaces && pending:
		if x.Access, x.Next = slices.Concat(p.Before.Noted, p.Before.Next).Normalize(), p.Set.List(); !p.RootSet.There.Masked() {
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

// relock writes the data of the apply lock again: that data has the list with which contenders are created. The sender holds the
// lock, so any version of its data is right. The write raises the count in [plan.Tree].Destroys, which only makes earlier plans
// stale. Until all lists are set, the contenders' list also admits the former administrators, who may have to finish.
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

// keySteps are what the record notes about the lists of key nodes. The nodes are not known before their lists are set.
func keySteps(p *plan.Plan) (steps []plan.ACLStep) {
	for c := range p.Each() {
		for _, l := range c.FormerLists {
			steps = append(steps, plan.ACLStep{Addr: c.Addr, Path: c.Path, Before: l, ACL: c.After.Payload.ChildACL})
		}
	}
	return steps
}

// keyOf is the key of the sums that the plan writes; for a plan that is only measured, zeros of the same length.
func keyOf(p *plan.Plan) string {
	if p.Before.Key == "" {
		return strings.Repeat("0", record.KeyLen)
	}
	return p.Before.Key
}

// maxPending bounds the list of pending changes, in bytes. Lists beyond it count as changed by hand if the apply is interrupted.
const maxPending = 64 << 10
