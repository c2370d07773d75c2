package page

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

func (p *problemsOf) drift() {
	if p.e.Trouble != "" {
		p.add(false, "not checked", "", "Drift and conditions: "+p.e.Trouble, "locktree doctor")
	}
	d := p.e.Drift
	if d == nil {
		return
	}
	if unfinished(d) {
		p.add(true, "apply unfinished", "", fmt.Sprintf("An apply is under way or was interrupted: access lists are still to be set, or locks admit no further holder (checked at %s).", clock(p.e.DriftAt)), "locktree plan")
	}
	c := d.Summary()
	if at := slices.IndexFunc(p.found, func(f Problem) bool { return f.What == "missing" }); at >= 0 && d.Applyable() && p.onlyMissing(d, c) {
		p.found[at].Also = append(p.found[at].Also, fmt.Sprintf("An apply would create what is missing (checked at %s).", clock(p.e.DriftAt)))
		return
	}
	if c != (plan.Counts{}) || !d.Applyable() {
		found := p.add(false, "drift", "", fmt.Sprintf("The tree differs from the configuration: %d to add, %d to change, %d to destroy (checked at %s).",
			c.Add, c.Change, c.Destroy, clock(p.e.DriftAt)), "locktree plan")
		for _, one := range d.Changes {
			if p.e.find(one.Path) != nil || p.missing[one.Path] { // else there is no page about it
				found.Locks = append(found.Locks, one.Path)
			}
		}
	}
}

// onlyMissing reports whether a plan only creates locks that are known to be missing, and what they stand in.
func (p *problemsOf) onlyMissing(d *plan.Plan, c plan.Counts) bool {
	return c == plan.Counts{Add: c.Add} && !slices.ContainsFunc(d.Changes, func(one plan.Change) bool {
		return one.Action == plan.Create && !p.missing[one.Path] && !slices.ContainsFunc(slices.Collect(maps.Keys(p.missing)), func(path string) bool { return strings.HasPrefix(path, one.Path+"/") })
	})
}

// unfinished reports whether the tree shows an apply that has not come to its end.
func unfinished(p *plan.Plan) bool {
	return p.Resumes != "" || slices.ContainsFunc(p.Changes, func(c plan.Change) bool {
		return c.Before != nil && c.Before.Payload != nil && c.Before.Payload.State == kind.StateDraining
	})
}
