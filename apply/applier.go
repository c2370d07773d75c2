package apply

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
)

// Options say how plans are applied. All may be zero.
type Options struct {
	// Events is called for every event, one at a time, from the goroutine that calls Begin or Apply, which waits for it.
	Events func(event.Event)
	// LockTimeout is how long to wait for the apply lock; 0 does not wait.
	LockTimeout time.Duration
	// Tally counts what Begin reads; nil counts nowhere.
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
	held   *lock.Held // from Begin until Apply
	begun  bool       // by Begin, with or without a lock
}

// New returns an Applier that writes as client.
func New(client *recipes.Client, o Options) *Applier { return &Applier{client: client, opts: o} }

// Run is one apply from the look at the tree to the end: [Begin], Plan, Apply, Close. As long as it holds the apply lock, its plan
// stays right.
type Run struct {
	*Applier
	ctx           context.Context
	desired, live *plan.Tree
}

// Begin takes the apply lock of desired's stack, so that no other apply changes what is read, planned and approved until the
// end of Apply, and reads what exists.
//
// A stack that was never applied has no lock yet, and nothing is created before a plan is approved. Then Apply creates the lock,
// takes it, and returns a [*failure.StaleError] if another apply was first.
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
	case errors.Is(err, zk.ErrNoAuth): // it exists, see package read
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

// Context is the one of Begin, and also ends, with the cause, when the lock is lost. Ask for approval under it. It ends with
// Apply and with Close.
func (r *Run) Context() context.Context { return r.ctx }

// Live is what Begin read. It must not be changed.
func (r *Run) Live() *plan.Tree { return r.live }

// Plan compares the existing nodes with the declared ones. The identities in o are those of the client.
func (r *Run) Plan(o plan.Options) *plan.Plan {
	o.Identities = Identities(r.client)
	return diff.Compare(r.live, r.desired, o)
}

// Close releases the lock, if there was no Apply. It is harmless otherwise.
func (r *Run) Close() {
	if h := r.held; h != nil {
		r.held = nil
		h.Unlock(r.ctx)
	}
}

// Identities are those that the servers see in a client, as far as a client can know them.
func Identities(c *recipes.Client) []plan.Identity {
	var out []plan.Identity
	for _, id := range c.Identities() {
		out = append(out, plan.Identity{Scheme: id.Scheme, ID: id.ID})
	}
	return out
}

// Apply applies the plan: under the lock of Begin, which it releases; or, for a plan that was made before, under a lock that it
// takes itself. With a plan without changes it does nothing and needs no lock.
//
// Cancelling ctx stops it before the transaction is sent. After that, the outcome of the
// transaction is still determined, with a separate context, and the access lists that are
// left are noted for the next apply.
func (x *Applier) Apply(ctx context.Context, p *plan.Plan) (*event.Result, error) {
	j := x.job(p)
	defer func() {
		if j.held != nil {
			j.held.Unlock(ctx)
		}
	}()
	x.held = nil
	if err := j.permitted(); err != nil {
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

// Check reports whether Apply would refuse the plan now, and writes nothing: because
// something has changed since the plan, a lock that has to be idle is in use, a
// transaction is too large or, without LockTimeout, another apply holds the lock. Its
// errors are those of Apply. Things may still change before Apply. Check is for plans of
// several ensembles, which cannot share a transaction: if one of them would be refused
// anyway, none is written.
func (x *Applier) Check(ctx context.Context, p *plan.Plan) error {
	r := x.job(p)
	if err := r.permitted(); err != nil || !p.HasChanges() {
		return err
	}
	if err := r.measure(); err != nil {
		return err
	}
	// If we have the lock, or would wait for it, it is no reason for Apply to refuse.
	if err := r.verify(ctx); err != nil || r.fresh || x.opts.LockTimeout > 0 {
		return err
	}
	return read.Free(ctx, r.s, record.LockPath(p.Root, p.Stack))
}

// job begins one apply. If Begin took the lock, the job has the id that was written into it.
func (x *Applier) job(p *plan.Plan) *job {
	r := &job{x: x, p: keyed(p), id: history.NewID(), start: time.Now(), held: x.held, fresh: x.held != nil}
	if r.fresh {
		r.id, r.s = r.held.ID, r.held.Session
	}
	return r
}

// keyed is the plan with a key for the sums that it writes, if the stack has none yet.
func keyed(p *plan.Plan) *plan.Plan {
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

// mayBegin refuses a connection that is neither among the administrators that the stack names, nor among those of the root,
// before anything of the stack is read. The plan says which of the two counts.
func (x *Applier) mayBegin(ctx context.Context, desired *plan.Tree) error {
	named, path := desired.Intent.Access, record.ScaffoldPath(desired.Root)
	var refused error
	if named != nil {
		if refused = x.among(named, declared, desired.Root); refused == nil {
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

// among refuses a connection that is not one of the administrators of a set: its apply would fail at some write, or create nodes
// that the administrators cannot change. Only the servers know whether an address is ours, so those count as ours. of says whose
// these are.
func (x *Applier) among(set *plan.Access, of, root string) error {
	if sure, perhaps := set.Admins.Rights(x.client.Identities()...); sure|perhaps != 0 {
		return nil
	}
	return refusal.NotAdmin(x.client, set, of, root)
}
