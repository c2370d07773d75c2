// Package commit sends the transactions of a plan under the apply lock, and determines the outcome of each.
//
//	t := &commit.Sender{Held: held, Plan: p, ID: id, Own: own, History: node, Entry: entry, Besides: besides}
//	err := t.Send(ctx)
//
// A [Sender] is all of them. send.go goes through them, with what they report and what they add to the history; break.go puts the
// deletion of contenders into one; commit.go sends it and settles whether it was committed.
//
// The package relies on plan for the operations and on a held lock, which fences each transaction. It reads back what it cannot know, and
// never guesses: an outcome that stays open is a [*failure.UnknownError]. It opens no drained lock again, and sets no access list.
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
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
)

// Sender are the transactions of one apply.
type Sender struct {
	Held    *lock.Held
	Plan    *plan.Plan
	ID      string        // of the apply
	Own     kind.List     // list of the tool's own nodes
	Entry   history.Entry // for the history
	History history.Node
	Records int32 // the data version of the directory of records, before a first apply
	Total   int   // transactions, as far as is known
	Besides *failure.Besides
	Left    []plan.Addr // locks that stay in what may be a container, because they are in use

	// What was committed.
	Done, Ops, Bytes int
	Changes          []*plan.Change
	Created          []plan.ACLStep // the lists to set on what was created for those who leave, too
	Record           plan.Pin       // the record before the last of them

	later   map[plan.Addr]bool // addresses of changes that are done only when their lists are set
	started map[*plan.Change]bool
	Longest int // bytes of the longest transaction a server has answered

	// The transaction under way.
	tx    *tx.Transaction
	all   []tx.Op        // of tx, with the contenders it breaks, behind the operations of the history
	notes int            // how many these are
	size  int            // of all, in bytes
	noted *history.Entry // what it adds to the history; nil if it cannot
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
		// Only once, even if the transaction is cut and some changes are sent again in a shorter one.
		if c.Action != plan.NoOp && !r.started[c] {
			r.started[c] = true
			r.Held.Emit(event.Started{Addr: c.Addr, Path: c.Path, Action: c.Action})
		}
	}
	sent := time.Now()
	resolved, err := r.force(ctx)
	switch {
	// Known not to be committed, on which the plan relies: commit returns this error only after settle
	// has made sure.
	case errors.Is(err, tx.ErrTooLong) && batch.Divisible:
		return err // it is cut
	case r.leftNow(err):
		return tx.ErrLeft
	case err != nil:
		r.failed(err)
		return err
	}
	r.Changes = append(r.Changes, batch.Changes...)
	for _, s := range batch.ACLSteps() {
		s.Addr = cmp.Or(s.Addr, plan.EnsembleAddr(r.Plan.Ensemble)) // what belongs to no change
		r.Created = append(r.Created, s)
	}
	r.Done++
	switch {
	case batch.Last:
		r.Total = r.Done
	default: // more than planned, when some had to be cut
		r.Total = max(r.Total, r.Done+1)
	}
	stated := r.all[r.notes:] // by the plan
	ops, bytes := len(stated), tx.Size(stated)
	r.written()
	r.Ops += ops
	r.Bytes += bytes
	r.Held.Emit(event.Committed{ApplyID: batch.ID, Ops: ops, Bytes: bytes, Resolved: resolved, Elapsed: time.Since(sent), Batch: r.Done, Batches: r.Total})
	r.applied(sent, slices.Values(batch.Changes), false)
	if batch.Last {
		r.Held.Emit(event.Recorded{Entry: r.noted, Path: record.HistoryPath(r.Plan.Root, r.Plan.Stack)})
		return nil
	}
	// The next transaction starts from this record. Nobody else writes it, because we have the lock.
	after, cancel := lock.Detached(ctx, r.Held.Session)
	defer cancel()
	stat, err := r.Held.Session.Exists(after, r.Plan.Index.Path)
	if err != nil {
		return failure.Read(r.Plan.Index.Path, err)
	}
	r.Record = read.PinOf(r.Plan.Index.Path, "", stat)
	return nil
}

// leftNow reports whether a transaction was refused because a lock that was to be created again has come into use since. Then that one
// is left, too.
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

// failed reports the change because of which the transaction was refused. If there is none (the record, the
// lock, the connection), it reports nothing besides the error.
func (r *Sender) failed(err error) {
	at := plan.Explain(err)
	for _, c := range r.tx.Changes {
		if at.Addr != "" && lock.About(c, at.Addr, at.Path) && c.Action != plan.NoOp {
			r.Held.Emit(event.Failed{Addr: at.Addr, Path: at.Path, Action: c.Action, Err: err})
		}
	}
}

// applied reports the changes whose lists had to be set, or the others.
func (r *Sender) applied(since time.Time, changes iter.Seq[*plan.Change], later bool) {
	for c := range changes {
		if c.Action != plan.NoOp && r.later[c.Addr] == later {
			r.Held.Emit(event.Applied{Addr: c.Addr, Path: c.Path, Action: c.Action, Elapsed: time.Since(since)})
		}
	}
}

// Noted is what the last transaction wrote, nil if it deleted the record.
func (r *Sender) Noted() *record.Record { return r.tx.Index }

// Listed reports the changes whose lists are set by now.
func (r *Sender) Listed(since time.Time) { r.applied(since, r.Plan.Each(), true) }

// note returns the operation that writes the history. Others write it without the apply lock; the version makes the transaction fail
// then, and it is sent again with what they wrote.
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
		return r.lookBack(ctx) == nil
	case errors.As(err, &node) && node.Path == h.Path && errors.Is(err, zk.ErrNoAuth):
		h.State = history.Closed
	case errors.Is(err, tx.ErrTooLong) && !r.tx.Divisible && h.State == history.Whole && 4*tx.Size(r.all[:r.notes]) > r.size: // else it is not why
		h.State = history.Short
	default:
		return false
	}
	return true
}

// written goes on from a transaction that was committed.
func (r *Sender) written() {
	if r.noted != nil {
		r.History.Wrote(r.all[0].Data)
	}
}

// lookBack reads the history again.
func (r *Sender) lookBack(ctx context.Context) (err error) {
	r.History, err = history.Open(ctx, r.Held.Session, r.History.Path)
	return err
}
