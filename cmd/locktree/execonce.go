package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/child"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind/slots"
	"github.com/locktree/locktree/recipes/once"
)

// slotRun is what exec has to do with a job that runs once for each slot.
type slotRun struct {
	once   bool // -once
	start  *once.Start
	result error // of the command
}

// take starts the slot.
func (x *execution) takeSlot(ctx context.Context, client *recipes.Client, path string) (*recipes.Lease, error) {
	if !x.slot.once {
		return nil, view.Failf("Slot missing", "%s is declared as once: its command runs once for each slot. Give -once, which runs the newest one.", path)
	}
	job := once.New(client, path)
	start := job.Start
	if x.try {
		start = job.TryStart
	}
	s, err := start(ctx, "")
	if err != nil {
		return nil, err
	}
	x.slot.start, x.slot.result = s, errors.New("the command was not run")
	return s.Lease, nil
}

// ended notes how the command has ended.
func (r *slotRun) ended(p *child.Process, stopped string) {
	switch {
	case r.start == nil:
	case stopped != "":
		r.result = errors.New("ended: " + stopped)
	case p.Code() != 0:
		r.result = fmt.Errorf("exited with %d", p.Code())
	default:
		r.result = nil
	}
}

// unlock gives the lock back, of a slot with its result.
func (x *execution) unlock(ctx context.Context, lease *recipes.Lease) error {
	if x.slot.start == nil {
		return lease.Unlock(ctx)
	}
	err := x.slot.start.End(ctx, x.slot.result)
	if err == nil || errors.Is(err, recipes.ErrLost) || errors.Is(err, recipes.ErrReleasePending) {
		return err
	}
	x.say("the result of %s could not be recorded: %s", x.slot.start.Slot, view.Sentence(err))
	return nil
}

// environment tells the command which slot it is run for.
func (r *slotRun) environment() []string {
	if r.start == nil {
		return nil
	}
	return []string{"LOCKTREE_SLOT=" + r.start.Slot}
}

// notStarted says why a slot is not run; ok is false for other errors.
func (x *execution) notStarted(err error) (said error, ok bool) {
	var taken *once.SlotError
	switch {
	case errors.As(err, &taken) && x.given[conflictFlag]:
		x.tell(view.Job{Event: view.JobSkipped, Path: taken.Path, Text: takenText(taken)})
		return exit.Wrap(x.conflict, nil), true
	case errors.As(err, &taken):
		return exit.Wrap(exit.Slot, view.Failf("Slot not run", "%s", takenText(taken))), true
	case errors.Is(err, once.ErrSlotTooOld):
		return own(view.Failf("Slot too old", "The command was not run: %s. If only catch_up has passed, declare a longer one, or run the command without locktree.", view.Sentence(err))), true
	case errors.Is(err, once.ErrNoSlot), errors.Is(err, slots.ErrUnknownZone):
		return own(view.Failf("No such slot", "The command was not run: %s.", view.Sentence(err))), true
	}
	return nil, false
}

// takenText says what became of a slot.
func takenText(e *once.SlotError) string {
	switch run := e.Run; run.State {
	case slots.Skipped:
		return fmt.Sprintf("%s of %s was skipped by %s.", e.Slot, e.Path, run.By)
	case slots.Running:
		return fmt.Sprintf("%s of %s was started by %s at %s by its clock.", e.Slot, e.Path, run.By, run.Begun().Format(time.RFC3339))
	default:
		return fmt.Sprintf("%s of %s was run by %s: it %s after %v.", e.Slot, e.Path, run.By, run.State, run.Duration())
	}
}
