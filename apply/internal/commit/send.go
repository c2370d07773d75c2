// Package commit sends the transactions of a plan under the apply lock, and determines the outcome of each.
//
//	t := &commit.Sender{Held: held, Plan: p, ID: id, Own: own, History: node, Entry: entry, Besides: besides}
//	err := t.Send(ctx)
//
// A [Sender] sends all of them. send.go reports them, and adds the history entry and the deletion of broken locks' contenders.
// commit.go sends one transaction and settles whether it was committed.
//
// The package relies on plan for the operations and on a held lock, which fences each transaction. It reads the record when a
// reply is lost, and never guesses: an outcome that stays open is a [*failure.UnknownError]. It opens no drained lock again, and
// sets no access list.
package commit

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/apply/internal/lock"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
)

// Sender sends the transactions of one apply.
type Sender struct {
	Held    *lock.Held
	Plan    *plan.Plan
	ID      string        // of the apply
	Own     kind.List     // list of the tool's own nodes
	Entry   history.Entry // for the history
	History history.Node
	Records int32 // the data version of the directory of records; only set before the stack's first apply
	Total   int   // transactions, as far as is known
	Besides *refusal.Besides
	Left    []plan.Addr // locks in use whose nodes may be containers: they are not created again

	// The committed part.
	Done, Ops, Bytes int
	Changes          []*plan.Change
	Created          []plan.ACLStep // the final lists of new nodes, which until then also admit the administrators whom the plan removes
	Record           plan.Pin       // the record before the transaction under way, or before the last one

	later   map[plan.Addr]bool // addresses of changes that are done only when their lists are set
	started map[*plan.Change]bool
	Longest int // bytes of the longest transaction a server has answered

	// The transaction under way.
	tx    *tx.Transaction
	all   []tx.Op        // all that is sent: for the history, from Sender.first, to delete contenders, and of tx
	notes int            // how many operations of the field all are for the history or from Sender.first
	size  int            // the size of all, in bytes
	noted *history.Entry // what the transaction adds to the history; nil if it may not write the history
}

// Send sends all transactions. A change is reported as applied when it is complete, including its access
// list, if that has to be set.
func (r *Sender) Send(ctx context.Context) error {
	r.later, r.started, r.Record = map[plan.Addr]bool{}, map[*plan.Change]bool{}, r.Plan.Index
	for _, s := range r.Plan.ACLSteps() {
		r.later[s.Addr] = true
	}
	for c := range r.Plan.Each() {
		r.later[c.Addr] = r.later[c.Addr] || len(c.FormerLists) > 0
	}
	return tx.Each(r.Plan, r.ID, r.Own, func(batch *tx.Transaction) error { return r.transact(ctx, batch) })
}

// transact sends one transaction. The apply can be interrupted between two of them.
func (r *Sender) transact(ctx context.Context, batch *tx.Transaction) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	r.tx = batch
	for _, c := range batch.Changes {
		// Report a change only once, even if its transaction is cut and the change is sent again in a shorter one.
		if c.Action != plan.NoOp && !r.started[c] {
			r.started[c] = true
			r.Held.Emit(event.Started{Addr: c.Addr, Path: c.Path, Action: c.Action})
		}
	}
	sent := time.Now()
	resolved, err := r.force(ctx)
	switch {
	// Known not to be committed: commit returns this error only after settle has made sure.
	case errors.Is(err, tx.ErrTooLong) && batch.Divisible:
		return err // tx.Each cuts the transaction and calls Send's function again
	case r.leftNow(err):
		return tx.ErrLeft
	case err != nil:
		r.reportFailed(err)
		return err
	}
	r.Changes = append(r.Changes, batch.Changes...)
	for _, s := range batch.ACLSteps() {
		s.Addr = cmp.Or(s.Addr, plan.EnsembleAddr(r.Plan.Ensemble)) // a step that belongs to no change has no address
		r.Created = append(r.Created, s)
	}
	r.Done++
	switch {
	case batch.Last:
		r.Total = r.Done
	default: // there are more than planned if some were cut
		r.Total = max(r.Total, r.Done+1)
	}
	stated := r.all[r.notes:] // all operations except the history and the operation of first
	ops, bytes := len(stated), tx.Size(stated)
	if r.noted != nil {
		r.History.Wrote(r.all[0].Data)
	}
	r.Ops += ops
	r.Bytes += bytes
	r.Held.Emit(event.Committed{ApplyID: batch.ID, Ops: ops, Bytes: bytes, Resolved: resolved, Elapsed: time.Since(sent), Batch: r.Done, Batches: r.Total})
	r.reportApplied(sent, slices.Values(batch.Changes), false)
	if batch.Last {
		r.Held.Emit(event.Recorded{Entry: r.noted, Path: record.HistoryPath(r.Plan.Root, r.Plan.Stack)})
		return nil
	}
	// The next transaction starts from this record. No other apply writes it, because we have the lock.
	after, cancel := lock.Detached(ctx, r.Held.Session)
	defer cancel()
	stat, err := r.Held.Session.Exists(after, r.Plan.Index.Path)
	if err != nil {
		return refusal.Read(r.Plan.Index.Path, err)
	}
	r.Record = read.PinOf(r.Plan.Index.Path, "", stat)
	return nil
}

