package apply

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/apply/internal/commit"
	"github.com/locktree/locktree/apply/internal/lists"
	"github.com/locktree/locktree/apply/internal/lock"
	"github.com/locktree/locktree/apply/internal/prepare"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

// job is one apply.
type job struct {
	x       *Applier
	p       *plan.Plan
	id      string // apply id
	start   time.Time
	own     kind.List  // list of the tool's own nodes
	held    *lock.Held // the apply lock: from Begin, or taken by lock
	fresh   bool       // the lock was held before the plan was made
	s       *direct.Session
	total   int // transactions, as far as is known
	besides refusal.Besides
}

// run applies a plan that has changes.
func (r *job) run(ctx context.Context, res *event.Result) error {
	if err := r.measure(); err != nil {
		return err
	}
	ground, created, err := r.lock(ctx)
	if err != nil {
		return err
	}
	p, left, err := prepare.Leave(ctx, r.held, r.p)
	if err != nil {
		return err
	}
	if !p.HasChanges() { // any more
		res.Counts = p.Summary()
		r.x.emit(event.Left{Addrs: left})
		return nil
	}
	p, err = prepare.Widen(ctx, r.held, p, &r.besides)
	if err != nil {
		return err
	}
	drained, err := prepare.Drain(ctx, r.held, p, &r.besides)
	if err != nil {
		return err
	}
	p = drained.Plan
	r.x.emit(event.Verified{Pins: len(p.Pins)})
	start := time.Now()
	sent := &commit.Sender{Held: r.held, Plan: p, ID: r.id, Own: r.own, Entry: r.entry(p), History: ground.History, Records: ground.Records, Total: r.total, Besides: &r.besides, Left: left}
	if err := sent.Send(ctx); err != nil {
		return r.stopped(ctx, sent, drained, err)
	}
	if len(sent.Left) > 0 {
		r.x.emit(event.Left{Addrs: sent.Left})
	}
	keys, err := read.KeySteps(ctx, r.s, p, r.x.client.Identities())
	if err != nil {
		return &failure.ACLPhaseError{ApplyID: r.id, Unlisted: true, Err: err}
	}
	steps := slices.Concat(keys, created, sent.Created, p.ACLSteps())
	phase := lists.Phase{Held: r.held, Plan: p, ID: r.id, Noted: sent.Noted(), Before: sent.Record}
	if err := phase.Set(ctx, steps); err != nil {
		return err
	}
	sent.Listed(start)
	*res = event.Result{ApplyID: r.id, Counts: p.Summary(), Ops: sent.Ops, Bytes: sent.Bytes, Transactions: sent.Done, ACLs: len(steps)}
	return lists.ReadBack(ctx, r.held, p, r.id)
}

// stopped opens the locks that were drained, and says how far the transactions came.
func (r *job) stopped(ctx context.Context, sent *commit.Sender, drained *prepare.Drained, err error) error {
	var u *failure.UnknownError
	if !errors.As(err, &u) { // otherwise the closed locks may be gone
		drained.Gone(sent.Changes)
		err = drained.Reopen(ctx, err)
	}
	if sent.Done > 0 { // an error of the first transaction stays as it is: nothing was applied
		err = &failure.PartialError{ApplyID: r.id, Done: sent.Done, Total: sent.Total, Err: err}
	}
	return err
}

// permitted refuses a plan if that can be decided without a server.
func (r *job) permitted() error {
	switch {
	case !r.p.Applyable():
		return &failure.ProblemsError{Problems: r.p.Problems}
	case !r.p.HasChanges(), r.p.Set == nil:
		return nil
	}
	return r.x.among(r.p.Set, r.setOf(), r.p.Root)
}

// declared is where the administrators come from that a stack names itself.
const declared = "declared in the ensemble block"

// setOf says where the administrators of the plan come from.
func (r *job) setOf() string {
	if r.p.RootSet.Named() {
		return declared
	}
	return "of " + r.p.Root
}

// measure checks all transactions, without a server, so that none is sent if one of them
// cannot be.
//
// One that is too long is cut, if possible: yield asks Transactions for that with its error. The number
// of transactions is an estimate from here on, because servers may accept less.
func (r *job) measure() error {
	r.own = wire.OwnACL(r.x.client, r.p.Set)
	return tx.Each(r.p, r.id, r.own, func(batch *tx.Transaction) error {
		if n := tx.Size(batch.Ops); n > tx.MaxTransaction {
			return refusal.TooLarge(batch.Changes, batch.Ops, false)
		}
		r.total++
		return nil
	})
}

// lock verifies the plan, and takes the lock for a saved one. The first verification costs some reads and
// saves an apply that is refused from writing anything, even a contender. A saved plan is verified
// again under the lock, because another apply may have finished until then. After that none can. Edits by
// hand of a node that the transactions write are detected by the versions in them.
//
// It returns the ground of the apply, and the lists to set on new nodes for those who leave.
func (r *job) lock(ctx context.Context) (ground *prepare.Ground, created []plan.ACLStep, err error) {
	if err = r.verify(ctx); err != nil {
		return nil, nil, err
	}
	// A reader who planned took the set from the root without its hashes. To an administrator the servers show them.
	if r.own, err = read.Shown(ctx, r.s, record.ScaffoldPath(r.p.Root), r.own); err != nil {
		return nil, nil, refusal.Read(record.ScaffoldPath(r.p.Root), err)
	}
	if r.own.Masked() {
		return nil, nil, refusal.NotAdmin(r.x.client, r.p.Set, r.setOf(), r.p.Root)
	}
	both := tx.Admit(r.p, r.own)
	if ground, err = prepare.Scaffold(ctx, r.s, r.p, r.own, both); err != nil {
		return nil, nil, err
	}
	for _, path := range ground.Made {
		if !both.Equal(r.own) {
			created = append(created, plan.ACLStep{Addr: plan.EnsembleAddr(r.p.Ensemble), Path: path, Before: both, ACL: r.own})
		}
	}
	if len(ground.Made) > 0 {
		r.besides.Add("the nodes that an apply needs were created (" + explain.Few(ground.Made, 3) + ")")
		r.x.emit(event.Scaffolded{Paths: ground.Made})
	}
	if !r.fresh {
		if r.held, err = r.x.lock(ctx, r.id, record.LockPath(r.p.Root, r.p.Stack)); err != nil {
			return nil, nil, err
		}
		r.s = r.held.Session
		err = r.verify(ctx)
	}
	if err == nil {
		prepare.Identify(ctx, r.s, r.p, &r.besides)
	}
	return ground, created, err
}

// verify compares the tree with the pins of the plan.
func (r *job) verify(ctx context.Context) (err error) {
	if r.fresh {
		if err := r.held.Lost(); err != nil {
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

// entry is what the history will have of the apply.
func (r *job) entry(p *plan.Plan) history.Entry {
	c := p.Summary()
	e := r.x.opts.Author.Entry(r.x.client, "apply", r.start)
	switch {
	case p.Destroy:
		e.Operation = "destroy"
	case c.Import > 0 && c == plan.Counts{Import: c.Import, Change: c.Change}:
		e.Operation = "import"
	}
	e.ID, e.Plan, e.Changes = r.id, p.Sum(), &history.Changes{Add: c.Add, Change: c.Change, Destroy: c.Destroy, Import: c.Import, Forget: c.Forget}
	return e
}

// newKey is the key for the sums of a stack that has none yet.
var newKey = func() string { return history.NewID() + history.NewID() }
