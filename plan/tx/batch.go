package tx

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// MaxTransaction is the largest transaction that is planned, in bytes. A server accepts requests below 1 MiB and drops the
// connection of a client that sends more. The rest is left for the fencing check and the protocol.
const MaxTransaction = 900_000

// reserve leaves room in each transaction for data that is not known when it is begun: the lists that are pending on its new
// nodes, and the data of the apply lock.
const reserve = 100_000

// Transaction is one of the transactions of a plan.
type Transaction struct {
	ID      string         // the apply id that it writes into the record
	Ops     []Op           // in order; the last one is the record's
	Changes []*plan.Change // the changes it makes, without those that change nothing
	Index   *record.Record // the record after the transaction; nil if none is left
	Last    bool
	// Divisible means that the transaction can be cut, see [ErrTooLong].
	Divisible bool
}

// Each calls yield for the transactions of the plan in order, and stops at its first error. Most plans have one transaction. A
// plan that does not fit into [MaxTransaction] is cut between changes, so that after each transaction every lock exists
// completely or not at all. If an apply ends between two transactions, the next plan finishes its work. Changes that must happen
// at one moment stay in one transaction: a lock with its structural children, the creation of a lock at its new path with the
// deletion at its old one.
//
// If yield returns [ErrTooLong], the transaction is cut again and all that follow are made
// smaller. A transaction that cannot be cut ends with the error. So yield must return ErrTooLong only for a transaction that was
// certainly not committed: it is called again with the same changes, in smaller transactions.
//
// The first transaction writes applyID into the record. Each later one adds its number to the last four digits. indexACL is the
// access list of a new record.
func Each(p *plan.Plan, applyID string, indexACL kind.List, yield func(*Transaction) error) error {
	if !p.HasChanges() {
		return nil
	}
	b := &batcher{p: p, id: applyID, acl: indexACL, at: p.Index, untracked: Untracked(p, false), left: p.Before.Left}
	head, err := b.withRecord(indexHead(p, applyID, nil), &Transaction{})
	b.budget = MaxTransaction - reserve - payload(head)
	for units := unitsOf(p); err == nil; {
		var tx *Transaction
		var taken int
		if tx, taken, err = b.cut(units); err != nil {
			return err
		}
		switch err = yield(tx); {
		case errors.Is(err, ErrTooLong) && tx.Divisible:
			b.budget, err = min(b.budget, Size(tx.Ops))/2, nil
		case errors.Is(err, ErrLeft):
			err = nil
		case err == nil && tx.Last:
			return nil
		case err == nil:
			b.committed(tx)
			units = units[taken:]
		}
	}
	return err
}

// ErrTooLong means that a transaction is longer than the servers accept; see
// [Each].
var ErrTooLong = errors.New("plan: the transaction is longer than the servers read")

// ErrLeft means that a transaction was not committed and that some of its changes were replaced since: see [plan.Change.Leave].
// The yield of [Each] returns this error to get the transaction again.
var ErrLeft = errors.New("plan: the transaction is to be made again")

// noOpAt returns the Change of the path if that changes nothing. In Changes, those that are not deletions come last, ordered by
// path.
func noOpAt(p *plan.Plan, path string) *plan.Change {
	rest := p.Changes[sort.Search(len(p.Changes), func(i int) bool { return p.Changes[i].Action != plan.Delete }):]
	i, ok := slices.BinarySearchFunc(rest, path, func(c plan.Change, path string) int { return cmp.Compare(c.Path, path) })
	if !ok || rest[i].Action != plan.NoOp || rest[i].Renamed() {
		return nil
	}
	return &rest[i]
}

// batcher cuts a plan into transactions.
type batcher struct {
	p   *plan.Plan
	id  string
	acl kind.List

	budget    int            // for the changes of a transaction, in bytes
	n         int            // transactions so far
	at        plan.Pin       // the pin of the record after the transactions so far
	steps     []plan.ACLStep // access lists to set on the nodes that these transactions create
	untracked []string       // see [Untracked]
	left      record.Roll    // the nodes that these transactions leave
}

