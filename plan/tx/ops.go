package tx

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan"
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
	Then    kind.List // create: the list that is set when all others are, nil if that is ACL
	Version int32     // check, set, delete
}

// deletes returns the operations that delete the node, its parts first.
//
// They are not a recursive deletion. A child that is not a part makes ZooKeeper refuse the whole
// transaction (NotEmpty): that protects a lock for which somebody queued at the last moment
// (TestContenderThatArrivesAtTheLastMomentIsUnharmed).
func deletes(c *plan.Change) []Op {
	if c.Action != plan.Delete && c.Action != plan.Replace || c.Before == nil || c.Before.Live == nil {
		return nil
	}
	var ops []Op
	for _, part := range c.Before.Live.Parts {
		if !part.Absent {
			version := part.Version
			if part.Written && c.Action == plan.Delete && c.NextPath == "" {
				version = -1 // what was written since goes too
			}
			ops = append(ops, Op{Kind: OpDelete, Addr: c.Addr, Path: kind.JoinPath(c.Path, part.Name), Version: version})
		}
	}
	// The deletion also proves that no contender is in the queue. No version proves that, because contenders do not change the data's.
	return append(ops, Op{Kind: OpDelete, Addr: c.Addr, Path: c.Path, Version: c.Before.Live.Version})
}

// keptClear is the version of the node of a family that takes the place of one with a lower version.
const keptClear = 2

// writes returns the operations that create or update the node, its parts after it.
func writes(p *plan.Plan, c *plan.Change) ([]Op, error) {
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
	// A new node has its final access list at once: a transaction can set one only with a create
	// (MultiOperationRecord has no setACL).
	case c.Action == plan.Create || c.Action == plan.Replace:
		ops = append(ops, Op{Kind: OpCreate, Addr: c.Addr, Path: c.Path, Data: data, ACL: c.After.ACL})
		// Whoever locks a key checks the version of the declaration that it read. Of a transaction that comes late, the new node must
		// not have that version: neither the present one nor, where this apply has closed the family, the one before.
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

// Admit adds to the list of a node that is created those who leave.
func Admit(p *plan.Plan, list kind.List) kind.List {
	return slices.Concat(list, p.Before.Leaving).Normalize()
}

// admit lets those who leave into what the operations create.
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

// ACLSteps returns the access lists to set on what the transaction created.
func (tx *Transaction) ACLSteps() []plan.ACLStep { return stepsOf(tx.Ops) }

func stepsOf(ops []Op) (steps []plan.ACLStep) {
	for _, op := range ops {
		if op.Then != nil {
			steps = append(steps, plan.ACLStep{Addr: op.Addr, Path: op.Path, Before: op.ACL, ACL: op.Then})
		}
	}
	return steps
}

// markOf is the data of a node as the plan leaves it. A node of no stack has no sum, nor has one whose list is hidden from us: what
// the plan says of that was never compared.
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
