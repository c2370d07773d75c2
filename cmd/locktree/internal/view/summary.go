package view

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan"
)

// total adds up what several ensembles' plans do.
func total(plans []*plan.Plan) plan.Counts {
	var sum plan.Counts
	for _, p := range plans {
		sum = Sum(sum, p.Summary())
	}
	return sum
}

// Sum adds two figures of the summary line.
func Sum(a, b plan.Counts) plan.Counts {
	return plan.Counts{Add: a.Add + b.Add, Change: a.Change + b.Change, Destroy: a.Destroy + b.Destroy,
		Import: a.Import + b.Import, Forget: a.Forget + b.Forget}
}

// SummaryLine is the line that scripts search for. It names imports as Terraform does, and
// what is forgotten as OpenTofu does, only if there are any.
func SummaryLine(c plan.Counts) string {
	return "Plan: " + figures(c, "%d to import, ", "%d to add, %d to change, %d to destroy", ", %d to forget")
}

// line is the one that scripts search for when an apply is done.
func (a Applied) line() string {
	if a.Operation == "destroy" {
		return fmt.Sprintf("Destroy complete! Resources: %d destroyed.", a.Counts.Destroy)
	}
	return "Apply complete! Resources: " + figures(a.Counts, "%d imported, ", "%d added, %d changed, %d destroyed", ", %d forgotten")
}

func figures(c plan.Counts, imported, always, forgotten string) string {
	text := fmt.Sprintf(always, c.Add, c.Change, c.Destroy)
	if c.Import > 0 {
		text = fmt.Sprintf(imported, c.Import) + text
	}
	if c.Forget > 0 {
		text += fmt.Sprintf(forgotten, c.Forget)
	}
	return text + "."
}

func (t planText) summary(p Plan) {
	counts := total(p.Plans)
	if !slices.ContainsFunc(p.Plans, visible) {
		if Failing(p.Plans) {
			return // the problems say why it cannot be applied
		}
		what := "You can apply this plan to save these new output values, without changing any locks."
		switch {
		case slices.ContainsFunc(p.Plans, (*plan.Plan).MendsIndex):
			what = "You can apply this plan to rebuild the index, without changing any locks."
		case p.operation() == "refresh":
			what = "You can apply this plan to record the present state of the locks, without changing any."
		case p.operation() == "destroy":
			what = "No locks are left. You can apply this plan to remove what locktree recorded about the stack."
		}
		t.printf("\n%s\n", what)
		return
	}
	line := SummaryLine(counts)
	t.printf("\n%s%s\n", t.paint(bold)(line[:5]), line[5:])
	for _, one := range p.Plans {
		if s := one.Transaction; s.Ops > 0 {
			several := max(len(one.Batches), 1)
			text := fmt.Sprintf("%d %s, %d %s, %.1f kB.", several, plural(several, "transaction", "transactions"), s.Ops, plural(s.Ops, "operation", "operations"), float64(s.Bytes)/1000)
			if s.ACLPhase > 0 {
				text += fmt.Sprintf(" Then %d access %s of existing nodes.", s.ACLPhase, plural(s.ACLPhase, "list", "lists"))
			}
			if len(p.Plans) > 1 {
				text = "Ensemble " + quote(one.Ensemble) + ": " + text
			}
			t.printf("%s\n", t.paint(dim)(text))
		}
	}
}

func (t planText) nothing(p Plan) {
	rest := "Your locks match the configuration."
	switch p.operation() {
	case "refresh":
		rest = "Your locks still match the configuration."
	case "destroy":
		rest = "No objects need to be destroyed."
	}
	t.printf("\n%s %s\n", t.paint(green)("No changes."), rest)
}