// cut makes the next transaction from the first units: as many as its budget allows, but at least one.
//
// The repetition after [ErrTooLong] comes to an end: each attempt at least halves the budget. Once that is below the smallest
// unit's size, every transaction has one unit, or only the record. The budget becomes half of the length that was sent, because
// that may be far below the old budget.
func (b *batcher) cut(units [][]*plan.Change) (tx *Transaction, taken int, err error) {
	tx = &Transaction{ID: numberedID(b.id, b.n)}
	size, checked := 0, map[string]bool{} // paths of namespaces that the transaction checks
	for ; taken < len(units); taken++ {
		unit := units[taken]
		ops, err := operations(b.p, unit)
		if err != nil {
			return nil, 0, err
		}
		ops = slices.Concat(namespaceChecks(b.p, unit, checked), ops)
		if size += payload(ops); taken > 0 && size > b.budget {
			break
		}
		tx.Ops, tx.Changes = append(tx.Ops, ops...), append(tx.Changes, unit...)
	}
	tx.Last, tx.Divisible = taken == len(units), taken > 1
	if b.n == 0 { // what belongs to no change goes with the first transaction
		lock, err := relock(b.p)
		if err != nil {
			return nil, 0, err
		}
		tx.Ops = slices.Concat(tx.Ops, admit(b.p, lock))
	}
	head, err := b.head(tx)
	tx.Ops = append(tx.Ops, head...) // the record's operation is last: apply looks for its deletion there
	return tx, taken, err
}

// unitsOf returns the units, which are never divided, in the order of execution. A read finds the contents of a namespace by the
// namespace's mark, so the namespace is forgotten last.
func unitsOf(p *plan.Plan) (out [][]*plan.Change) {
	var made []*plan.Change
	var forgotten, unsealed [][]*plan.Change
	linked := false
	for c := range p.Each() {
		switch {
		case c.Action == plan.NoOp && !c.Renamed():
			if c.Unsealed {
				unsealed = append(unsealed, []*plan.Change{c})
			}
		case c.Kind.Container && c.Action == plan.Forget:
			forgotten = append(forgotten, []*plan.Change{c})
		default:
			made, linked = append(made, c), linked || c.NextPath != ""
		}
	}
	if linked {
		out = divide(made)
	} else {
		for i := range made {
			out = append(out, made[i:i+1])
		}
	}
	slices.Reverse(forgotten)
	return slices.Concat(out, unsealed, forgotten)
}

// operations returns the operations of a unit. ZooKeeper runs a transaction in order, and each operation sees the ones
// before it, so a replaced node is gone when it is created again.
//
// If an update does not write the node's data, the transaction checks the node's version. Every other node of the unit
// is guarded by the version of its write. Nodes that stay and that nothing depends on are not checked. An edit by hand there is a
// matter for the next plan, and a check for each node would make the transaction as long as the tree.
func operations(p *plan.Plan, unit []*plan.Change) (ops []Op, err error) {
	for _, c := range slices.Backward(unit) {
		ops = append(ops, deleteOps(c)...)
	}
	for _, c := range unit {
		if c.Action == plan.Update && !c.Rewrites() && !c.Unsealed {
			ops = append(ops, Op{Kind: OpCheck, Addr: c.Addr, Path: c.Path, Version: c.Before.Live.Version})
		}
		more, err := writeOps(p, c)
		if err != nil {
			return nil, err
		}
		ops = append(ops, more...)
	}
	return admit(p, ops), nil
}

// namespaceChecks returns checks of the namespaces around the new nodes of a unit, if the transaction does not have them yet.
func namespaceChecks(p *plan.Plan, unit []*plan.Change, checked map[string]bool) (ops []Op) {
	for _, c := range unit {
		if parent := untouchedNamespace(p, c); parent != nil && !checked[parent.Path] {
			checked[parent.Path] = true
			ops = append(ops, Op{Kind: OpCheck, Addr: parent.Addr, Path: parent.Path, Version: parent.Before.Live.Version})
		}
	}
	return ops
}

