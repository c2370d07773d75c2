package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"

	"github.com/locktree/locktree/recipes/kind"
)

// MaxTransaction is the largest transaction that is planned, in bytes. A server
// accepts requests below 1 MiB and drops the connection of a client that sends
// more; the rest is left for the fencing check and for what the protocol adds.
const MaxTransaction = 900_000

// batchBudget leaves room for what is only estimated: the parts of the index.
const batchBudget = 600_000

// Changes and an index within these limits, in bytes, fit into one transaction, however the index
// is stored: some thousand locks.
//
// Their sum is 800,000, which leaves a tenth of MaxTransaction for what they do not count:
// checks, the head of the index with its outputs and pending lists, headers of parts. If that is not
// enough, measure finds the transaction too long and has it cut.
const wholeOps, wholeIndex = 600_000, 200_000

// Transaction is one of the transactions of a plan.
type Transaction struct {
	ID      string    // apply id it writes into the index
	Ops     []Op      // in order; the last one is the index node's, if it writes one
	Changes []*Change // the changes it makes, without those that change nothing
	Index   *Index    // the index node as it leaves it; nil when it leaves none
	Last    bool
	// What yield sets, unless it is the last one: the index node as it leaves it, and its zxid.
	Written Stamp
	Zxid    int64
	// Divisible means that it can be cut, see [ErrTooLong].
	Divisible bool
}

// Transactions calls yield for the transactions of the plan in order, and stops at
// its first error. Most plans have one transaction. A plan that does not fit into
// [MaxTransaction] is cut between changes, so that after each transaction every lock
// exists completely or not at all, and the index says so: if an apply ends between two
// transactions, the next plan finishes its work. What must happen at one moment stays in
// one transaction: a lock with its structural children, a lock at its new path with the
// tombstone at its old one.
//
// If yield returns [ErrTooLong], the transaction is cut again and all that follow are made
// smaller. A transaction that cannot be cut ends with the error. Those yielded before stay
// as they are. So yield must return ErrTooLong only for a transaction that was certainly
// not committed: it is called again with the same changes, in smaller transactions.
//
// applyID goes into the index, with the number of the transaction added to its last four
// digits from the second one on. indexACL is the access list of a new index.
func (p *Plan) Transactions(applyID string, indexACL []kind.ACL, yield func(*Transaction) error) error {
	if !p.HasChanges() {
		return nil
	}
	b := &batcher{p: p, id: applyID, acl: indexACL, yield: yield, budget: batchBudget, known: p.prior.Lists}
	entries := p.indexSize()
	// There are three cases: several transactions; one transaction with an index in parts, because
	// it has some already or has outgrown one node; one transaction with the index in one node,
	// which is nearly every plan. A stack that has parts keeps them until an apply leaves no entry
	// in any: to merge them would be a large write that gains nothing.
	if entries <= wholeIndex && p.opsSize() <= wholeOps {
		b.budget = math.MaxInt
		b.whole = len(p.prior.Shards)+len(p.prior.Strays) == 0 && entries <= shardAbove
	}
	return b.run()
}

// ErrTooLong means that a transaction is longer than the servers accept; see
// [Plan.Transactions].
var ErrTooLong = errors.New("plan: the transaction is longer than the servers read")

func (p *Plan) changing() (out []*Change) {
	for c := range p.Each() {
		if c.Action != NoOp || c.renamed() {
			out = append(out, c)
		}
	}
	return out
}

// opsSize is the size of the transaction on the wire without the index, an upper bound for what is not encoded yet.
func (p *Plan) opsSize() (n int) {
	for _, c := range p.changing() {
		ops, _ := p.operations([]*Change{c}) // the error is reported when it is sent
		n += payload(ops)
	}
	return n
}

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

func (p *Plan) indexSize() (n int) {
	for c := range p.Each() {
		if c.After != nil {
			n += weigh(string(c.Addr), IndexEntry{Path: c.Path, Type: c.Kind.Name})
		}
	}
	return n
}

