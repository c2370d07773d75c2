package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// OpKind is an operation of a ZooKeeper transaction.
type OpKind string

// The operations.
const (
	OpCheck  OpKind = "check"
	OpCreate OpKind = "create"
	OpSet    OpKind = "set"
	OpDelete OpKind = "delete"
)

// Op is one operation of the transaction of a plan.
type Op struct {
	Kind    OpKind
	Addr    Addr // the change it belongs to; "" for the record
	Path    string
	Data    []byte    // create, set
	ACL     kind.List // create
	Then    kind.List // create: the list that is set when all others are, nil if that is ACL
	Version int32     // check, set, delete
}

// ACLStep is one access list to set after the transaction.
type ACLStep struct {
	Addr     Addr
	Path     string
	Before   kind.List
	ACL      kind.List
	Aversion int32 // the version of the access list that the plan saw
	Czxid    int64 // of a declared node that the plan saw; else 0
	OfKey    bool  // of a family: it goes with its last user
}

// ApplyIDLen is the length of an apply id: hexadecimal digits of 64 random bits.
// It is fixed so that the size of a transaction is known before the id is.
const ApplyIDLen = 16

// dropIndex deletes the record, if there is one, and counts the destroys: who sends this
// holds the apply lock, so that any version of its data is right.
func (p *Plan) dropIndex(index Pin, acl kind.List) ([]Op, error) {
	ops, err := p.lockOp(acl) // the version of that node is the count
	if !index.Absent {
		ops = append(ops, Op{Kind: OpDelete, Path: index.Path, Version: index.Version})
	}
	return ops, err
}

// deletes returns the operations that delete the node, its parts first.
//
// They are not a recursive deletion. A child that is not a part makes ZooKeeper refuse the whole
// transaction (NotEmpty): that protects a lock for which somebody queued at the last moment
// (TestContenderThatArrivesAtTheLastMomentIsUnharmed).
func (c *Change) deletes() []Op {
	if c.Action != Delete && !c.anew() || c.Before == nil || c.Before.Live == nil {
		return nil
	}
	var ops []Op
	for _, part := range c.Before.Live.Parts {
		if !part.Absent {
			version := part.Version
			if part.Written && c.Action == Delete && c.NextPath == "" {
				version = -1 // what was written since goes too
			}
			ops = append(ops, Op{Kind: OpDelete, Addr: c.Addr, Path: kind.JoinPath(c.Path, part.Name), Version: version})
		}
	}
	return append(ops, Op{Kind: OpDelete, Addr: c.Addr, Path: c.Path, Version: c.Before.Live.Version})
}

// anew reports whether an existing node is deleted and created again. The deletion proves that no contender is in its queue. No
// version proves that, because contenders do not change the data's version.
func (c *Change) anew() bool {
	return c.Action == Replace
}

// keptClear is the version of the node of a family that takes the place of one with a lower version.
const keptClear = 2

// renamed reports whether only the node's address changes in a NoOp. Its marker is written nevertheless,
// otherwise every later plan would report the new address again.
func (c *Change) renamed() bool {
	return c.Action == NoOp && c.PreviousAddr != "" && c.Before != nil && c.Before.Payload.Owner != c.After.Payload.Owner
}

// writes returns the operations that create or update the node, its parts after it.
func (p *Plan) writes(c *Change) ([]Op, error) {
	parts := c.MissingParts
	switch {
	case c.Action == Create, c.Action == Replace:
		parts = c.After.Payload.Children()
	}
	if c.Action == Delete || c.Action == NoOp && !c.renamed() && !c.Unsealed {
		return nil, nil
	}
	data, err := p.mark(c)
	if err != nil {
		return nil, fmt.Errorf("plan: %s: %w", c.Addr, err)
	}
	var ops []Op
	switch {
	// A new node has its final access list at once: a transaction can set one only with a create
	// (MultiOperationRecord has no setACL).
	case c.Action == Create || c.anew():
		ops = append(ops, Op{Kind: OpCreate, Addr: c.Addr, Path: c.Path, Data: data, ACL: c.After.ACL})
		// Whoever locks a key checks the version of the declaration that it read. Of a transaction that comes late, the new node must
		// not have that version: neither the present one nor, where this apply has closed the family, the one before.
		for v := int32(0); c.anew() && c.Before.Kind().Key != nil && c.Before.Live.Version < keptClear && v < keptClear; v++ {
			ops = append(ops, Op{Kind: OpSet, Addr: c.Addr, Path: c.Path, Data: data, Version: v})
		}
	case c.Action == Forget || c.rewrites() || c.Unsealed:
		ops = append(ops, Op{Kind: OpSet, Addr: c.Addr, Path: c.Path, Data: data, Version: c.Before.Live.Version})
	}
	for _, name := range parts {
		ops = append(ops, Op{Kind: OpCreate, Addr: c.Addr, Path: kind.JoinPath(c.Path, name), Data: c.recordOf(name), ACL: c.Kind.PartACL(name, c.After.ACL)})
	}
	return ops, nil
}