// untouchedNamespace returns the namespace around the new node c, if the plan leaves it as it is.
//
// The creation itself proves that the namespace exists. The check proves that it is still the namespace that the plan saw, and
// not a lock: each child of a lock counts as a contender. If this plan writes the namespace, that write checks its version
// anyway.
func untouchedNamespace(p *plan.Plan, c *plan.Change) *plan.Change {
	if c.Action != plan.Create {
		return nil
	}
	parent := noOpAt(p, kind.ParentPath(c.Path))
	if parent == nil || parent.Before == nil || parent.Before.Live == nil {
		return nil
	}
	return parent
}

// numberedID is the apply id with the number of a transaction added to its last four digits. The first one has the id itself, and
// up to 65,536 transactions have different ids. If the number replaced those digits, one id in 65,536 would already end in the
// number of the second transaction (0001). If the second reply were lost, the first transaction's id would be read as proof that
// the second was committed.
func numberedID(id string, n int) string {
	if n == 0 {
		return id
	}
	at := len(id) - 4
	last, _ := strconv.ParseUint(id[at:], 16, 16) // of an id of ours, always digits
	return fmt.Sprintf("%s%04x", id[:at], uint16(last)+uint16(n))
}

// committed updates the batcher after a transaction that is not the last one.
func (b *batcher) committed(tx *Transaction) {
	b.n++
	b.steps = append(b.steps, stepsOf(tx.Ops)...)
	b.left = tx.Index.Nodes
	if b.at.Absent {
		b.at.Absent = false
	} else {
		b.at.Version++
	}
}

// roll returns the roll of the nodes that exist after the transaction.
func (b *batcher) roll(tx *Transaction) []byte {
	next := record.NewRoll()
	copy(next, b.left)
	ours := func(n *plan.Node) bool { return n != nil && n.Payload.Owner.Stack == b.p.Stack }
	for _, c := range tx.Changes {
		before := c.Action == plan.Create && c.Drift || c.Before != nil && c.Before.Payload != nil && ours(c.Before)
		if before != ours(c.After) {
			next.Toggle(c.Path)
		}
	}
	return next
}

// divide divides changes, which are in the order of execution, into units. If a lock's path changes, its deletion and its creation
// are in one unit. Locks that exchange their paths are also in one unit. A unit comes after the units that it needs.
//
// The units are the strongly connected components of what needs what, by Tarjan's algorithm: it finds those that are needed first.
func divide(changes []*plan.Change) [][]*plan.Change {
	t := &tying{at: make(map[string]*plan.Change, len(changes)), inside: map[string][]*plan.Change{}, seen: map[*plan.Change]int{}, low: map[*plan.Change]int{}, done: map[*plan.Change]bool{}}
	for _, c := range changes {
		t.at[c.Path] = c
		if isDeleted(c) {
			around := kind.ParentPath(c.Path)
			t.inside[around] = append(t.inside[around], c)
		}
	}
	for _, c := range changes {
		if t.seen[c] == 0 {
			t.visit(c)
		}
	}
	return t.units
}

type tying struct {
	at     map[string]*plan.Change
	inside map[string][]*plan.Change // by the path of a namespace: the nodes in it that are deleted
	seen   map[*plan.Change]int      // when it was visited, from 1
	low    map[*plan.Change]int      // when the first change in its circle of needs was visited, as far as is known
	done   map[*plan.Change]bool     // it is in a unit
	stack  []*plan.Change
	units  [][]*plan.Change
}

