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
	held  *held      // the apply lock: from Lock, or taken by open
	fresh bool       // it was held before the plan was made
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

// Run applies the plan: under the lock that Lock took before the plan was made, which Run
// gives back, or, a saved plan, under one that it takes. A plan without changes does
// nothing and needs no lock.
//
// Cancelling ctx stops it before the transaction is sent; afterwards the
// transaction is seen through (its outcome is found out with a context of its
// own), and the access lists that are left are noted for the next apply.
func (x *Executor) Run(ctx context.Context, p *plan.Plan) (*Result, error) {
	r := x.run(p)
	defer func() { r.unlock(ctx) }()
	x.held = nil
	if !p.Applyable() {
		return nil, &ProblemsError{Problems: p.Problems}
	}
	if !p.HasChanges() {
		r.id = ""
		return r.finish(), nil
	}
	if err := x.mayApply(p.Declared, p.Root); err != nil {
		return nil, err
	}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
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
	r.own, r.index = ownACL(r.x.Client, r.p.Declared), r.p.Index
	return r.p.Transactions(r.id, r.own, func(tx *plan.Transaction) error {
		r.total++
		if n := plan.Size(tx.Ops); n > MaxBytes {
			r.total--
			return tooLarge(tx.Changes, tx.Ops, false)
		}
		return nil
	})
}

// open verifies the plan, and takes the lock of one that was saved. The first verification costs
// some reads and saves a refused apply from writing anything at all, be it a contender.
func (r *run) open(ctx context.Context) (err error) {
	if err = r.verify(ctx); err != nil {
		return err
	}
	made, err := scaffold(ctx, r.s, r.p, r.own)
	if err != nil {
		return err
	}
	if len(made) > 0 {
		r.emit(Scaffolded{Paths: made})
	}
	if r.fresh {
		return nil
	}
	if r.held, err = r.x.lock(ctx, r.id, plan.LockPath(r.p.Root, r.p.Stack)); err != nil {
		return err
	}
	r.lease, r.s = r.held.lease, r.held.s
	return r.verify(ctx)
}

// verify compares the tree with what the plan relied on.
//
// A saved plan is verified again under the lock, because between the first verification and the
// lock another apply may have finished. From there on none can; what is changed by hand at a
// node they write is met by the versions in the transactions.
func (r *run) verify(ctx context.Context) (err error) {
	if r.fresh {
		if err := r.held.lost(); err != nil {
			return err
		}
	} else if r.held == nil {
		if r.s, err = r.x.Client.Session(ctx); err != nil {
			return err
		}
	}
	if err = verify(ctx, r.s, r.p); err == nil && !r.fresh {
		err = sameHistory(ctx, r.s, r.p)
	}
	var stale *StaleError
	if errors.As(err, &stale) {
		stale.Locked = r.fresh
	}
	return err
}

// change is everything under the lock.
func (r *run) change(ctx context.Context) error {
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

func (r *run) unlock(ctx context.Context) {
	if r.held != nil {
		r.held.unlock(ctx)
	}
}

// run begins one Run. With the lock that Lock took comes the id that it names.
func (x *Executor) run(p *plan.Plan) *run {
	r := &run{x: x, p: p, id: newID(), start: time.Now(), started: map[*plan.Change]bool{}, held: x.held, fresh: x.held != nil}
	if r.fresh {
		r.id, r.lease, r.s = r.held.id, r.held.lease, r.held.s
	}
	return r
}

// detached is a context for what must be finished once the transaction was sent:
// long enough for the session to come back or to be given up by the servers.
func (r *run) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return detached(ctx, r.s)
}

func detached(ctx context.Context, s *recipes.Session) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 3*s.Timeout()+10*time.Second)
}

func (r *run) emit(e Event) { r.x.emit(e) }

func (x *Executor) emit(e Event) {
	if x.Events != nil {
		x.Events(e)
	}
}

func newID() string {
	b := make([]byte, plan.ApplyIDLen/2)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
