package apply

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// MaxBytes is the largest transaction an apply sends. A server reads requests
// below 1 MiB and drops the connection of a client that sends more; the rest is
// left for the fencing check and for what the protocol adds.
const MaxBytes = 900_000

// run is one Run.
type run struct {
	x     *Executor
	p     *plan.Plan
	id    string // apply id
	start time.Time
	own   []kind.ACL // list of the tool's own nodes
	ops   []plan.Op
	bytes int
	lease *recipes.Lease
	s     *recipes.Session
	acls  int // access lists set
}

// Run applies the plan. A plan without changes does nothing and needs no lock.
//
// Cancelling ctx stops it before the transaction is sent; afterwards the
// transaction is seen through (its outcome is found out with a context of its
// own), and the access lists that are left are noted for the next apply.
func (x *Executor) Run(ctx context.Context, p *plan.Plan) (*Result, error) {
	r := &run{x: x, p: p, start: time.Now()}
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

// prepare does what needs no server.
func (r *run) prepare() (err error) {
	r.id = newID()
	r.own = ownACL(r.x.Client)
	if r.ops, err = r.p.Operations(r.id, r.own); err != nil {
		return err
	}
	// The seam for batches: a larger change is to be cut here into transactions
	// that are each consistent and each carry the index.
	if r.bytes = plan.Size(r.ops); r.bytes > MaxBytes {
		return &TooLargeError{Ops: len(r.ops), Bytes: r.bytes, Limit: MaxBytes}
	}
	return nil
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
	// The lease's session: an earlier one may have been lost while we waited.
	if r.s, err = r.x.Client.Session(ctx); err != nil {
		r.unlock(ctx)
	}
	return err
}

// change is everything under the lock.
func (r *run) change(ctx context.Context) error {
	if err := verify(ctx, r.s, r.p); err != nil {
		return err
	}
	r.emit(Verified{Pins: len(r.p.Pins)})
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for i := range r.p.Changes {
		if c := &r.p.Changes[i]; c.Action != plan.NoOp {
			r.emit(Started{Addr: c.Addr, Path: c.Path, Action: c.Action})
		}
	}
	sent := time.Now()
	resolved, err := r.commit(ctx)
	if err != nil {
		return err
	}
	r.emit(Committed{ApplyID: r.id, Ops: len(r.ops), Bytes: r.bytes, Resolved: resolved, Elapsed: time.Since(sent)})
	steps := r.p.ACLSteps()
	later := map[string]bool{}
	for _, s := range steps {
		later[s.Addr] = true
	}
	r.applied(sent, func(c *plan.Change) bool { return !later[c.Addr] })
	if err := r.setACLs(ctx, steps); err != nil {
		return err
	}
	r.applied(sent, func(c *plan.Change) bool { return later[c.Addr] })
	return r.readBack(ctx)
}

func (r *run) applied(since time.Time, which func(*plan.Change) bool) {
	for i := range r.p.Changes {
		if c := &r.p.Changes[i]; c.Action != plan.NoOp && which(c) {
			r.emit(Applied{Addr: c.Addr, Path: c.Path, Action: c.Action, Elapsed: time.Since(since)})
		}
	}
}

func (r *run) finish() *Result {
	res := &Result{ApplyID: r.id, Counts: r.p.Summary(), Ops: len(r.ops), Bytes: r.bytes, ACLs: r.acls, Elapsed: time.Since(r.start)}
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