// batcher cuts a plan into transactions.
type batcher struct {
	p     *Plan
	id    string
	acl   []kind.ACL
	yield func(*Transaction) error

	budget int   // an upper bound, in bytes
	whole  bool  // the index stays in one node
	sent   []int // the number of units in each transaction yielded
	known  Lists // for the last transaction

	// What follows belongs to one pass.

	at      Pin // of the index node, as the transactions leave it
	n       int // transactions so far
	ledger  *ledger
	ops     []Op
	changes []*Change
	checked map[string]bool // paths of namespaces that ops checks
	steps   []ACLStep       // access lists to set on what the transactions create
	units   int             // in the transaction under way
	bytes   int             // its size, an upper bound
	size    int             // the size of the last transaction yielded
}

// run cuts the changes until every transaction is accepted. Each further attempt goes through the
// accepted ones again first, so that the ledger is in the same state.
//
// It ends. Each attempt at least halves the budget. Once that is below the smallest unit's cost, every
// transaction holds one unit, or only the index, and the error of such a transaction is returned.
// To make the next attempt smaller, run halves what was sent (size) and not only what was allowed
// (budget): costs are upper bounds, and the first transaction may have been far below its budget,
// which is unbounded for plans of one transaction.
func (b *batcher) run() error {
	units := b.group()
	for {
		err := b.pass(units)
		if !errors.Is(err, ErrTooLong) || b.units < 2 {
			return err
		}
		b.budget = min(b.budget, b.bytes, b.size) / 2
		b.whole = false // nothing was committed, because it was the only transaction
	}
}

// pass goes through all units once. The first len(sent) transactions are those already accepted:
// they end after the same number of units as before, whatever the budget is now, and send does not
// yield them. Everything that is done to the ledger on the way depends only on the units. So after
// them the ledger, the versions of its parts and of the index node, and the numbers of the
// transactions are the same as before. From there on the budget decides.
func (b *batcher) pass(units [][]*Change) error {
	b.open()
	for _, unit := range units {
		ops, err := b.p.operations(unit)
		if err != nil {
			return err
		}
		if err := b.makeRoom(func() int { return b.cost(unit, ops) }); err != nil {
			return err
		}
		b.add(unit, ops)
	}
	// Entries of nodes that no longer exist are not in the ledger: to write a part is to drop them. There may be some in
	// every part, which would be more than one transaction takes.
	for _, d := range b.p.Drifted {
		part := b.ledger.find(d.Path)
		if d.What == DriftChanged || part.dirty || part.written {
			continue
		}
		if err := b.makeRoom(func() int { return part.size }); err != nil {
			return err
		}
		part.dirty = true
	}
	return b.send(true)
}

// makeRoom begins another transaction if a unit would be too much for this one, and counts the unit.
func (b *batcher) makeRoom(cost func() int) error {
	n := cost()
	// The first unit of a transaction is never too large: one that exceeds the budget goes alone.
	full := b.units > 0 && b.bytes+n > b.budget
	if b.n < len(b.sent) {
		full = b.units == b.sent[b.n]
	}
	if full {
		if err := b.send(false); err != nil {
			return err
		}
		n = cost() // the parts of the index are clean again
	}
	b.bytes += n
	b.units++
	return nil
}