// leftNow reports whether a transaction was refused because a lock that was to be created again is now in use. Then that lock stays
// as it is, too.
func (r *Sender) leftNow(err error) bool {
	var busy *failure.InUseError
	if !errors.As(err, &busy) {
		return false
	}
	for _, c := range r.tx.Changes {
		if lock.About(c, busy.Addr, busy.Path) && c.Leave() {
			r.Left = append(r.Left, c.Addr)
			r.later[c.Addr] = r.later[c.Addr] || c.ACL != nil
			return true
		}
	}
	return false
}

// reportFailed reports the change that made the servers refuse the transaction. If the reason is the record, the lock or the
// connection, it reports nothing besides the error.
func (r *Sender) reportFailed(err error) {
	x := explain.Of(err)
	addr := plan.Addr(x.Addr)
	for _, c := range r.tx.Changes {
		if addr != "" && lock.About(c, addr, x.Path) && c.Action != plan.NoOp {
			r.Held.Emit(event.Failed{Addr: addr, Path: x.Path, Action: c.Action, Err: err})
		}
	}
}

// reportApplied reports changes as applied. If the parameter later is set, these are the changes whose access lists are set after
// the transactions; otherwise they are all others.
func (r *Sender) reportApplied(since time.Time, changes iter.Seq[*plan.Change], later bool) {
	for c := range changes {
		if c.Action != plan.NoOp && r.later[c.Addr] == later {
			r.Held.Emit(event.Applied{Addr: c.Addr, Path: c.Path, Action: c.Action, Elapsed: time.Since(since)})
		}
	}
}

// Noted is the record that the last transaction wrote; nil if it deleted the record.
func (r *Sender) Noted() *record.Record { return r.tx.Index }

// Listed reports the changes whose lists are set by now.
func (r *Sender) Listed(since time.Time) { r.reportApplied(since, r.Plan.Each(), true) }

// note returns the operation that writes the history. Others write the history without the apply lock. Then the version makes the
// transaction fail, and the apply sends it again with their entries.
func (r *Sender) note() []tx.Op {
	entry := r.Entry
	entry.Unfinished = !r.tx.Last
	ops := r.History.Note(entry)
	if r.noted = nil; ops != nil {
		r.noted = &entry
	}
	return ops
}

// missed reports whether a transaction was refused because of the history, and may be sent again.
func (r *Sender) missed(ctx context.Context, err error) bool {
	var conflict *failure.ConflictError
	var node *failure.NodeError
	switch h := &r.History; {
	case r.noted == nil:
		return false
	case errors.As(err, &conflict) && conflict.Path == h.Path:
		var unread error
		*h, unread = history.Open(ctx, r.Held.Session, h.Path)
		return unread == nil
	case errors.As(err, &node) && node.Path == h.Path && errors.Is(err, zk.ErrNoAuth):
		h.State = history.Closed
	case errors.Is(err, tx.ErrTooLong) && !r.tx.Divisible && h.State == history.Whole && 4*tx.Size(r.all[:r.notes]) > r.size: // the history is the cause only if it is more than a quarter of the transaction
		h.State = history.Short
	default:
		return false
	}
	return true
}

// breakTries is how often the contenders of a lock that is broken are listed at most. They are listed again if one came or left
// before the transaction was executed. This library's clients stay away from a draining lock; other clients do not know the
// state.
const breakTries = 5

