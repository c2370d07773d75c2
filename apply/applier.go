package apply

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

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
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

// Options say how plans are applied. All may be zero.
type Options struct {
	// Events is called for every event, one at a time, by the goroutine that calls Begin or Apply.
	Events func(event.Event)
	// LockTimeout is how long to wait for the apply lock; 0 does not wait.
	LockTimeout time.Duration
	// Tally counts the nodes that Begin reads. With nil nothing is counted.
	Tally *read.Tally
	// Operation is written into the apply lock for others to read, as Who and Version of the author are.
	Operation string
	// Author goes into the history.
	Author history.Author
}

// Applier applies plans that were made before, such as those of package plan/saved.
type Applier struct {
	client *recipes.Client
	opts   Options
	held   *lock.Held // the apply lock that Begin took; nil after Apply
	begun  bool       // Begin has begun an apply, with or without a lock
}

// New returns an Applier that writes as client.
func New(client *recipes.Client, o Options) *Applier { return &Applier{client: client, opts: o} }

// Run is one apply from the look at the tree to the end: [Begin], Plan, Apply, Close. As long as it holds the apply lock, its plan
// stays right. It embeds the Applier to offer its Check and Apply as methods of its own.
type Run struct {
	*Applier
	ctx           context.Context
	desired, live *plan.Tree
}

// Begin takes the apply lock of desired's stack, and then reads what exists. While the lock is held, no other apply can change what
// exists. Apply or Close releases the lock.
//
// A stack that was never applied has no lock yet, and nothing is created before a plan is approved. After the approval, Apply
// creates the lock and takes it. If another apply was first, Apply returns a [*failure.StaleError].
func Begin(ctx context.Context, client *recipes.Client, desired *plan.Tree, o Options) (*Run, error) {
	r := &Run{Applier: New(client, o), ctx: ctx, desired: desired}
	r.begun = true
	if err := r.lockFirst(); err != nil {
		return nil, err
	}
	s, err := client.Session(r.ctx)
	if err == nil {
		r.live, err = cmp.Or(o.Tally, &read.Tally{}).Tree(r.ctx, s, desired)
	}
	if err != nil {
		if lost := context.Cause(r.ctx); lost != nil && ctx.Err() == nil {
			err = lost
		}
		r.Close()
		return nil, err
	}
	return r, nil
}

