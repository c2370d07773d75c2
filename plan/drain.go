package plan

import (
	"fmt"

	"github.com/locktree/locktree/recipes/kind"
)

// draining tells of locks that an interrupted apply left closed. Nobody new gets
// into them, so what happens to them must be said even where nothing else does.
// One that is opened again says so by itself: its state changes.
//
// Such a lock shows no difference otherwise. Its state is no parameter, and the hash of the
// index leaves it out, because an apply that drains is not somebody's hand.
func (d *selection) draining() {
	for i := range d.p.Changes {
		c := &d.p.Changes[i]
		if c.Before == nil || !d.ours(c.Before) || c.Before.Payload.State != kind.StateDraining ||
			c.Revive && c.Action == Update {
			continue
		}
		n := &Node{Addr: c.Addr, Path: c.Path}
		then := "This plan leaves it so: plan the whole configuration, which opens it again, or deletes it where it is not declared."
		switch {
		case c.Action == Forget:
			then = "It is opened again before it is let go."
		case c.Action == Delete:
			then = "This plan finishes: it is deleted when it is idle. Declare it again to have it opened instead."
		case c.Action == Replace:
			then = "This plan finishes: it is replaced when it is idle."
		case c.Tombstone && c.Action == Update:
			then = "This plan finishes: it is moved when it is idle."
		}
		d.problem(Warning, ProblemDraining, n, "Lock was left draining",
			fmt.Sprintf("An apply was interrupted while it waited for %s to become idle: nobody new gets in since. %s", c.Addr, then))
	}
}
