package serve

import (
	"strings"
	"time"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
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
		if len(names) > 0 {
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
func (e *Ensemble) adopt(history []apply.Entry, err error) {
	e.Applied, e.AppliedTrouble = nil, ""
	switch {
	case err != nil:
		e.AppliedTrouble = "the history of the stack could not be read: " + view.Brief(err)
	case len(history) == 0:
		e.AppliedTrouble = "the stack has no history"
	}
	for _, one := range history {
		if one.Changes != nil && len(e.Applied) < mostApplies { // the rest was done to holders
			e.Applied = append(e.Applied, one)
		}
	}
}
