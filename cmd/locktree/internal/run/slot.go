package run

import (
	"errors"
	"fmt"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/child"
	"github.com/locktree/locktree/recipes/kind/slots"
	"github.com/locktree/locktree/recipes/once"
)

// slot is the run of a job that runs once for each slot; zero for other locks.
type slot struct {
	start  *once.Start
	result error // of the command
}

// ended notes how the command has ended.
func (r *slot) ended(p *child.Process, stopped string) {
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

// TakenText says what became of a slot.
func TakenText(e *once.SlotError) string {
	switch run := e.Run; run.State {
	case slots.Skipped:
		return fmt.Sprintf("%s of %s was skipped by %s.", e.Slot, e.Path, run.By)
	case slots.Running:
		return fmt.Sprintf("%s of %s was started by %s at %s by its clock.", e.Slot, e.Path, run.By, run.Begun().Format(time.RFC3339))
	default:
		return fmt.Sprintf("%s of %s was run by %s: it %s after %v.", e.Slot, e.Path, run.By, run.State, run.Duration())
	}
}
