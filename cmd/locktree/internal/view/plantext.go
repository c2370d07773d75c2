package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
)

// planText writes a plan in Terraform's grammar.
type planText struct {
	Stream
	nowMs int64
}

// operation is what the plans are for, in a word: all of them for the same.
func (p Plan) operation() string {
	if len(p.Plans) > 0 && p.Plans[0].Destroy {
		return "destroy"
	}
	return "apply"
}

func (p Plan) text(h *Human) {
	t := planText{h.out, p.NowMs}
	rule := strings.Repeat("─", min(max(h.out.Width, 20), 78))
	drifted := t.drift(p.Plans)
	if Changed(p.Plans) {
		if drifted {
			t.printf("\n%s\n", rule)
		}
		if slices.ContainsFunc(p.Plans, visible) {
			t.preamble(p)
		}
		grouped, together := false, h.out.Terminal && !p.Full && Many(p.Plans)
		for _, one := range p.Plans {
			grouped = t.changes(one, len(p.Plans) > 1, p.Concise, together) || grouped
		}
		if grouped {
			t.printf("\n%s\n", t.paint(dim)("Locks of one block that are only created are one entry. -full shows each."))
		}
		t.outputs(p.Plans)
		t.summary(p)
	} else if !p.Failing() {
		t.nothing(p)
	}
	for _, line := range notRead(p.Plans) {
		t.printf("\nNote: %s.\n", clean(line))
	}
	h.Diagnostics(folded(p), p.Files)
	switch {
	case p.Failing():
	case p.SavedTo != "":
		t.printf("\n%s\n\nSaved the plan to: %s\n\nTo perform exactly these actions, run the following command to apply:\n    locktree apply %s\n", rule, p.SavedTo, quote(p.SavedTo))
	case !p.NoAdvice && Changed(p.Plans):
		t.printf("\n%s\n\nNote: You didn't use the -out option to save this plan, so locktree can't guarantee to take exactly these actions if you run \"locktree apply\" now.\n", rule)
	}
}

// Changed reports whether any of the plans changes something.
func Changed(plans []*plan.Plan) bool {
	return slices.ContainsFunc(plans, (*plan.Plan).HasChanges)
}

// Failing reports whether any of the plans cannot be applied.
func Failing(plans []*plan.Plan) bool {
	return slices.ContainsFunc(plans, func(p *plan.Plan) bool { return !p.Applyable() })
}

// Failing reports whether nothing of it can be applied.
func (p Plan) Failing() bool { return p.Incomplete || Failing(p.Plans) }

// visible reports whether a plan has anything to show besides its outputs.
func visible(p *plan.Plan) bool {
	return p.Resumes != "" || len(p.Access) > 0 || p.NotesAccess() || slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.Action != plan.NoOp || c.PreviousAddr != "" })
}

// drift shows what somebody changed by hand since the last apply.
func (t planText) drift(plans []*plan.Plan) bool {
	var lines []string
	for _, p := range plans {
		for _, one := range p.Drifted {
			what, where := "changed", ""
			if one.Deleted {
				what = "been deleted"
			}
			if one.Addr == plan.EnsembleAddr(p.Ensemble) {
				where = " at " + clean(one.Path)
			}
			lines = append(lines, fmt.Sprintf("  # %s has %s%s", clean(one.Addr), what, where))
			for _, a := range one.Attributes {
				lines = append(lines, fmt.Sprintf("      %s %s = %s (declared: %s)", t.paint(yellow)("~"), a.Name, clean(a.Found), clean(a.Declared)))
			}
		}
	}
	if len(lines) == 0 {
		return false
	}
	t.printf("\n%s\n\nlocktree detected the following changes made outside of locktree since the last \"locktree apply\":\n\n%s\n",
		t.paint(bold)("Note: Objects have changed outside of locktree"), strings.Join(lines, "\n"))
	return true
}

// preamble explains the symbols that occur, and no others.
func (t planText) preamble(p Plan) {
	legend := []struct {
		action plan.Action
		text   string
	}{
		{plan.Create, "create"},
		{plan.Update, "update in-place"},
		{plan.Delete, "destroy"},
		{plan.Replace, "destroy and then create replacement"},
		{plan.Forget, "forget, without destroying"},
	}
	what := "will perform the following actions"
	if p.Failing() {
		what = "planned the following actions, but then encountered a problem"
	}
	t.printf("\nlocktree %s. They are indicated with these symbols:\n", what)
	for _, l := range legend {
		if slices.ContainsFunc(p.Plans, func(one *plan.Plan) bool {
			return l.action == plan.Update && (len(one.Access) > 0 || one.NotesAccess()) || slices.ContainsFunc(one.Shown(), func(c *plan.Change) bool { return c.Action == l.action })
		}) {
			symbol := l.action.Symbol()
			t.printf("%s\n", t.paint(symbolColours[symbol])(fmt.Sprintf("%3s %s", symbol, l.text)))
		}
	}
}

