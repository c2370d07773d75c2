package apply

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// MaxBytes is the largest transaction an apply sends, see [plan.MaxTransaction].
const MaxBytes = plan.MaxTransaction

// run is one Run.
type run struct {
	x     *Executor
	p     *plan.Plan
	id    string // apply id
	start time.Time
	own   []kind.ACL // list of the tool's own nodes
	lease *recipes.Lease
	s     *recipes.Session

	total  int            // transactions
	done   int            // transactions committed
	closed []*plan.Change // locks that are draining for us
	// started are the changes of which it was said.
	started map[*plan.Change]bool
	opsSum  int // operations committed
	sum     int // bytes committed
	acls    int // access lists set
	read    int // bytes of the longest transaction a server has answered

	// The transaction under way.
	tx    *plan.Transaction
	ops   []plan.Op // of tx, with the contenders it breaks
	bytes int
	index plan.Pin // the index before it
}

// Run applies the plan. A plan without changes does nothing and needs no lock.
//
// Cancelling ctx stops it before the transaction is sent; afterwards the
// transaction is seen through (its outcome is found out with a context of its
// own), and the access lists that are left are noted for the next apply.
func (x *Executor) Run(ctx context.Context, p *plan.Plan) (*Result, error) {
	r := &run{x: x, p: p, start: time.Now(), started: map[*plan.Change]bool{}}
	if !p.Applyable() {
		return nil, &ProblemsError{Problems: p.Problems}
	}
	if !p.HasChanges() {
		return r.finish(), nil
	}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	defer r.unlock(ctx)
	if err := r.change(ctx); err != nil {
		return nil, err
	}
	return r.finish(), nil
}

// prepare does what needs no server: it looks at all transactions, so that none is
// sent when one of them cannot be.
//
// One that is too long is cut, if it can be: the yield of Transactions says so by the error.
// How many there are is a guess from here on, as servers may take less.
func (r *run) prepare() error {
	r.id, r.own, r.index = newID(), ownACL(r.x.Client), r.p.Index
	return r.p.Transactions(r.id, r.own, func(tx *plan.Transaction) error {
		r.total++
		if n := plan.Size(tx.Ops); n > MaxBytes {
			r.total--
			return tooLarge(tx.Changes, tx.Ops, false)
		}
		return nil
	})
}

// open verifies the plan, and takes the lock. The first verification costs some
// reads and saves a refused apply from writing anything at all, be it a contender.
func (r *run) open(ctx context.Context) (err error) {
	if r.s, err = r.x.Client.Session(ctx); err != nil {
		return err
	}
	if err = verify(ctx, r.s, r.p); err != nil {
		return err
	}
	made, err := scaffold(ctx, r.s, r.p, r.own)
	if err != nil {
		return err
	}
	if len(made) > 0 {
		r.emit(Scaffolded{Paths: made})
	}
	if r.lease, err = r.lock(ctx); err != nil {
		return err
	}
	// A client has one session at a time, and the lease is of one that was there before: when the
	// lease is still good, the session of now is its own.
	// The lease's session: an earlier one may have been lost while we waited. A later
	// one is never used under the lock: access lists are fenced by their session alone.
	s, err := r.x.Client.Session(ctx)
	if err == nil && r.lease.Context().Err() != nil {
		err = lockError(r.lease.Path(), context.Cause(r.lease.Context()))
	}
	if err != nil {
		r.unlock(ctx)
		return err
	}
	r.s = s
	return nil
}

// change is everything under the lock.
//
// The plan is verified again, because between the first verification and the lock another
// apply may have finished. From here on none can; what is changed by hand at a node they
// write is met by the versions in the transactions.
func (r *run) change(ctx context.Context) error {
	if err := verify(ctx, r.s, r.p); err != nil {
		return err
	}
	if err := r.widen(ctx); err != nil {
		return err
	}
	if err := r.empty(ctx); err != nil {
		return err
	}
	r.emit(Verified{Pins: len(r.p.Pins)})
	steps := r.p.ACLSteps()
	// A change is told as applied when all of it is: with its list, if it has one to be set.
	later := map[string]bool{}
	for _, s := range steps {
		later[s.Addr] = true
	}
	sent := time.Now()
	err := r.p.Transactions(r.id, r.own, func(tx *plan.Transaction) error {
		return r.transact(ctx, tx, later)
	})
	if err != nil {
		var u *UnknownError
		if !errors.As(err, &u) { // else what is closed may be gone
			err = r.reopen(ctx, r.closed, err)
		}
		return r.partial(err)
	}
	if err := r.setACLs(ctx, steps); err != nil {
		return err
	}
	r.applied(sent, r.p.Changes, func(c *plan.Change) bool { return later[c.Addr] })
	return r.readBack(ctx)
}

