package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"

	"github.com/locktree/locktree/recipes/kind"
)

// MaxTransaction is the largest transaction that is planned, in bytes. A server
// accepts requests below 1 MiB and drops the connection of a client that sends
// more; the rest is left for the fencing check and for what the protocol adds.
const MaxTransaction = 900_000

// reserve leaves room in each transaction for what is not known when it is begun: the lists that are pending on what it creates,
// the data of the apply lock, names of transactions.
const reserve = 100_000

// Transaction is one of the transactions of a plan.
type Transaction struct {
	ID      string    // apply id it writes into the record
	Ops     []Op      // in order; the last one is the record's
	Changes []*Change // the changes it makes, without those that change nothing
	Index   *Index    // the record as it leaves it; nil when it leaves none
	Last    bool
	// Divisible means that it can be cut, see [ErrTooLong].
	Divisible bool
}

// Transactions calls yield for the transactions of the plan in order, and stops at
// its first error. Most plans have one transaction. A plan that does not fit into
// [MaxTransaction] is cut between changes, so that after each transaction every lock
// exists completely or not at all: if an apply ends between two
// transactions, the next plan finishes its work. What must happen at one moment stays in
// one transaction: a lock with its structural children, the creation of a lock at its new path with
// the deletion at its old one.
//
// If yield returns [ErrTooLong], the transaction is cut again and all that follow are made
// smaller. A transaction that cannot be cut ends with the error. So yield must return ErrTooLong only for a transaction that was
// certainly not committed: it is called again with the same changes, in smaller transactions.
//
// applyID goes into the record, with the number of the transaction added to its last four
// digits from the second one on. indexACL is the access list of a new record.
func (p *Plan) Transactions(applyID string, indexACL kind.List, yield func(*Transaction) error) error {
	if !p.HasChanges() {
		return nil
	}
	b := &batcher{p: p, id: applyID, acl: indexACL, at: p.Index, untracked: p.untrackedPaths(false), left: p.prior.Left}
	record, err := b.record(p.indexHead(applyID, nil), &Transaction{})
	b.budget = MaxTransaction - reserve - payload(record)
	for units := p.units(); err == nil; {
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
// [Plan.Transactions].
var ErrTooLong = errors.New("plan: the transaction is longer than the servers read")

// ErrLeft means that a transaction was not committed, and that some of its changes are others now: see [Change.Leave]. Yield of
// [Plan.Transactions] returns it to get it again.
var ErrLeft = errors.New("plan: the transaction is to be made again")

// unchanged returns the change of the path if it changes nothing. In Changes, those that are not
// deletions come last, ordered by path.
func (p *Plan) unchanged(path string) *Change {
	rest := p.Changes[sort.Search(len(p.Changes), func(i int) bool { return p.Changes[i].Action != Delete }):]
	i, ok := slices.BinarySearchFunc(rest, path, func(c Change, path string) int { return cmp.Compare(c.Path, path) })
	if !ok || rest[i].Action != NoOp || rest[i].renamed() {
		return nil
	}
	return &rest[i]
}

// batcher cuts a plan into transactions.
type batcher struct {
	p   *Plan
	id  string
	acl kind.List

	budget    int       // for the changes of a transaction, in bytes
	n         int       // transactions so far
	at        Pin       // of the record, as they leave it
	steps     []ACLStep // access lists to set on what they create
	untracked []string  // see [Plan.untrackedPaths]
	left      roll      // the nodes that they leave
}

// cut makes the next transaction of the first units, as many as its budget allows but at least one.
//
// With [ErrTooLong] it ends: each attempt at least halves the budget, and once that is below the smallest unit's size, every transaction
// has one unit, or only the record. What was sent is halved and not only what was allowed, because it may have been far less.
func (b *batcher) cut(units [][]*Change) (tx *Transaction, taken int, err error) {
	tx = &Transaction{ID: numbered(b.id, b.n)}
	size, checked := 0, map[string]bool{} // paths of namespaces that the transaction checks
	for ; taken < len(units); taken++ {
		unit := units[taken]
		ops, err := b.p.operations(unit)
		if err != nil {
			return nil, 0, err
		}
		ops = slices.Concat(b.p.around(unit, checked), ops)
		if size += payload(ops); taken > 0 && size > b.budget {
			break
		}
		tx.Ops, tx.Changes = append(tx.Ops, ops...), append(tx.Changes, unit...)
	}
	tx.Last, tx.Divisible = taken == len(units), taken > 1
	if b.n == 0 { // what belongs to no change goes with the first transaction
		lock, err := b.p.relock()
		if err != nil {
			return nil, 0, err
		}
		tx.Ops = slices.Concat(tx.Ops, b.p.admit(lock))
	}
	head, err := b.head(tx)
	tx.Ops = append(tx.Ops, head...) // the last, where apply looks for its deletion
	return tx, taken, err
}

// units are what is not divided, in the order of execution. A namespace is forgotten after what is in it: until then its mark leads
// there.
func (p *Plan) units() (out [][]*Change) {
	var made []*Change
	var forgotten, unsealed [][]*Change
	linked := false
	for c := range p.Each() {
		switch {
		case c.Action == NoOp && !c.renamed():
			if c.Unsealed {
				unsealed = append(unsealed, []*Change{c})
			}
		case c.Kind.Container && c.Action == Forget:
			forgotten = append(forgotten, []*Change{c})
		default:
			made, linked = append(made, c), linked || c.NextPath != ""
		}
	}
	if linked {
		out = together(made)
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
// A node on which the transaction relies without writing it is checked: one whose parts alone change. Every other
// node of the unit is guarded by the version of its write. Nodes that stay and that nothing depends on are not checked: an
// edit by hand there is a matter for the next plan, and a check for each would make the transaction as long as the tree.
func (p *Plan) operations(unit []*Change) (ops []Op, err error) {
	for _, c := range slices.Backward(unit) {
		ops = append(ops, c.deletes()...)
	}
	for _, c := range unit {
		if c.Action == Update && !c.rewrites() && !c.Unsealed {
			ops = append(ops, Op{Kind: OpCheck, Addr: c.Addr, Path: c.Path, Version: c.Before.Live.Version})
		}
		more, err := p.writes(c)
		if err != nil {
			return nil, err
		}
		ops = append(ops, more...)
	}
	return p.admit(ops), nil
}

// around returns the checks of the namespaces in which a unit creates nodes, if the transaction does not check them yet.
func (p *Plan) around(unit []*Change, checked map[string]bool) (ops []Op) {
	for _, c := range unit {
		if parent := p.untouched(c); parent != nil && !checked[parent.Path] {
			checked[parent.Path] = true
			ops = append(ops, Op{Kind: OpCheck, Addr: parent.Addr, Path: parent.Path, Version: parent.Before.Live.Version})
		}
	}
	return ops
}

// untouched returns the namespace in which c is created, if the plan leaves it as it is.
//
// The creation itself proves that the namespace exists. The check proves that it is still the
// namespace that the plan saw, and not a lock, in which every child counts as a contender. If this
// plan writes the namespace, that write checks its version anyway.
func (p *Plan) untouched(c *Change) *Change {
	if c.Action != Create {
		return nil
	}
	parent := p.unchanged(kind.ParentPath(c.Path))
	if parent == nil || parent.Before == nil || parent.Before.Live == nil {
		return nil
	}
	return parent
}

// numbered is the apply id with the number of a transaction added to its last four digits,
// so that the first one has the id itself, and none has the id of one of the 65,535 before it. If
// the number replaced those digits, one id in 65,536 would already end in the number of the second
// transaction (0001): if its reply were lost, what the first one wrote into the record would be
// taken for its success.
func numbered(id string, n int) string {
	if n == 0 {
		return id
	}
	at := len(id) - 4
	last, _ := strconv.ParseUint(id[at:], 16, 16) // of an id of ours, always digits
	return fmt.Sprintf("%s%04x", id[:at], uint16(last)+uint16(n))
}

// head is the operation of the record.
func (b *batcher) head(tx *Transaction) ([]Op, error) {
	if tx.Last && b.p.dropsIndex() {
		return b.p.dropIndex(b.at, b.acl)
	}
	tx.Index = b.p.indexHead(tx.ID, slices.Concat(b.steps, stepsOf(tx.Ops)))
	return b.record(tx.Index, tx)
}

func (b *batcher) record(x *Index, tx *Transaction) ([]Op, error) {
	x.Untracked, x.Nodes = b.untracked, b.roll(tx)
	if tx.Last {
		x.Untracked = b.p.untrackedPaths(true)
	}
	op, err := x.op(b.at, b.acl)
	return []Op{op}, err
}

// committed goes on from a transaction before the last one.
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
