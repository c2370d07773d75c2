// Package change plans, asks and applies. apply, destroy and import do their work here.
//
// It relies on package apply for the order of one apply, and on a [Host] that shows results and asks a person. It parses no flags,
// and before the approval it writes nothing but its contender for the apply lock. Ensembles share no transaction: if one fails, those
// before it stay applied, and the error says so.
//
//	err := change.Run(ctx, host, change.Options{AutoApprove: true}, s, func(*plan.Plan) {})
package change

import (
	"cmp"
	"context"
	"errors"
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

// Host is the program around an apply.
type Host interface {
	stack.Screen
	Show(view.Result)
	Message(text string)
	// Approve asks a person, and returns an error if the answer is not "yes". It then shows that the action is cancelled. If there
	// is no answer at all, the error names the other way to approve.
	Approve(ctx context.Context, action, question, otherWay string) error
	// Uninterrupted makes an interrupt of the program wait until the returned function is called. If an interrupt came before, it
	// returns an error.
	Uninterrupted(context.Context) (over func(), err error)
	Changing(bool) // notes whether writes to ZooKeeper have begun
	Grouped() bool // reports whether equal changes are shown as one
}

// Options are the options of one apply.
type Options struct {
	plan.Options
	AutoApprove, NoInput bool
	Concise, Full        bool // how to show the plan
	LockTimeout          time.Duration
	Author               history.Author
}

const (
	applyQuestion = "Do you want to perform these actions?\n" +
		"  locktree will perform the actions described above.\n" +
		"  Only 'yes' will be accepted to approve."
	destroyQuestion = "Do you really want to destroy all resources?\n" +
		"  locktree will remove everything shown above from ZooKeeper.\n" +
		"  There is no undo. Only 'yes' will be accepted to confirm."
)

// confirm asks for the approval of the plan on the screen.
func confirm(ctx context.Context, h Host, o Options) error {
	if o.NoInput {
		return view.Failf("Approval needed", "-input=false forbids asking for approval. Add -auto-approve, or save the plan with \"plan -out FILE\" and apply that file.")
	}
	what, question := "Apply", applyQuestion
	if o.Destroy {
		what, question = "Destroy", destroyQuestion
	}
	return h.Approve(ctx, what, question, ", or apply a plan saved with \"plan -out FILE\"")
}

// firstTries is how often the first apply of a stack plans at most. It plans again if another apply came first.
const firstTries = 3

// Run is an apply without a saved plan: it locks, plans, shows, asks and applies.
//
// A stack that was never applied has no lock yet. Until the approval, another apply may come first. Then Run plans
// again.
func Run(ctx context.Context, h Host, o Options, s *stack.Stack, edit func(*plan.Plan)) error {
	for try := 1; ; try++ {
		err := once(ctx, h, o, s, edit)
		var stale *failure.StaleError
		var some *view.SomeEnsembles
		if try == firstTries || !errors.As(err, &stale) || stale.Locked || errors.As(err, &some) {
			return err
		}
		h.Message("\nAnother apply of this new stack came first. This is the plan after it:")
	}
}

func once(ctx context.Context, h Host, o Options, s *stack.Stack, edit func(*plan.Plan)) error {
	all, trees := make([]*applying, len(s.Config.Ensembles)), make([]*plan.Tree, len(s.Config.Ensembles))
	locked := ctx // ends when one of the locks is lost
	for i, e := range s.Config.Ensembles {
		p := newProgress(h, e.Name)
		with := o.apply(o.Destroy, p.event)
		nodes, stop := stack.Counting(h, "Locking and reading", e.Name)
		with.Tally = nodes
		run, err := apply.Begin(locked, s.Clients[i], e.Tree, with)
		stop()
		if err != nil {
			return cmp.Or(lostLock(ctx, locked), s.Denied(ctx, i, err))
		}
		defer run.Close()
		locked, trees[i], all[i] = run.Context(), run.Live(), &applying{run.Applier, s.Clients[i], p}
	}
	made := s.Diff(trees, o.Options)
	for _, p := range made {
		edit(p)
	}
	h.Show(planview.Plan{Plans: made, Files: s.Config.Sources, Concise: o.Concise, Full: o.Full, NowMs: time.Now().UnixMilli(), NoAdvice: true})
	if err := approval(locked, h, o, made); err != nil {
		return cmp.Or(lostLock(ctx, locked), err)
	}
	return execute(ctx, h, o, all, made)
}

// lostLock returns the error of a lost apply lock, which ends the apply; nil while all apply locks are held.
func lostLock(ctx, locked context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(locked)
}

// approval asks about the plans that were just shown.
func approval(ctx context.Context, h Host, o Options, plans []*plan.Plan) error {
	if planview.Failing(plans) {
		return exit.With(exit.Failed)
	}
	for _, p := range plans { // refuse before the question, which would be in vain
		if err := failure.InUse(p); err != nil {
			return err
		}
	}
	if planview.Changed(plans) && !o.AutoApprove {
		return confirm(ctx, h, o)
	}
	return nil
}

// applying is one apply on one ensemble, with the progress that shows it.
type applying struct {
	applier *apply.Applier
	client  *recipes.Client
	shown   *progress
}

// apply are the options of package apply. The operation is written into the apply lock, named as Terraform names its own.
func (o Options) apply(destroy bool, show func(event.Event)) apply.Options {
	operation := "OperationTypeApply"
	if destroy {
		operation = "OperationTypeDestroy"
	}
	return apply.Options{Events: show, LockTimeout: o.LockTimeout, Operation: operation, Author: o.Author}
}

// execute applies the plans one after the other, one for each ensemble. Ensembles share no transaction: if a later one fails
// after all, the earlier ones stay applied. The error says so, and the next plan shows what is left.
func execute(ctx context.Context, h Host, o Options, all []*applying, plans []*plan.Plan) error {
	done := planview.Applied{Operation: "apply"}
	if len(plans) > 1 { // every refusal must be known before the first write; a single Apply checks by itself
		for i, p := range plans {
			if err := all[i].applier.Check(ctx, p); err != nil {
				return stack.Denied(ctx, all[i].client, err)
			}
		}
	}
	together := h.Grouped() && !o.Full && planview.Many(plans)
	var changed []string
	for i, p := range plans {
		all[i].shown.together = together
		if p.Destroy {
			done.Operation = "destroy"
		}
		result, err := all[i].applyUninterrupted(ctx, p)
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
	h.Show(done)
	return nil
}

// applyUninterrupted calls Apply, unless an interrupt came before. An interrupt during Apply waits for its end, so finished
// changes are still shown.
func (x *applying) applyUninterrupted(ctx context.Context, p *plan.Plan) (*event.Result, error) {
	over, err := x.shown.host.Uninterrupted(ctx)
	if err != nil {
		return nil, err
	}
	defer over()
	x.shown.far = view.Progress{Unit: "transactions", Total: max(len(p.Batches), 1)}
	defer x.shown.showStill()()
	return x.applier.Apply(ctx, p)
}