// recordOf is the data of a part that is created.
func (c *Change) recordOf(part string) []byte {
	from := c.Before
	if c.PreviousPath != "" || c.NextPath != "" { // the node at this path is another lock's
		from = c.former
	}
	if part != c.Kind.Record || from.Kind() != c.Kind {
		return nil
	}
	return from.usersRecord()
}

// Admit adds to the list of a node that is created those who leave.
func (p *Plan) Admit(list kind.List) kind.List {
	return slices.Concat(list, p.prior.Leaving).Normalize()
}

// admit lets those who leave into what the operations create.
func (p *Plan) admit(ops []Op) []Op {
	if len(p.prior.Leaving) == 0 {
		return ops
	}
	for i := range ops {
		op := &ops[i]
		if both := p.Admit(op.ACL); op.Kind == OpCreate && !both.Equal(op.ACL) {
			op.ACL, op.Then = both, op.ACL
		}
	}
	return ops
}

// ACLSteps returns the access lists to set on what the transaction created.
func (tx *Transaction) ACLSteps() []ACLStep { return stepsOf(tx.Ops) }

func stepsOf(ops []Op) (steps []ACLStep) {
	for _, op := range ops {
		if op.Then != nil {
			steps = append(steps, ACLStep{Addr: op.Addr, Path: op.Path, Before: op.ACL, ACL: op.Then})
		}
	}
	return steps
}

