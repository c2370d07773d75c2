package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
)

const (
	applyQuestion = "Do you want to perform these actions?\n" +
		"  locktree will perform the actions described above.\n" +
		"  Only 'yes' will be accepted to approve."
	destroyQuestion = "Do you really want to destroy all resources?\n" +
		"  locktree will remove everything shown above from ZooKeeper.\n" +
		"  There is no undo. Only 'yes' will be accepted to confirm."
)

// confirm asks for the approval of what was just shown.
func (a *app) confirm(ctx context.Context, f *applyFlags) error {
	if !f.input {
		return view.Failf("Approval needed", "-input=false forbids asking for approval. Add -auto-approve, or save the plan with \"plan -out FILE\" and apply that file.")
	}
	what, question := "Apply", applyQuestion
	if f.Destroy {
		what, question = "Destroy", destroyQuestion
	}
	return a.approve(ctx, what, question, ", or apply a plan saved with \"plan -out FILE\"")
}

// firstTries bounds how often the first apply of a stack plans again because another one
// came first.
const firstTries = 3

// planAndApply is an apply without a saved plan: it locks, plans, shows, asks and applies.
//
// A stack that was never applied has no lock yet. Until the approval nothing keeps others
// out, so another apply may come first; then the plan is made again.
func (a *app) planAndApply(ctx context.Context, f *applyFlags, s *stack.Stack, opts plan.Options, edit func(*plan.Plan)) error {
	for try := 1; ; try++ {
		err := a.planAndApplyOnce(ctx, f, s, opts, edit)
		stale, ok := asType[*failure.StaleError](err)
		if try == firstTries || !ok || stale.Locked || isA[*view.SomeEnsembles](err) {
			return err
		}
		a.view().Message("\nAnother apply of this new stack came first. This is the plan after it:")
	}
}

func (a *app) planAndApplyOnce(ctx context.Context, f *applyFlags, s *stack.Stack, opts plan.Options, edit func(*plan.Plan)) error {
	all, trees := make([]*applying, len(s.Ensembles)), make([]*plan.Tree, len(s.Ensembles))
	locked := ctx // ends when one of the locks is lost
	for i, e := range s.Ensembles {
		p := a.progress(e.Name)
		o := a.applying(f, opts.Destroy, p.event)
		nodes, stop := stack.Counting(a, "Locking and reading", e.Name)
		o.Tally = nodes
		run, err := apply.Begin(locked, s.Clients[i], e.Tree, o)
		stop()
		if err != nil {
			return cmp.Or(lostLock(ctx, locked), s.Denied(ctx, i, err))
		}
		defer run.Close()
		locked, trees[i], all[i] = run.Context(), run.Live(), &applying{run.Applier, s.Clients[i], p}
	}
	made := s.Diff(trees, opts)
	for _, p := range made {
		edit(p)
	}
	a.show(planview.Plan{Plans: made, Files: s.Sources, Concise: f.concise, Full: f.full, NowMs: time.Now().UnixMilli(), NoAdvice: true})
	if err := a.approval(locked, f, made); err != nil {
		return cmp.Or(lostLock(ctx, locked), err)
	}
	return a.execute(ctx, f, all, made)
}

// lostLock is the loss of an apply lock, under which nothing goes on; nil as long as all are held.
func lostLock(ctx, locked context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(locked)
}

// approval asks about the plans that were just shown.
func (a *app) approval(ctx context.Context, f *applyFlags, plans []*plan.Plan) error {
	if planview.Failing(plans) {
		return exit.With(exit.Failed)
	}
	for _, p := range plans { // asking first would waste an answer
		if err := failure.InUse(p); err != nil {
			return err
		}
	}
	if planview.Changed(plans) && !f.autoApprove {
		return a.confirm(ctx, f)
	}
	return nil
}

// applying is one apply on one ensemble, and who shows it.
type applying struct {
	*apply.Applier
	client *recipes.Client
	*progress
}

// applying are the options of an apply. The operation is the word Terraform writes into its lock.
func (a *app) applying(f *applyFlags, destroy bool, show func(event.Event)) apply.Options {
	operation := "OperationTypeApply"
	if destroy {
		operation = "OperationTypeDestroy"
	}
	return apply.Options{Events: show, LockTimeout: f.lockTimeout, Operation: operation, Author: a.signed(f.message)}
}

// signed says who does something, and why.
func (a *app) signed(why messageFlag) history.Author {
	return history.Author{Who: who(), Version: version(), CI: ciRun(a.env), Message: string(why)}
}

