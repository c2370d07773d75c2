package page

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// planLine is a line of a plan, with the class of the colour that its symbol has in a terminal.
type planLine struct{ Class, Text string }

var planClasses = map[string]string{"+": "good", "-": "bad", "-/+": "bad", "~": "warn", ".": "warn"}

// PlanLines are what would put the configuration in force.
func (e *Ensemble) PlanLines() (out []planLine) {
	for line := range strings.SplitSeq(e.Plan, "\n") {
		symbol, _, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
		out = append(out, planLine{planClasses[symbol], line})
	}
	return out
}

// edit is a node that somebody has changed by other means than an apply.
type edit struct {
	Path, What string
	At         time.Time // when its data was written last; zero if that is not known, or not what has changed
}

// mostEdits is how many the page shows.
const mostEdits = 100

// Edits are the nodes that differ from what the last apply left.
func (e *Ensemble) Edits() (out []edit) {
	if e.Drift == nil {
		return nil
	}
	live := map[string]*plan.Node{}
	for c := range e.Drift.Each() {
		live[c.Path] = c.Before
	}
	for _, d := range e.Drift.Drifted[:min(len(e.Drift.Drifted), mostEdits)] {
		one := edit{Path: d.Path, What: "not as the last apply left it"}
		var names []string
		written := len(d.Attributes) == 0
		for _, a := range d.Attributes {
			names = append(names, a.Name)
			written = written || a.Name != "acl"
		}
		switch {
		case d.Deleted:
			one.What = "deleted"
		case len(names) > 0:
			one.What = strings.Join(names, ", ")
		}
		if n := live[d.Path]; n != nil && n.Live != nil && n.Live.ModifiedMs > 0 && written {
			one.At = time.UnixMilli(n.Live.ModifiedMs)
		}
		out = append(out, one)
	}
	return out
}

// mostApplies is how many of the last applies the page shows.
const mostApplies = 5

// adopt notes who applied last, or why that is not known.
func (e *Ensemble) adopt(history []history.Entry, err error) {
	e.Applied, e.AppliedTrouble = nil, ""
	switch {
	case err != nil:
		e.AppliedTrouble = "the history of the stack could not be read: " + view.Brief(err)
	case len(history) == 0:
		e.AppliedTrouble = "the stack has no history."
	}
	for _, one := range history {
		if one.Changes != nil && len(e.Applied) < mostApplies { // the rest was done to holders
			e.Applied = append(e.Applied, one)
		}
	}
}

func (p *problemsOf) drift() {
	if p.e.Trouble != "" {
		p.add(false, "not checked", "", "Drift and conditions: "+p.e.Trouble, "locktree doctor")
	}
	d := p.e.Drift
	if d == nil {
		return
	}
	if unfinished(d) {
		p.add(true, "apply unfinished", "", fmt.Sprintf("An apply is under way or was interrupted: access lists are still to be set, or locks admit nobody new (checked at %s).", clock(p.e.DriftAt)), "locktree plan")
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
