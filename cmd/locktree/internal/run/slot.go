package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/cmd/locktree/internal/child"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind/slots"
	"github.com/locktree/locktree/recipes/once"
)

// slot is the run of a job that runs once for each slot; zero for other locks.
type slot struct {
	start  *once.Start
	result error // of the command
}

// noteEnd notes the end of the command.
func (r *slot) noteEnd(p *child.Process, stopped string) {
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

// environment tells the command which slot it is run for.
func (r *slot) environment() []string {
	if r.start == nil {
		return nil
	}
	return []string{"LOCKTREE_SLOT=" + r.start.Slot}
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

// Skip marks a slot so that no program runs it.
func Skip(ctx context.Context, l *stack.Loader, o Options, slot string) (path string, err error) {
	e, paths, err := l.Locks(o.Inputs, o.Locks, o.Ensemble)
	if err != nil {
		return "", err
	}
	cfg, err := l.ClientConfig(e)
	if err != nil {
		return "", err
	}
	cfg.ID = o.ID
	client, err := l.ConnectWith(ctx, e, cfg)
	if err != nil {
		return "", err
	}
	defer client.Close()
	return paths[0], skipError(ctx, client, once.New(client, paths[0]).Skip(ctx, slot))
}

// skipError says why a slot was not skipped.
func skipError(ctx context.Context, client *recipes.Client, err error) error {
	var held *recipes.HeldError
	var taken *once.SlotError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &held):
		return view.Failf("Job is running", "%s Try again when it has ended.", heldText(held))
	case errors.As(err, &taken):
		return view.Failf("Slot not changed", "%s", takenText(taken))
	case errors.Is(err, once.ErrSlotTooOld), errors.Is(err, once.ErrNoSlot), errors.Is(err, slots.ErrUnknownZone):
		return view.Failf("No such slot", "Nothing was changed: %s.", view.Sentence(err))
	case errors.Is(err, recipes.ErrKindMismatch):
		return view.Failf("Not a job", "Only what is declared as once has slots: %s.", view.Sentence(err))
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, recipes.ErrNotProvisioned):
		return view.Failf("Not a declared job", "Nothing was changed: %s. Declare and apply it.", view.Sentence(err))
	}
	return stack.Denied(ctx, client, err)
}
