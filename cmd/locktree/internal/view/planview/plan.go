// Package planview renders plans and applies: a [Plan] before an apply, each [Event] during it, [Applied] after it. It also
// renders the locks in ZooKeeper ([Live]), output values ([Outputs]) and the [History] of applies.
//
// The text follows Terraform's layout and the JSON Terraform's formats, so that tools for those read ours. It relies on package
// plan for everything that it says, and computes no change. It shows the user name of a digest, never its hash.
//
//	out.Show(planview.Plan{Plans: []*plan.Plan{p}, Files: sources})
package planview

import (
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/plan"
)

// Plan is one or more plans, one per ensemble, and what to show with them.
type Plan struct {
	Plans []*plan.Plan
	// Incomplete: there are more ensembles, which could not be read. Nothing of it can be applied.
	Incomplete bool
	Checks     []plan.Check         // of the configuration; those that do not hold are diagnostics already
	Files      map[string]*hcl.File // to show where a problem is declared
	Concise    bool                 // one line per change
	Full       bool                 // each change, however many there are
	SavedTo    string               // the file of plan -out, "" without
	NowMs      int64                // milliseconds since 1970, to say how long a lock is held; 0 leaves that out
	NoAdvice   bool                 // the plan is applied at once: no advice about -out
}

// Saved is a plan whose -json is one document.
type Saved struct{ Plan }

// operation is what the plans are for, in a word: all of them for the same.
func (p Plan) operation() string {
	if len(p.Plans) > 0 && p.Plans[0].Destroy {
		return "destroy"
	}
	return "apply"
}

// Failing reports whether nothing of it can be applied.
func (p Plan) Failing() bool { return p.Incomplete || Failing(p.Plans) }

// Changed reports whether any of the plans changes something.
func Changed(plans []*plan.Plan) bool {
	return slices.ContainsFunc(plans, (*plan.Plan).HasChanges)
}

// Failing reports whether any of the plans cannot be applied.
func Failing(plans []*plan.Plan) bool {
	return slices.ContainsFunc(plans, func(p *plan.Plan) bool { return !p.Applyable() })
}
