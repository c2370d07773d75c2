package main

import (
	"context"
	"errors"
	"slices"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
)

const (
	applyQuestion = "\nDo you want to perform these actions?\n" +
		"  locktree will perform the actions described above.\n" +
		"  Only 'yes' will be accepted to approve.\n\n" +
		"  Enter a value: "
	destroyQuestion = "\nDo you really want to destroy all resources?\n" +
		"  locktree will remove everything shown above from ZooKeeper.\n" +
		"  There is no undo. Only 'yes' will be accepted to confirm.\n\n" +
		"  Enter a value: "
)

// confirm asks for the approval of what was just shown.
func (a *app) confirm(ctx context.Context, f *applyFlags) error {
	if !f.input {
		return view.Failf("Approval needed", "-input=false forbids the question. Add -auto-approve, or save the plan with \"plan -out FILE\" and apply that file.")
	}
	question, cancelled := applyQuestion, "\nApply cancelled."
	if f.destroy {
		question, cancelled = destroyQuestion, "\nDestroy cancelled."
	}
	err := a.approve(ctx, question)
	if errors.Is(err, errNoApproval) {
		a.view().Message(cancelled)
		return exitWith(exitError)
	}
	return err
}

// approveAndExecute asks about the plans that were just shown and carries them out.
func (a *app) approveAndExecute(ctx context.Context, f *applyFlags, s *stack, plans []*plan.Plan) error {
	if !applyable(plans) {
		return exitWith(exitError)
	}
	if err := inUse(plans); err != nil {
		return err
	}
	if hasChanges(plans) && !f.autoApprove {
		if err := a.confirm(ctx, f); err != nil {
			return err
		}
	}
	return a.execute(ctx, f, s, plans)
}

// execute carries out the plans, one transaction an ensemble. Ensembles know
// nothing of each other: when a later one fails all the same, the earlier ones stay
// applied, which the error says, and the next plan shows what is left.
func (a *app) execute(ctx context.Context, f *applyFlags, s *stack, plans []*plan.Plan) error {
	done := view.Applied{Operation: "apply"}
	all, err := executors(ctx, f, s, plans)
	if err != nil {
		return err
	}
	var changed []string
	for i, p := range plans {
		if p.Destroy {
			done.Operation = "destroy"
		}
		told, x := a.progress(p.Ensemble), all[i]
		x.Events = told.event
		result, err := x.Run(ctx, p)
		told.stop()
		if err != nil {
			err = denied(x.Client, busyImport(p, err))
			if len(changed) > 0 {
				err = &view.SomeEnsembles{Applied: changed, Failed: p.Ensemble, Err: err}
			}
			return err
		}
		if p.HasChanges() {
			changed = append(changed, p.Ensemble)
		}
		done.Counts = view.Sum(done.Counts, result.Counts)
		done.Outputs = append(done.Outputs, result.Outputs...)
	}
	a.view().Applied(done)
	return nil
}

// executors are those of the plans. What is refused on any ensemble as things stand is
// refused here, before anything is written on another one.
func executors(ctx context.Context, f *applyFlags, s *stack, plans []*plan.Plan) ([]*apply.Executor, error) {
	all := make([]*apply.Executor, len(plans))
	for i, p := range plans {
		client, err := s.clientFor(p)
		if err != nil {
			return nil, err
		}
		all[i] = &apply.Executor{Client: client, LockTimeout: f.lockTimeout, Operation: operationType(p), Who: who(), Version: version()}
	}
	if len(plans) == 1 {
		return all, nil // Run looks first, too
	}
	for i, p := range plans {
		if err := all[i].Check(ctx, p); err != nil {
			return nil, denied(all[i].Client, busyImport(p, err))
		}
	}
	return all, nil
}

// busyImport tells the one lock in use of which a new plan would make something else: what
// is imported to where it stands. One that goes to another path cannot while it is used.
func busyImport(p *plan.Plan, err error) error {
	var inUse *apply.InUseError
	if errors.As(err, &inUse) && slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return !c.Tombstone && c.Importing == inUse.Path && c.Path == inUse.Path }) {
		return &view.BusyImport{Err: err}
	}
	return err
}

// operationType is the word Terraform writes into its lock.
func operationType(p *plan.Plan) string {
	if p.Destroy {
		return "OperationTypeDestroy"
	}
	return "OperationTypeApply"
}

// inUse is the refusal of plans that delete or replace a lock somebody uses: asking
// for approval first would waste an answer.
func inUse(plans []*plan.Plan) error {
	for _, p := range plans {
		busy := slices.DeleteFunc(p.InUse(), func(c *plan.Change) bool { return c.Break })
		if len(busy) > 0 && p.Drain == 0 {
			c := busy[0]
			return &apply.InUseError{Addr: c.Addr, Path: c.Path, Action: c.Action, Reason: c.Reason, Usage: c.Usage, Others: len(busy) - 1}
		}
	}
	return nil
}