// changes prints the blocks of one ensemble in the order of their paths, so that
// the plan reads as the tree does.
// Changes that are alike are shown together, if that is wanted; grouped reports whether there are any.
func (t planText) changes(p *plan.Plan, several, concise, together bool) (grouped bool) {
	if several && p.HasChanges() {
		t.printf("\n%s\n", t.paint(bold)("Ensemble "+quote(p.Ensemble)+", below "+clean(p.Root)+":"))
	}
	if p.Resumes != "" {
		t.printf("\n  # resuming apply %s: %d access list %s pending\n", clean(p.Resumes), p.Transaction.ACLPhase, plural(p.Transaction.ACLPhase, "change", "changes"))
	}
	if concise {
		t.printf("\n")
	}
	all := byPath(p.Shown())
	var groups map[likeness][]*plan.Change
	if together {
		groups = alike(all)
	}
	for _, c := range all {
		switch group := groups[likenessOf(c)]; {
		case group != nil && plain(c):
			if c == group[0] {
				t.group(group)
			}
		case c.Action == plan.NoOp && !moved(c):
		case concise:
			t.printf("  %s %s%s\n", t.head(c), clean(c.Addr), gist(c))
		default:
			t.change(c)
		}
	}
	t.access(p, concise)
	return len(groups) > 0
}

func byPath(changes []*plan.Change) []*plan.Change {
	slices.SortStableFunc(changes, func(a, b *plan.Change) int { return strings.Compare(a.Path, b.Path) })
	return changes
}

func (t planText) change(c *plan.Change) {
	t.printf("\n")
	for _, line := range t.captions(c) {
		t.printf("  %s\n", line)
	}
	if c.Action == plan.NoOp || c.Action == plan.Forget {
		return
	}
	t.printf("%s %s {\n", t.head(c), header(c.Addr))
	shown, hidden := attributes(c)
	t.block(6, shown, hidden)
	t.printf("    }\n")
}

// head is the symbol of a change, as wide as the widest.
func (t planText) head(c *plan.Change) string {
	symbol := c.Action.Symbol()
	return t.paint(symbolColours[symbol])(fmt.Sprintf("%3s", symbol))
}

var symbolColours = map[string]string{"+": green, "~": yellow, "-": red, "-/+": red, ".": yellow}

// symbol colours the symbol a line begins with, if it does.
func (t planText) symbol(line string) string {
	symbol, rest, _ := strings.Cut(line, " ")
	if code := symbolColours[symbol]; code != "" {
		return t.paint(code)(symbol) + " " + rest
	}
	return line
}

// block writes attributes from column in on. Without symbols, they are the present state.
func (t planText) block(in int, shown []attribute, hidden int) {
	width := 0
	for _, a := range shown {
		width = max(width, len(a.name))
	}
	for _, a := range shown {
		if a.list != nil {
			t.printf("%s%s\n", pad(in), t.symbol(fmt.Sprintf("%s %-*s = [", a.symbol, width, a.name)))
			for _, line := range a.list {
				t.printf("%s%s\n", pad(in+4), t.symbol(clean(line)))
			}
			t.printf("%s]\n", pad(in+1+len(a.symbol)))
			continue
		}
		comment := ""
		if a.comment != "" {
			comment = " " + t.paint(red)("# "+a.comment)
		}
		t.printf("%s%s\n", pad(in), t.symbol(fmt.Sprintf("%s %-*s = %s%s", a.symbol, width, a.name, clean(a.text), comment)))
	}
	if hidden > 0 {
		t.printf("        # (%d unchanged %s hidden)\n", hidden, plural(hidden, "attribute", "attributes"))
	}
}

func pad(n int) string { return strings.Repeat(" ", n) }

// total adds up what several ensembles' plans do.
func total(plans []*plan.Plan) plan.Counts {
	var sum plan.Counts
	for _, p := range plans {
		sum = sum.Plus(p.Summary())
	}
	return sum
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
		if p.Failing() {
			return // the problems say why it cannot be applied
		}
		what := "You can apply this plan to save these new output values, without changing any locks."
		switch {
		case slices.ContainsFunc(p.Plans, (*plan.Plan).MendsIndex):
			what = "You can apply this plan to write the record of the stack again, without changing any locks."
		case slices.ContainsFunc(p.Plans, (*plan.Plan).Seals):
			what = "Some nodes have no sum of what the last apply left. You can apply this plan to add it, without changing any locks."
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

// notRead says how many nodes of others were only counted.
func notRead(plans []*plan.Plan) (lines []string) {
	for _, p := range plans {
		for path, n := range p.Unread {
			if n > 0 {
				lines = append(lines, fmt.Sprintf("%s is open to others: %d %s not read", path, n, plural(n, "node", "nodes")))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func (t planText) nothing(p Plan) {
	rest := "Your locks match the configuration."
	if p.operation() == "destroy" {
		rest = "No objects need to be destroyed."
	}
	t.printf("\n%s %s\n", t.paint(green)("No changes."), rest)
}