// transact sends one transaction. Between two, the apply can be interrupted.
func (r *run) transact(ctx context.Context, tx *plan.Transaction, later map[string]bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	r.tx = tx
	for _, c := range tx.Changes {
		// Once, also when the transaction is cut and some of them are sent again in a shorter one.
		if c.Action != plan.NoOp && !r.started[c] {
			r.started[c] = true
			r.emit(Started{Addr: c.Addr, Path: c.Path, Action: c.Action})
		}
	}
	sent := time.Now()
	resolved, err := r.force(ctx)
	switch {
	// Known not to be committed, as the plan relies on: see commit, which returns it only after
	// settle has found out.
	case errors.Is(err, plan.ErrTooLong) && tx.Divisible:
		return err // it is cut
	case err != nil:
		r.failed(err)
		return err
	}
	r.closed = slices.DeleteFunc(r.closed, func(c *plan.Change) bool { return slices.Contains(tx.Changes, c) })
	r.done++
	switch {
	case tx.Last:
		r.total = r.done
	default: // more than planned, when some had to be cut
		r.total = max(r.total, r.done+1)
	}
	r.opsSum += len(r.ops)
	r.sum += r.bytes
	r.emit(Committed{ApplyID: tx.ID, Ops: len(r.ops), Bytes: r.bytes, Resolved: resolved, Elapsed: time.Since(sent), Batch: r.done, Batches: r.total})
	for _, c := range tx.Changes {
		if c.Action != plan.NoOp && !later[c.Addr] {
			r.emit(Applied{Addr: c.Addr, Path: c.Path, Action: c.Action, Elapsed: time.Since(sent)})
		}
	}
	if tx.Last {
		return nil
	}
	// Where the next one starts from. It is ours: we have the lock.
	after, cancel := r.detached(ctx)
	defer cancel()
	pin, err := statPin(after, r.s, r.p.Index.Path)
	if err != nil {
		return readError(r.p.Index.Path, err)
	}
	r.index = pin
	return nil
}

// failed tells which change the transaction was refused for.
// Of those without a change (the index, the lock, the connection) nothing is said but the error.
func (r *run) failed(err error) {
	var addr, path string
	var used *InUseError
	var conflict *ConflictError
	var node *NodeError
	var large *TooLargeError
	switch {
	case errors.As(err, &large):
		addr, path = large.Addr, large.Path
	case errors.As(err, &used):
		addr, path = used.Addr, used.Path
	case errors.As(err, &conflict):
		addr, path = conflict.Addr, conflict.Path
	case errors.As(err, &node):
		addr, path = node.Addr, node.Path
	}
	for _, c := range r.tx.Changes {
		if addr != "" && about(c, addr, path) && c.Action != plan.NoOp {
			r.emit(Failed{Addr: addr, Path: path, Action: c.Action, Err: err})
		}
	}
}

// partial says what was applied before an error.
//
// An error of the first transaction stays as it is: nothing was applied, as with every error
// that is not one of the four that say otherwise.
func (r *run) partial(err error) error {
	if r.done == 0 {
		return err
	}
	return &PartialError{ApplyID: r.id, Done: r.done, Total: r.total, Err: err}
}

func (r *run) applied(since time.Time, changes []plan.Change, which func(*plan.Change) bool) {
	for i := range changes {
		if c := &changes[i]; c.Action != plan.NoOp && which(c) {
			r.emit(Applied{Addr: c.Addr, Path: c.Path, Action: c.Action, Elapsed: time.Since(since)})
		}
	}
}

func (r *run) finish() *Result {
	res := &Result{ApplyID: r.id, Counts: r.p.Summary(), Ops: r.opsSum, Bytes: r.sum, Transactions: r.done, ACLs: r.acls, Elapsed: time.Since(r.start)}
	for _, o := range r.p.Outputs {
		if o.After != nil {
			res.Outputs = append(res.Outputs, *o.After)
		}
	}
	r.emit(Finished{Result: *res})
	return res
}

// unlock gives the lock back, also when ctx has ended. An error here takes
// nothing away from what was applied: the lock goes with its session at the latest.
func (r *run) unlock(ctx context.Context) {
	ctx, cancel := r.detached(ctx)
	defer cancel()
	_ = r.lease.Unlock(ctx)
}

// detached is a context for what must be finished once the transaction was sent:
// long enough for the session to come back or to be given up by the servers.
func (r *run) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 3*r.s.Timeout()+10*time.Second)
}

func (r *run) emit(e Event) {
	if r.x.Events != nil {
		r.x.Events(e)
	}
}

func newID() string {
	b := make([]byte, plan.ApplyIDLen/2)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