// lockFirst takes the apply lock, if there is one.
func (r *Run) lockFirst() error {
	s, err := r.client.Session(r.ctx)
	if err == nil {
		err = read.Recognize(r.ctx, s, r.desired)
	}
	if err == nil {
		err = r.mayBegin(r.ctx, r.desired)
	}
	if err != nil {
		return err
	}
	path := record.LockPath(r.desired.Root, r.desired.Stack)
	switch stat, err := s.Exists(r.ctx, path); {
	case errors.Is(err, zk.ErrNoAuth): // this proves that the lock exists, see package read
	case err != nil:
		return refusal.Read(path, err)
	case stat == nil:
		return nil
	}
	h, err := r.lock(r.ctx, history.NewID(), path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(r.ctx)
	stop := context.AfterFunc(h.Lease.Context(), func() { cancel(h.Lost()) })
	h.End = func() { stop(); cancel(nil) }
	r.ctx, r.held = ctx, h
	return nil
}

// Context is the context under which to ask for approval. If Begin took the apply lock, it is derived from the context of Begin. It
// then also ends with Apply, with Close, and when the lock is lost, with the loss as its cause. For a stack that was never applied,
// it is the context of Begin itself.
func (r *Run) Context() context.Context { return r.ctx }

// Live is what Begin read. It must not be changed.
func (r *Run) Live() *plan.Tree { return r.live }

// Plan compares the existing nodes with the declared ones. It ignores the identities in o, and uses those of the client.
func (r *Run) Plan(o plan.Options) *plan.Plan {
	o.Identities = r.client.Identities()
	return diff.Compare(r.live, r.desired, o)
}

// Close releases the lock if there was no Apply. After an Apply it does nothing.
func (r *Run) Close() {
	if h := r.held; h != nil {
		r.held = nil
		h.Unlock(r.ctx)
	}
}

// Apply applies the plan under the lock of Begin, and releases that lock. For a plan that was made before, Apply takes the lock
// itself. A plan without changes needs no lock: Apply does nothing.
//
// Cancelling ctx stops Apply before the transaction is sent. After that, Apply still determines the outcome, under a separate
// context. If ctx ends while Apply sets access lists, the record keeps a note of the remaining lists for the next apply.
func (x *Applier) Apply(ctx context.Context, p *plan.Plan) (*event.Result, error) {
	j := x.job(p)
	defer func() {
		if j.held != nil {
			j.held.Unlock(ctx)
		}
	}()
	x.held = nil
	if err := j.refuseEarly(); err != nil {
		return nil, err
	}
	res := &event.Result{Counts: p.Summary()}
	if p.HasChanges() {
		if err := j.run(ctx, res); err != nil {
			return nil, j.besides.Say(err)
		}
	}
	for _, o := range p.Outputs {
		if o.After != nil {
			res.Outputs = append(res.Outputs, *o.After)
		}
	}
	res.Elapsed = time.Since(j.start)
	x.emit(event.Finished{Result: *res})
	return res, nil
}

// Check reports whether Apply would refuse the plan now, and writes nothing. Apply refuses a plan if nodes have changed since it
// was made, if a lock that has to be idle is in use, or if a transaction is too large. Without LockTimeout it also refuses if
// another apply holds the lock. Its errors are those of Apply. Nodes may still change between Check and Apply. Check is for plans
// of several ensembles, which cannot share a transaction: if one of them would be refused anyway, none is written.
func (x *Applier) Check(ctx context.Context, p *plan.Plan) error {
	r := x.job(p)
	if err := r.refuseEarly(); err != nil || !p.HasChanges() {
		return err
	}
	// A held lock is no reason to refuse if we hold it ourselves, or if Apply would wait for it.
	if err := r.verify(ctx); err != nil || r.fresh || x.opts.LockTimeout > 0 {
		return err
	}
	return read.Free(ctx, r.s, record.LockPath(p.Root, p.Stack))
}

// job begins one apply. If Begin took the lock, the job has the apply id in that lock.
func (x *Applier) job(p *plan.Plan) *job {
	r := &job{x: x, p: withKey(p), id: history.NewID(), start: time.Now(), own: wire.OwnACL(x.client, p.Set), held: x.held, fresh: x.held != nil}
	if r.fresh {
		r.id, r.s = r.held.ID, r.held.Session
	}
	return r
}

// withKey returns a copy of the plan. If the stack has no key for its checksums yet (see package record), the copy gets a new key.
func withKey(p *plan.Plan) *plan.Plan {
	q := *p
	if q.Before.Key == "" {
		q.Before.Key, q.Before.Fresh = newKey(), true
	}
	return &q
}

// lock takes the apply lock at path.
func (x *Applier) lock(ctx context.Context, id, path string) (*lock.Held, error) {
	info := failure.LockInfo{ID: id, Path: path, Operation: x.opts.Operation, Who: x.opts.Author.Who, Version: x.opts.Author.Version}
	return lock.Take(ctx, x.client, lock.Request{LockInfo: info, Wait: x.opts.LockTimeout, Emit: x.emit})
}

func (x *Applier) emit(e event.Event) {
	if x.opts.Events != nil {
		x.opts.Events(e)
	}
}

// mayBegin refuses a connection that neither the ensemble block nor .locktree names as an administrator. It does so before it
// reads anything of the stack. The plan, made later, decides which of these two sets of administrators applies. The method
// refuseEarly then checks that set.
func (x *Applier) mayBegin(ctx context.Context, desired *plan.Tree) error {
	named, path := desired.Intent.Access, record.ScaffoldPath(desired.Root)
	var refused error
	if named != nil {
		if refused = x.checkAdmin(named, fromBlock, desired.Root); refused == nil {
			return nil
		}
	}
	s, err := x.client.Session(ctx)
	if err != nil {
		return err
	}
	list, _, err := s.GetACL(ctx, path)
	there := access.AccessOf(wire.FromZK(list))
	switch sure, perhaps := there.Admins.Ours(x.client.Identities()...); {
	case err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth):
		return refusal.Read(path, err)
	case sure|perhaps != 0:
		return nil
	case err != nil || named != nil:
		return refused
	}
	return refusal.NotAdmin(x.client, there, "of "+desired.Root, desired.Root)
}

