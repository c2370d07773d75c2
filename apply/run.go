package apply

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// job is one apply, and until it has the lock a look at the plan: whether it may be applied, and still fits.
type job struct {
	x       *Applier
	p       *plan.Plan
	id      string // apply id
	start   time.Time
	own     kind.List // list of the tool's own nodes
	held    *held     // the apply lock: from Begin, or taken by lock
	fresh   bool      // the lock was held before the plan was made
	s       *recipes.Session
	total   int // transactions, as far as is known
	history history.Node
	records int32 // the data version of the directory of records, before a first apply
	// What was written although it is not of the plan, as clauses, and how many nodes of keys that nobody used were deleted.
	prepared []string
	swept    atomic.Int32
	// created are the access lists to set on what this apply created for those who leave, too.
	created []plan.ACLStep
}

// locked is a job that holds the lock.
type locked struct {
	*job
	lease  *recipes.Lease
	closed []*plan.Change // locks that this apply is draining
}

// sending are the transactions of a job.
type sending struct {
	*locked
	later   map[plan.Addr]bool // addresses of changes that are done only when their lists are set
	started map[*plan.Change]bool

	entry history.Entry // for the history

	done, ops, bytes int // what was committed
	longest          int // bytes of the longest transaction a server has answered

	// The transaction under way.
	tx    *plan.Transaction
	all   []plan.Op      // of tx, with the contenders it breaks, behind the operations of the history
	notes int            // how many these are
	size  int            // of all, in bytes
	noted *history.Entry // what it adds to the history; nil if it cannot
	index plan.Pin       // the record before it
}

// run applies a plan that has changes.
func (r *job) run(ctx context.Context, res *event.Result) error {
	if err := r.prepare(); err != nil {
		return err
	}
	l, err := r.lock(ctx)
	if err != nil {
		return err
	}
	if err := l.widen(ctx); err != nil {
		return err
	}
	if err := l.empty(ctx); err != nil {
		return err
	}
	r.emit(event.Verified{Pins: len(r.p.Pins)})
	steps := r.p.ACLSteps()
	start := time.Now()
	sent, err := l.send(ctx, steps)
	if err != nil {
		return err
	}
	keys, err := read.KeySteps(ctx, sent.s, sent.p, sent.x.client.Identities())
	if err != nil {
		return &failure.ACLPhaseError{ApplyID: r.id, Unlisted: true, Err: err}
	}
	steps = slices.Concat(keys, r.created, steps)
	if err := sent.list(ctx, steps); err != nil {
		return err
	}
	sent.applied(start, l.p.Each(), true)
	*res = event.Result{ApplyID: r.id, Counts: res.Counts, Ops: sent.ops, Bytes: sent.bytes, Transactions: sent.done, ACLs: len(steps)}
	return l.readBack(ctx)
}

// permitted refuses a plan if that can be decided without a server.
func (r *job) permitted() error {
	switch {
	case !r.p.Applyable():
		return &failure.ProblemsError{Problems: r.p.Problems}
	case !r.p.HasChanges(), r.p.Set == nil:
		return nil
	}
	return r.x.among(r.p.Set, r.p.SetOf(), r.p.Root)
}

// prepare checks all transactions, without a server, so that none is sent if one of them
// cannot be.
//
// One that is too long is cut, if possible: yield asks Transactions for that with its error. The number
// of transactions is an estimate from here on, because servers may accept less.
func (r *job) prepare() error {
	r.own = wire.OwnACL(r.x.client, r.p.Set)
	return r.p.Transactions(r.id, r.own, func(tx *plan.Transaction) error {
		if n := plan.Size(tx.Ops); n > plan.MaxTransaction {
			return failure.TooLarge(tx.Changes, tx.Ops, false)
		}
		r.total++
		return nil
	})
}

// lock verifies the plan, and takes the lock for a saved one. The first verification costs some reads and
// saves an apply that is refused from writing anything, even a contender. A saved plan is verified
// again under the lock, because another apply may have finished until then. After that none can. Edits by
// hand of a node that the transactions write are detected by the versions in them.
func (r *job) lock(ctx context.Context) (_ *locked, err error) {
	if err = r.verify(ctx); err != nil {
		return nil, err
	}
	// A reader who planned took the set from the root without its hashes. To an administrator the servers show them.
	if r.own, err = r.shown(ctx, plan.ScaffoldPath(r.p.Root), r.own); err != nil {
		return nil, failure.Read(plan.ScaffoldPath(r.p.Root), err)
	}
	if r.own.Masked() {
		return nil, failure.NotAdmin(r.x.client, r.p.Set, r.p.SetOf(), r.p.Root)
	}
	both := r.p.Admit(r.own)
	made, err := r.scaffold(ctx, both)
	if err != nil {
		return nil, err
	}
	for _, path := range made {
		if !both.Equal(r.own) {
			r.created = append(r.created, plan.ACLStep{Addr: plan.EnsembleAddr(r.p.Ensemble), Path: path, Before: both, ACL: r.own})
		}
	}
	if len(made) > 0 {
		r.prepared = append(r.prepared, "the nodes that an apply needs were created ("+plan.Few(made, 3)+")")
		r.emit(event.Scaffolded{Paths: made})
	}
	if !r.fresh {
		if r.held, err = r.x.lock(ctx, r.id, plan.LockPath(r.p.Root, r.p.Stack)); err != nil {
			return nil, err
		}
		r.s = r.held.s
		err = r.verify(ctx)
	}
	if err == nil {
		r.identify(ctx)
	}
	return &locked{job: r, lease: r.held.lease}, err
}