// open fills the ledger with the state before the first transaction.
//
// That is what the nodes say, and not what the index says about them: between two transactions
// the index has to describe the tree as it is then. Nodes that the index does not know
// (Unnoted) are left out until their unit comes. To note all of them at once could be more
// than fits, as was seen with a destroy of a stack whose index was lost.
func (b *batcher) open() {
	b.at, b.n, b.ops, b.changes, b.steps, b.units, b.bytes = b.p.Index, 0, nil, nil, nil, 0, 0
	b.ledger, b.checked = newLedger(b.p.Index.Path, b.p.prior.Shards), map[string]bool{}
	b.ledger.whole = b.whole
	// Their entries stay as they are. A node there may have another address now, and so another key, but a path has one entry.
	kept := map[string]bool{}
	for _, e := range b.p.prior.Kept {
		kept[e.Path] = true
	}
	for c := range b.p.Each() {
		if c.Before == nil || c.Before.Payload.Owner.Stack != b.p.Stack || c.Unnoted || kept[c.Path] {
			continue
		}
		b.ledger.put(b.p.indexKey(c.Before.owned(), c.Path, tombstone(c.Before)), entryOf(c.Before))
	}
	for key, e := range b.p.prior.Kept {
		b.ledger.put(key, e)
	}
	b.bytes = b.ledger.clean()
	for _, s := range b.p.prior.Strays { // their names are taken until they are deleted
		if n, err := strconv.Atoi(s.Name); err == nil {
			b.ledger.next = max(b.ledger.next, n)
		}
	}
}

// group collects the units of the plan: the changes in the order of execution, with the two ends of a
// lock's move together, at the place of the later one. That is possible because neither contains
// anything that would have to wait for it.
//
// Namespaces are not paired: the new one has to exist before anything moves into it, and a pair comes at
// the place of the later of the two. Nobody holds a namespace, so both may exist for a while.
func (b *batcher) group() (out [][]*Change) {
	partner := map[string]*Change{}
	for _, c := range b.p.changing() {
		other := c.PreviousPath
		if c.Tombstone && c.Action == Update {
			other = c.After.Payload.MovedTo
		}
		if other == "" || c.Kind.Container {
			out = append(out, []*Change{c})
			continue
		}
		if first := partner[c.Path]; first != nil {
			out = append(out, []*Change{first, c})
			continue
		}
		partner[other] = c
	}
	// Changes that write at most the mark of a node, or only its entry.
	for c := range b.p.Each() {
		if c.Action == NoOp && !c.renamed() && (c.Unsealed || c.relisted() || c.Unnoted) {
			out = append(out, []*Change{c})
		}
	}
	return out
}