// checkAdmin refuses a connection that is none of the administrators in set. The parameter set holds the administrators and
// readers of a root. The apply of such a connection would fail at some write, or create nodes that these administrators cannot
// change. Only the servers know whether an ip entry matches this connection, so every ip entry counts as ours. The source says
// where the set comes from.
func (x *Applier) checkAdmin(set *plan.Access, source, root string) error {
	if sure, perhaps := set.Admins.Rights(x.client.Identities()...); sure|perhaps != 0 {
		return nil
	}
	return refusal.NotAdmin(x.client, set, source, root)
}

// job is one apply.
type job struct {
	x       *Applier
	p       *plan.Plan
	id      string // apply id
	start   time.Time
	own     kind.List  // list of the tool's own nodes
	held    *lock.Held // the apply lock: from Begin, or taken by takeLock
	fresh   bool       // the lock was held before the plan was made
	s       *direct.Session
	besides refusal.Besides
}

// run applies a plan that has changes.
func (r *job) run(ctx context.Context, res *event.Result) error {
	ground, created, err := r.takeLock(ctx)
	if err != nil {
		return err
	}
	p, left, err := prepare.Leave(ctx, r.held, r.p)
	if err != nil {
		return err
	}
	if !p.HasChanges() { // no change is left
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
	sent := &commit.Sender{Held: r.held, Plan: p, ID: r.id, Own: r.own, Entry: r.entry(p), History: ground.History, Records: ground.Records, Total: max(1, len(p.Batches)), Besides: &r.besides, Left: left}
	if err := sent.Send(ctx); err != nil {
		return r.reopen(ctx, sent, drained, err)
	}
	if len(sent.Left) > 0 {
		r.x.emit(event.Left{Addrs: sent.Left})
	}
	var keys []plan.ACLStep
	if slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return len(c.FormerLists) > 0 }) {
		if keys, err = read.KeySteps(ctx, r.s, p, r.x.client.Identities()); err != nil {
			return &failure.ACLPhaseError{ApplyID: r.id, Unlisted: true, Err: err}
		}
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

// After an error, reopen opens the locks that were drained. The error that it returns says how far the transactions came.
func (r *job) reopen(ctx context.Context, sent *commit.Sender, drained *prepare.Drained, err error) error {
	var u *failure.UnknownError
	if !errors.As(err, &u) { // after an UnknownError, the closed locks may be gone
		drained.Gone(sent.Changes)
		err = drained.Reopen(ctx, err)
	}
	if sent.Done > 0 { // an error of the first transaction stays as it is: nothing was applied
		err = &failure.PartialError{ApplyID: r.id, Done: sent.Done, Total: sent.Total, Err: err}
	}
	return err
}

// refuseEarly refuses a plan if that can be decided without a server.
func (r *job) refuseEarly() error {
	switch {
	case !r.p.Applyable():
		return &failure.ProblemsError{Problems: r.p.Problems}
	case !r.p.HasChanges(), r.p.Set == nil:
		return nil
	}
	return r.x.checkAdmin(r.p.Set, r.setOf(), r.p.Root)
}

// fromBlock is the source that NotAdmin names for administrators of the ensemble block.
const fromBlock = "declared in the ensemble block"

// setOf says where the administrators of the plan come from.
func (r *job) setOf() string {
	if r.p.RootSet.Named() {
		return fromBlock
	}
	return "of " + r.p.Root
}

// takeLock verifies the plan before it writes anything. So if the plan is already stale, or a lock that has to be idle is in
// use, takeLock writes nothing, not even a contender. If Begin did not take the apply lock, takeLock takes it and verifies the
// plan again: another apply may have finished in between. This second check may refuse the plan after takeLock has created missing
// nodes. Under the lock, no other apply can finish. The transactions check the data versions of the nodes that they write, so they
// detect edits of their data by hand.
//
// takeLock returns what the apply knows of its own nodes ([prepare.Ground]). If the nodes that it created still admit
// administrators whom the plan removes, it also returns their final lists. Package internal/lists sets these later.
func (r *job) takeLock(ctx context.Context) (ground *prepare.Ground, created []plan.ACLStep, err error) {
	if err = r.verify(ctx); err != nil {
		return nil, nil, err
	}
	// A plan made by a reader has the root's access list without digest hashes. The servers show an administrator the hashes, so
	// takeLock reads that list again.
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
		r.besides.Made = ground.Made
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

// entry returns the apply's entry for the history.
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