func (t *tying) visit(c *plan.Change) {
	t.seen[c] = len(t.seen) + 1
	t.low[c] = t.seen[c]
	t.stack = append(t.stack, c)
	for _, o := range t.needs(c) {
		if t.seen[o] == 0 {
			t.visit(o)
		}
		if !t.done[o] {
			t.low[c] = min(t.low[c], t.low[o])
		}
	}
	if t.low[c] < t.seen[c] {
		return
	}
	i := slices.Index(t.stack, c)
	unit := slices.Clone(t.stack[i:])
	t.stack = t.stack[:i]
	for _, o := range unit {
		t.done[o] = true
	}
	slices.SortFunc(unit, func(a, b *plan.Change) int { return cmp.Compare(a.Path, b.Path) })
	t.units = append(t.units, unit)
}

// needs are the changes that come before a change, or with it: a node is deleted after its contents, and created after its
// parent.
func (t *tying) needs(c *plan.Change) (out []*plan.Change) {
	if isDeleted(c) {
		out = slices.Clone(t.inside[c.Path])
	}
	if around := t.at[kind.ParentPath(c.Path)]; around != nil && around.Action != plan.Delete && c.After != nil {
		out = append(out, around)
	}
	for _, other := range c.Tied() {
		if o := t.at[other]; o != nil {
			out = append(out, o)
		}
	}
	return out
}

// isDeleted reports whether the node that is there is deleted.
func isDeleted(c *plan.Change) bool { return c.Action == plan.Delete || c.Action == plan.Replace }

// Measure fills in the statistics. If a declaration cannot be encoded, that is a problem already and
// there is nothing to measure.
//
// Unknown values get their longest form: the id is zeros of full length. Without declared administrators, the new record gets one
// of two lists, depending on the connection. Measure counts the longer one.
func Measure(p *plan.Plan) {
	own := kind.WorldAll()
	if p.Set != nil {
		own = p.Set.List()
	}
	var each []plan.Stats
	lists := len(p.ACLSteps())
	for c := range p.Each() {
		if c.FormerLists != nil {
			n, _ := c.FormerKeys()
			lists += n
		}
	}
	err := Each(p, strings.Repeat("0", ApplyIDLen), own, func(tx *Transaction) error {
		s := plan.Stats{Ops: len(tx.Ops), Bytes: Size(tx.Ops)}
		if s.Bytes > MaxTransaction {
			tooLong(p, tx, s)
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
	p.Problems = slices.DeleteFunc(p.Problems, func(q plan.Problem) bool { return q.Code == problem.Budget })
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

// tooLong notes a change that fits into no transaction. It replaces an earlier note, because only the smallest attempt counts.
// Outputs that are too long are a problem already.
func tooLong(p *plan.Plan, tx *Transaction, s plan.Stats) {
	if slices.ContainsFunc(p.Problems, func(q plan.Problem) bool { return q.Code == problem.Outputs }) {
		return
	}
	q := plan.Problem{
		Severity: problem.Error, Code: problem.Budget, Summary: "Change is too large for a transaction",
		Detail: fmt.Sprintf("It takes %d operations with %d bytes in one transaction, and the limit is %d bytes: a ZooKeeper server drops the connection "+
			"at 1 MiB. Shorten the declaration, most often an access list.", s.Ops, s.Bytes, MaxTransaction),
	}
	if len(tx.Changes) > 0 {
		q.Addr, q.Path = tx.Changes[0].Addr, tx.Changes[0].Path
		if n := tx.Changes[0].After; n != nil {
			q.Origin = n.Origin
		}
	}
	p.Problems = slices.DeleteFunc(p.Problems, func(q plan.Problem) bool { return q.Code == problem.Budget })
	p.Problems = slices.Insert(p.Problems, 0, q)
}

// Size returns the length of a transaction on the wire, by ZooKeeper's encoding of jute records (MultiOperationRecord,
// CreateRequest and so on). Strings, buffers and lists carry a length of 4 bytes. Every operation and the end have a header of 9
// bytes, and the request has a length and a header of 12.
func Size(ops []Op) int {
	const request = 12
	return request + header + payload(ops)
}

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

const header = 9