// execute carries out the plans, one transaction per ensemble. Ensembles share no
// transaction: if a later one fails after all, the earlier ones stay applied. The error
// says so, and the next plan shows what is left.
func (a *app) execute(ctx context.Context, f *applyFlags, all []*applying, plans []*plan.Plan) error {
	done := planview.Applied{Operation: "apply"}
	if len(plans) > 1 { // what any of them would refuse must be known before anything is written; for one, Apply looks first, too
		for i, p := range plans {
			if err := all[i].Check(ctx, p); err != nil {
				return stack.Denied(ctx, all[i].client, err)
			}
		}
	}
	together := a.json == 0 && isTerminal(a.stdout) && !f.full && planview.Many(plans)
	var changed []string
	for i, p := range plans {
		all[i].together = together
		if p.Destroy {
			done.Operation = "destroy"
		}
		result, err := all[i].begun(ctx, p)
		if err != nil {
			err = stack.Denied(ctx, all[i].client, err)
			if len(changed) > 0 {
				err = &view.SomeEnsembles{Applied: changed, Failed: p.Ensemble, Err: err}
			}
			return err
		}
		if p.HasChanges() {
			changed = append(changed, p.Ensemble)
		}
		done.Counts = done.Counts.Plus(result.Counts)
		done.Outputs = append(done.Outputs, result.Outputs...)
	}
	a.show(done)
	return nil
}

// begun is Apply, for which an interrupt waits, see await. After an interrupt nothing begins, and what is done is said all the same.
func (x *applying) begun(ctx context.Context, p *plan.Plan) (*event.Result, error) {
	select {
	case x.underWay <- struct{}{}:
		defer func() { <-x.underWay }()
		x.far = view.Progress{Unit: "transactions", Total: max(len(p.Batches), 1)}
		defer x.watched()()
		return x.Apply(ctx, p)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// stillEvery is how often an apply says what it is still about, as Terraform does.
const stillEvery = 10 * time.Second

// progress shows the events of one ensemble, and what is still under way if nothing ends for a while.
type progress struct {
	*app
	ensemble string

	together bool // changes that are alike are shown as one

	mu     sync.Mutex
	open   map[plan.Addr]planview.Ongoing // a transaction may have many thousands
	groups planview.Together
	far    view.Progress
}

func (a *app) progress(ensemble string) *progress {
	return &progress{app: a, ensemble: ensemble, open: map[plan.Addr]planview.Ongoing{}}
}

// watched begins to show what is still under way. Nothing is shown after the returned function.
func (p *progress) watched() (stop func()) {
	var over sync.WaitGroup
	stopped := make(chan struct{})
	over.Go(func() { p.watch(stopped) })
	arrived := p.During("Applying to ensemble "+strconv.Quote(p.ensemble), p.howFar)
	return func() {
		p.changing.Store(false)
		close(stopped)
		over.Wait()
		arrived()
		p.show(p.groups)
	}
}

func (p *progress) howFar(to *view.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to.Unit, to.Done, to.Total = p.far.Unit, p.far.Done, p.far.Total
}

func (p *progress) event(e event.Event) {
	switch e.(type) {
	case event.ACLWidened, event.Draining, event.Breaking, event.Started:
		p.changing.Store(true)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := e.(type) {
	case event.Draining:
		p.open[e.Addr] = planview.Ongoing{Started: event.Started{Addr: e.Addr, Path: e.Path}, Drains: true, Since: time.Now()}
	case event.Started:
		p.open[e.Addr] = planview.Ongoing{Started: e, Since: time.Now()} // in place of its draining, where there was one
	case event.Applied:
		delete(p.open, e.Addr)
	case event.Failed:
		delete(p.open, e.Addr)
	case event.Left:
		for _, addr := range e.Addrs {
			delete(p.open, addr)
		}
	case event.Committed:
		p.far = view.Progress{Unit: "transactions", Done: e.Batch, Total: e.Batches}
	case event.ACLPhase:
		p.far = view.Progress{Unit: "access lists", Total: e.Total}
	case event.ACLApplied:
		p.far.Done++
	}
	if !p.together || !p.grouped(e) {
		p.show(planview.Event{Ensemble: p.ensemble, Event: e})
	}
}

// grouped reports whether an event is shown with others like it.
func (p *progress) grouped(e event.Event) bool {
	switch e := e.(type) {
	case event.Started, event.ACLApplied: // how many lists there are was said before the first
		return true
	case event.Applied:
		p.groups.Add(p.ensemble, e)
		return true
	}
	return false
}

func (p *progress) watch(stopped <-chan struct{}) {
	tick := time.NewTicker(stillEvery)
	defer tick.Stop()
	for {
		select {
		case <-stopped:
			return
		case now := <-tick.C:
			p.mu.Lock()
			long := slices.SortedFunc(maps.Values(p.open), func(a, b planview.Ongoing) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Addr, b.Addr)) })
			long = slices.DeleteFunc(long, func(o planview.Ongoing) bool { return now.Sub(o.Since) < time.Second })
			if len(long) > 0 {
				p.show(planview.Still{Ensemble: p.ensemble, Open: long, Now: now})
			}
			p.mu.Unlock()
		}
	}
}