// verify compares the tree with what the plan relied on.
func (r *job) verify(ctx context.Context) (err error) {
	if r.fresh {
		if err := r.held.lost(); err != nil {
			return err
		}
	} else if r.held == nil {
		if r.s, err = r.x.client.Session(ctx); err != nil {
			return err
		}
	}
	if err = read.Verify(ctx, r.s, r.p); err == nil && !r.fresh {
		err = read.SameHistory(ctx, r.s, r.p)
	}
	var stale *failure.StaleError
	if errors.As(err, &stale) {
		stale.Locked, stale.First = r.fresh, r.x.begun && !r.fresh
	}
	return err
}

// send sends all transactions. A change is reported as applied when it is complete, including its access
// list, if that has to be set.
func (r *locked) send(ctx context.Context, steps []plan.ACLStep) (*sending, error) {
	t := &sending{locked: r, later: map[plan.Addr]bool{}, started: map[*plan.Change]bool{}, entry: r.entry(), index: r.p.Index}
	for _, s := range steps {
		t.later[s.Addr] = true
	}
	for c := range r.p.Each() {
		t.later[c.Addr] = t.later[c.Addr] || len(c.FormerLists) > 0
	}
	err := r.p.Transactions(r.id, r.own, func(tx *plan.Transaction) error { return t.transact(ctx, tx) })
	if err == nil {
		return t, nil
	}
	var u *failure.UnknownError
	if !errors.As(err, &u) { // otherwise the closed locks may be gone
		err = r.reopen(ctx, err)
	}
	if t.done > 0 { // an error of the first transaction stays as it is: nothing was applied
		err = &failure.PartialError{ApplyID: r.id, Done: t.done, Total: r.total, Err: err}
	}
	return t, err
}

// transact sends one transaction. The apply can be interrupted between two of them.
func (r *sending) transact(ctx context.Context, tx *plan.Transaction) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	r.tx = tx
	for _, c := range tx.Changes {
		// Only once, even if the transaction is cut and some changes are sent again in a shorter one.
		if c.Action != plan.NoOp && !r.started[c] {
			r.started[c] = true
			r.emit(event.Started{Addr: c.Addr, Path: c.Path, Action: c.Action})
		}
	}
	sent := time.Now()
	resolved, err := r.force(ctx)
	switch {
	// Known not to be committed, on which the plan relies: commit returns this error only after settle
	// has made sure.
	case errors.Is(err, plan.ErrTooLong) && tx.Divisible:
		return err // it is cut
	case err != nil:
		r.failed(err)
		return err
	}
	r.closed = slices.DeleteFunc(r.closed, func(c *plan.Change) bool { return slices.Contains(tx.Changes, c) })
	for _, s := range tx.ACLSteps() {
		s.Addr = cmp.Or(s.Addr, plan.EnsembleAddr(r.p.Ensemble)) // what belongs to no change
		r.created = append(r.created, s)
	}
	r.done++
	switch {
	case tx.Last:
		r.total = r.done
	default: // more than planned, when some had to be cut
		r.total = max(r.total, r.done+1)
	}
	stated := r.all[r.notes:] // by the plan
	ops, bytes := len(stated), plan.Size(stated)
	r.written()
	r.ops += ops
	r.bytes += bytes
	r.emit(event.Committed{ApplyID: tx.ID, Ops: ops, Bytes: bytes, Resolved: resolved, Elapsed: time.Since(sent), Batch: r.done, Batches: r.total})
	r.applied(sent, slices.Values(tx.Changes), false)
	if tx.Last {
		r.emit(event.Recorded{Entry: r.noted, Path: plan.HistoryPath(r.p.Root, r.p.Stack)})
		return nil
	}
	// The next transaction starts from this record. Nobody else writes it, because we have the lock.
	after, cancel := detached(ctx, r.s)
	defer cancel()
	stat, err := r.s.Exists(after, r.p.Index.Path)
	if err != nil {
		return failure.Read(r.p.Index.Path, err)
	}
	r.index = read.PinOf(r.p.Index.Path, "", stat)
	return nil
}

// failed reports the change because of which the transaction was refused. If there is none (the record, the
// lock, the connection), it reports nothing besides the error.
func (r *sending) failed(err error) {
	at := plan.Explain(err)
	for _, c := range r.tx.Changes {
		if at.Addr != "" && about(c, at.Addr, at.Path) && c.Action != plan.NoOp {
			r.emit(event.Failed{Addr: at.Addr, Path: at.Path, Action: c.Action, Err: err})
		}
	}
}

// applied reports the changes whose lists had to be set, or the others.
func (r *sending) applied(since time.Time, changes iter.Seq[*plan.Change], later bool) {
	for c := range changes {
		if c.Action != plan.NoOp && r.later[c.Addr] == later {
			r.emit(event.Applied{Addr: c.Addr, Path: c.Path, Action: c.Action, Elapsed: time.Since(since)})
		}
	}
}

// detached is a context for what must be finished once the transaction is sent: long
// enough for the session to come back or for the servers to expire it.
func detached(ctx context.Context, s *recipes.Session) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 3*s.Timeout()+10*time.Second)
}

func (r *job) emit(e event.Event) { r.x.emit(e) }

// newKey is the key for the sums of a stack that has none yet.
var newKey = func() string { return history.NewID() + history.NewID() }
