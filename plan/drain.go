package plan

import (
	"fmt"

	"github.com/locktree/locktree/recipes/kind"
)

// draining warns of locks that an interrupted apply left closed. Nobody new gets into
// them, so the plan must say what happens to them, even if it changes nothing else. A
// lock that this plan opens again is visible by itself: its state changes.
//
// Otherwise such a lock shows no difference. Its state is not a parameter, and the hash in
// the index leaves it out, because draining is not an edit by hand.
func (d *selection) draining() {
	for c := range d.p.Each() {
		if c.Before == nil || !d.ours(c.Before) || c.Before.Payload.State != kind.StateDraining ||
			c.Revive && c.Action == Update {
			continue
		}
		n := &Node{Addr: c.Addr, Path: c.Path}
		then := "This plan leaves it closed: plan the whole configuration, which opens it again, or deletes it if it is not declared."
		switch {
		case c.Action == Forget:
			then = "It is opened again before it is forgotten."
		case c.Action == Delete:
			then = "This plan finishes: it is deleted when it is idle. Declare it again to have it opened instead."
		case c.Action == Replace:
			then = "This plan finishes: it is replaced when it is idle."
		case c.Tombstone && c.Action == Update:
			then = "This plan finishes: it is moved when it is idle."
		}
		d.problem(Warning, ProblemDraining, n, "Lock was left draining",
			fmt.Sprintf("An apply was interrupted while it waited for %s to become idle, and since then nobody new gets in. %s", c.Addr, then))
	}
}