// operations returns the operations of a unit. ZooKeeper runs a transaction in order, and each operation sees the ones
// before it, so a replaced node is gone when it is created again.
//
// A node on which the transaction relies without writing it is checked: one whose parts alone change. Every other
// node of the unit is guarded by the version of its write. Nodes that stay and that nothing depends on are not checked: an
// edit by hand there is a matter for the next plan, and a check for each would make the transaction as long as the tree.
func (p *Plan) operations(unit []*Change) (ops []Op, err error) {
	for _, c := range unit {
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

// cost is an upper bound for what a unit adds to a transaction. A clean part of the index is written completely, without
// the entries that are removed. A node that stays may have two entries: a node that had its address before may stay beside
// it (ledger.put).
func (b *batcher) cost(unit []*Change, ops []Op) int {
	n := payload(ops)
	for _, c := range unit {
		part := b.ledger.find(c.Path)
		if !part.dirty {
			n += part.size
		}
		if c.Action == Create {
			n += payload([]Op{{Kind: OpCheck, Path: kind.ParentPath(c.Path)}})
		}
		if c.After != nil {
			n += 2 * weigh(string(c.Addr), IndexEntry{Path: c.Path})
		} else if e, noted := part.res[string(c.Addr)]; noted && e.Path == c.Path {
			n -= weigh(string(c.Addr), e)
		}
	}
	return n
}

func (b *batcher) add(unit []*Change, ops []Op) {
	for _, c := range unit {
		if parent := b.untouched(c); parent != nil {
			b.checked[parent.Path] = true
			b.ops = append(b.ops, Op{Kind: OpCheck, Addr: parent.Addr, Path: parent.Path, Version: parent.Before.Live.Version})
		}
	}
	b.ops = append(b.ops, ops...)
	for _, c := range unit {
		b.record(c)
	}
	b.changes = append(b.changes, unit...)
}

// untouched returns the namespace in which c is created, if the plan leaves it as it is and the
// transaction does not check that yet.
//
// The creation itself proves that the namespace exists. The check proves that it is still the
// namespace that the plan saw, and not a lock, in which every child counts as a contender. If this
// plan writes the namespace, that write checks its version anyway.
func (b *batcher) untouched(c *Change) *Change {
	at := kind.ParentPath(c.Path)
	if c.Action != Create || b.checked[at] {
		return nil
	}
	parent := b.p.unchanged(at)
	if parent == nil || parent.Before == nil || parent.Before.Live == nil {
		return nil
	}
	return parent
}

// record notes a change in the ledger. It does not know under which of its keys the node was noted,
// so it drops all of them; drop leaves an entry alone that another path has under the same key.
func (b *batcher) record(c *Change) {
	if c.Before != nil {
		for _, key := range []string{"", movedFrom + c.Path, standsAt + c.Path} {
			b.ledger.drop(string(c.Before.owned())+key, c.Path)
		}
	}
	if c.After != nil && c.Action != Forget {
		b.ledger.put(b.p.indexKey(c.Addr, c.Path, c.Tombstone), entryOf(c.After))
	}
}

// send closes a transaction with the index.
func (b *batcher) send(last bool) error {
	tx := &Transaction{ID: numbered(b.id, b.n), Ops: b.ops, Changes: b.changes, Last: last, Divisible: b.units > 1}
	drops := last && b.p.dropsIndex()
	if drops {
		for _, s := range b.ledger.shards {
			s.res = nil // only entries of nodes that were lost are left
		}
	}
	more, err := b.ledger.flush(b.acl)
	if err != nil {
		return err
	}
	// Operations that belong to no change go with the first transaction.
	if b.n == 0 {
		lock, err := b.p.relock()
		if err != nil {
			return err
		}
		more = slices.Concat(b.p.sweep(), lock, more)
	}
	more = b.p.admit(more)
	b.steps = slices.Concat(b.steps, stepsOf(tx.Ops), stepsOf(more))
	head, err := b.head(tx, drops)
	if err != nil {
		return err
	}
	// A new index comes before its parts, which are its children; otherwise it comes last, where apply looks
	// for its deletion.
	if b.at.Absent {
		tx.Ops = append(append(tx.Ops, head...), more...)
	} else {
		tx.Ops = append(append(tx.Ops, more...), head...)
	}
	if b.size = Size(tx.Ops); b.n >= len(b.sent) {
		if err := b.yield(tx); err != nil {
			return err
		}
		b.sent = append(b.sent, b.units)
		b.committed(tx)
	}
	b.n++
	b.ops, b.changes, b.units, b.bytes = nil, nil, 0, 0
	clear(b.checked)
	if b.at.Absent {
		b.at.Absent = false
	} else {
		b.at.Version++
	}
	return nil
}

// numbered is the apply id with the number of a transaction added to its last four digits,
// so that the first one has the id itself, and none has the id of one of the 65,535 before it. If
// the number replaced those digits, one id in 65,536 would already end in the number of the second
// transaction (0001): if its reply were lost, what the first one wrote into the index would be
// taken for its success.
func numbered(id string, n int) string {
	if n == 0 {
		return id
	}
	at := len(id) - 4
	last, _ := strconv.ParseUint(id[at:], 16, 16) // of an id of ours, always digits
	return fmt.Sprintf("%s%04x", id[:at], uint16(last)+uint16(n))
}

// head is the operation of the index node itself.
func (b *batcher) head(tx *Transaction, drops bool) ([]Op, error) {
	if drops {
		return b.p.dropIndex(b.at, b.acl)
	}
	tx.Index = b.p.indexHead(tx.ID, b.steps)
	b.ledger.write(tx.Index)
	tx.Index.Lists = b.lists(tx.Last)
	op, err := tx.Index.op(b.at, b.acl)
	return []Op{op}, err
}