// force commits the transaction, including the deletion of the contenders of the locks it breaks. Before that, it deletes the
// unused nodes of keys, see sweep.
//
// The transaction deletes the contenders before their lock, so that the lock is empty. If contenders come or leave between the
// listing and the transaction, all of it is refused, and force lists again. The transaction also writes the history. If the
// history was the reason of a refusal, force tries again, too.
func (r *Sender) force(ctx context.Context) (resolved bool, err error) {
	for range breakTries {
		var breaks []tx.Op
		if err = r.sweep(ctx); err != nil {
			return false, err
		}
		if breaks, err = r.contenders(ctx, r.tx.Changes); err != nil {
			return false, err
		}
		r.all = append(breaks, r.tx.Ops...)
		if tx.Size(r.all) > tx.MaxTransaction {
			large := refusal.TooLarge(r.tx.Changes, r.all, false)
			large.Breaks = len(breaks)
			return false, large
		}
		notes := append(r.note(), r.first()...)
		r.all, r.notes = slices.Concat(notes, r.all), len(notes) // the record stays the last
		r.size = tx.Size(r.all)
		if resolved, err = r.commit(ctx); err == nil || !r.missed(ctx, err) && !r.overtaken(err, breaks) {
			return resolved, err
		}
	}
	return false, err
}

// first returns an operation that guards a new root: if two stacks are applied to the root, the second transaction fails. The
// operation raises the data version of the directory of records, in which no other stack had a record.
func (r *Sender) first() []tx.Op {
	if !r.Record.Absent || r.tx.Index == nil {
		return nil
	}
	return []tx.Op{{Kind: tx.OpSet, Path: kind.ParentPath(r.Record.Path), Version: r.Records}}
}

// overtaken reports whether the transaction was refused for one of two reasons: the contenders of a broken lock changed after they
// were listed, or an unused key still has its node.
func (r *Sender) overtaken(err error, breaks []tx.Op) bool {
	var used *failure.InUseError
	var conflict *failure.ConflictError
	switch {
	case errors.As(err, &used):
		return slices.ContainsFunc(r.tx.Changes, func(c *plan.Change) bool { return c.Break && c.Addr == used.Addr || keysRemain(c, used) })
	case errors.As(err, &conflict):
		return slices.ContainsFunc(breaks, func(op tx.Op) bool { return op.Path == conflict.Path })
	}
	return false
}

// keysRemain reports whether servers refused to delete a family that nobody uses: it still has nodes of unused keys.
func keysRemain(c *plan.Change, e *failure.InUseError) bool {
	return c.Addr == e.Addr && c.NeedsIdle() && c.Before.Kind().Key != nil && !e.Usage.Busy()
}

// contenders returns the deletions that break the locks of the plan, and reports the
// locks and their contenders. They are part of the transaction, so nothing is broken
// unless everything is applied.
func (r *Sender) contenders(ctx context.Context, changes []*plan.Change) (ops []tx.Op, err error) {
	for _, c := range changes {
		if !c.Break || !c.NeedsIdle() {
			continue
		}
		usage, err := read.Usage(ctx, r.Held.Session, c.Before)
		if err != nil {
			return nil, err
		}
		if !usage.Busy() {
			continue
		}
		all, err := read.Contents(ctx, r.Held.Session, c.Before)
		if err != nil {
			return nil, err
		}
		// The deletion accepts any version, because a contender's data changes: the contender notes that it holds, or is asked to
		// give the lock back. The name is enough: its sequence number is used only once.
		for _, path := range all {
			ops = append(ops, tx.Op{Kind: tx.OpDelete, Addr: c.Addr, Path: path, Version: -1})
		}
		r.Held.Emit(event.Breaking{Addr: c.Addr, Path: c.Path, Usage: usage})
	}
	return ops, nil
}

// sweep deletes unused nodes of keys from families that are to go. A crash leaves such nodes, and servers that collect them take
// their time.
//
// Each is deleted by a transaction of its own, before the one of the plan. There may be too many of them for one transaction. If
// the plan's transaction is then refused, deleting them did no harm.
func (r *Sender) sweep(ctx context.Context) error {
	for _, c := range r.tx.Changes {
		if !c.NeedsIdle() || c.Before.Kind().Key == nil {
			continue
		}
		if _, err := read.KeyInUse(ctx, r.Held.Session, c.Before, r.clear); err != nil {
			return err
		}
	}
	return nil
}

// clear deletes the node of a key, unless a contender has come, or it is gone.
func (r *Sender) clear(ctx context.Context, ops []tx.Op) error {
	ctx, cancel := context.WithTimeout(ctx, r.Held.Session.Timeout())
	defer cancel()
	results, err := r.Held.Lease.Multi(ctx, wire.Requests(ops)...)
	switch {
	case err == nil:
		r.Besides.Swept()
		return nil
	case refusal.Overtaken(err), refusal.Unknown(err):
		return nil // a node that is still there makes the transaction fail
	}
	return r.Held.Refusal(ctx, r.Plan, ops, results, err)
}