// indexHead is the record without what depends on the transaction. steps are the access lists to set on what was created.
func (p *Plan) indexHead(applyID string, steps []ACLStep) *record.Record {
	x := &record.Record{Apply: applyID, Key: p.key(), Extra: p.prior.Extra}
	x.Pending = pendingOf(slices.Concat(p.ACLSteps(), p.keySteps(), steps))
	p.noteSet(x, len(x.Pending) > 0)
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

// ACLSteps returns the access lists to set on existing nodes after the transaction,
// children before parents. The order does not matter for the rights needed, since setting
// a list needs ADMIN on the node itself. It makes a namespace open or close last, when
// everything in it is as declared. What is in .locktree comes last, and then .locktree itself, whose list is the set of the root.
func (p *Plan) ACLSteps() []ACLStep {
	var steps []ACLStep
	for c := range p.Each() {
		if c.Action != Update || c.ACL == nil || c.Before.Live == nil || c.anew() {
			continue
		}
		if !c.Before.ACL.Equal(c.After.ACL) {
			steps = append(steps, ACLStep{Addr: c.Addr, Path: c.Path, Before: c.Before.ACL, ACL: c.After.ACL, Aversion: c.Before.Live.Aversion, Czxid: c.Before.Live.Czxid})
		}
		for _, part := range c.Before.Live.Parts {
			if list := c.Kind.PartACL(part.Name, c.After.ACL); !part.Absent && !part.ACL.Equal(list) {
				steps = append(steps, ACLStep{Addr: c.Addr, Path: kind.JoinPath(c.Path, part.Name), Before: part.ACL, ACL: list, Aversion: part.Aversion})
			}
		}
	}
	for _, c := range p.Access {
		if !c.Contenders {
			steps = append(steps, ACLStep{Addr: c.Addr, Path: c.Pin.Path, Before: c.Before, ACL: c.After, Aversion: c.Pin.Aversion})
		}
	}
	slices.SortFunc(steps, func(a, b ACLStep) int { return cmp.Compare(b.Path, a.Path) })
	own := func(s ACLStep) bool { return kind.Below(s.Path, record.ScaffoldPath(p.Root)) }
	rest := slices.DeleteFunc(slices.Clone(steps), own)
	return append(rest, slices.DeleteFunc(steps, func(s ACLStep) bool { return !own(s) })...)
}

// measure fills in the statistics. If a declaration cannot be encoded, that is a problem already and
// there is nothing to measure.
//
// What is not known yet is replaced: the id by one of the same length; the access list of new nodes of
// the record, if none is declared and the connection decides, by the longer of the two possible ones.
func (p *Plan) measure() {
	own := kind.WorldAll()
	if p.Set != nil {
		own = p.Set.List()
	}
	var each []Stats
	lists := len(p.ACLSteps())
	for c := range p.Each() {
		if c.FormerLists != nil {
			n, _ := c.formerKeys()
			lists += n
		}
	}
	err := p.Transactions(strings.Repeat("0", ApplyIDLen), own, func(tx *Transaction) error {
		s := Stats{Ops: len(tx.Ops), Bytes: Size(tx.Ops)}
		if s.Bytes > MaxTransaction {
			p.tooLong(tx, s)
			return ErrTooLong
		}
		each = append(each, s)
		lists += len(tx.ACLSteps())
		return nil
	})
	if err != nil || len(each) == 0 {
		return
	}
	// If a transaction was too long and cutting it helped, drop the problem noted on the way.
	p.Problems = slices.DeleteFunc(p.Problems, func(q Problem) bool { return q.Code == ProblemBudget })
	for _, s := range each {
		p.Transaction.Ops += s.Ops
		p.Transaction.Bytes += s.Bytes
	}
	p.Transaction.ACLPhase = lists
	if len(each) > 1 {
		p.Batches = each
		p.Batches[len(each)-1].ACLPhase = p.Transaction.ACLPhase
	}
}

// tooLong notes a change for which no transaction is large enough. It replaces an earlier note: the
// last one counts, if no smaller transactions are accepted either. Outputs that are too long are a problem already.
func (p *Plan) tooLong(tx *Transaction, s Stats) {
	if slices.ContainsFunc(p.Problems, func(q Problem) bool { return q.Code == ProblemOutputs }) {
		return
	}
	q := Problem{
		Severity: Error, Code: ProblemBudget, Summary: "Change is too large for a transaction",
		Detail: fmt.Sprintf("It takes %d operations with %d bytes in one transaction, and the limit is %d bytes: a ZooKeeper server drops the connection "+
			"at 1 MiB. Shorten the declaration, most often an access list.", s.Ops, s.Bytes, MaxTransaction),
	}
	if len(tx.Changes) > 0 {
		q.Addr, q.Path = tx.Changes[0].Addr, tx.Changes[0].Path
		if n := tx.Changes[0].After; n != nil {
			q.Origin = n.Origin
		}
	}
	p.Problems = slices.DeleteFunc(p.Problems, func(q Problem) bool { return q.Code == ProblemBudget })
	p.Problems = slices.Insert(p.Problems, 0, q)
}

// Size returns the length of a transaction on the wire, by the encoding of
// ZooKeeper's jute records (MultiOperationRecord, CreateRequest and so on):
// strings, buffers and lists carry a length of 4 bytes, every operation and the
// end a header of 9, the request a length and a header of 12.
func Size(ops []Op) int {
	const request = 12
	return request + header + payload(ops)
}

const header = 9

// payload is the size of the operations without the transaction's own header.
func payload(ops []Op) (n int) {
	for _, op := range ops {
		n += header + 4 + len(op.Path) + 4
		switch op.Kind {
		case OpCreate:
			n += 4 + len(op.Data) + 4
			for _, a := range op.ACL {
				n += 4 + 4 + len(a.Scheme) + 4 + len(a.ID)
			}
		case OpSet:
			n += 4 + len(op.Data)
		}
	}
	return n
}

// maxPending bounds the list of pending changes, in bytes. What is beyond it counts as changed by hand if the apply is interrupted.
const maxPending = 64 << 10

func pendingOf(steps []ACLStep) (all []record.Pending) {
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
func recordOp(x *record.Record, at Pin, acl kind.List) (Op, error) {
	data, err := x.Encode()
	if at.Absent {
		return Op{Kind: OpCreate, Path: at.Path, Data: data, ACL: acl}, err
	}
	return Op{Kind: OpSet, Path: at.Path, Data: data, Version: at.Version}, err
}
