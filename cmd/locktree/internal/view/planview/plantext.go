package planview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
)

// planText writes a plan in Terraform's grammar.
type planText struct {
	view.Stream
	nowMs int64
}

func (p Plan) WriteText(h *view.Human) {
	t := planText{h.Out, p.NowMs}
	rule := strings.Repeat("─", min(max(h.Out.Width, 20), 78))
	drifted := t.drift(p.Plans)
	if Changed(p.Plans) {
		if drifted {
			t.Printf("\n%s\n", rule)
		}
		if slices.ContainsFunc(p.Plans, visible) {
			t.preamble(p)
		}
		grouped, together := false, h.Out.Terminal && !p.Full && Many(p.Plans)
		for _, one := range p.Plans {
			grouped = t.changes(one, len(p.Plans) > 1, p.Concise, together) || grouped
		}
		if grouped {
			t.Printf("\n%s\n", t.Paint(view.Dim)("Locks of one block that are only created are one entry. -full shows each."))
		}
		outputChanges(t.Stream, p.Plans)
		t.summary(p)
	} else if !p.Failing() {
		rest := "Your locks match the configuration."
		if p.operation() == "destroy" {
			rest = "No objects need to be destroyed."
		}
		t.Printf("\n%s %s\n", t.Paint(view.Green)("No changes."), rest)
	}
	for _, line := range notRead(p.Plans) {
		t.Printf("\nNote: %s.\n", view.Clean(line))
	}
	h.Diagnostics(folded(p), p.Files)
	switch {
	case p.Failing():
	case p.SavedTo != "":
		t.Printf("\n%s\n\nSaved the plan to: %s\n\nTo perform exactly these actions, run the following command to apply:\n    locktree apply %s\n", rule, p.SavedTo, view.Quote(p.SavedTo))
	case !p.NoAdvice && Changed(p.Plans):
		t.Printf("\n%s\n\nNote: You didn't use the -out option to save this plan, so locktree can't guarantee to take exactly these actions if you run \"locktree apply\" now.\n", rule)
	}
}

// visible reports whether a plan has anything to show besides its outputs.
func visible(p *plan.Plan) bool {
	return p.Resumes != "" || len(p.Access) > 0 || p.NotesAccess() || slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.Action != plan.NoOp || c.PreviousAddr != "" })
}

// drift shows the changes that were made by hand since the last apply.
func (t planText) drift(plans []*plan.Plan) bool {
	var lines []string
	for _, p := range plans {
		for _, one := range p.Drifted {
			what, where := "changed", ""
			if one.Deleted {
				what = "been deleted"
			}
			if one.Addr == plan.EnsembleAddr(p.Ensemble) {
				where = " at " + view.Clean(one.Path)
			}
			lines = append(lines, fmt.Sprintf("  # %s has %s%s", view.Clean(one.Addr), what, where))
			for _, a := range one.Attributes {
				lines = append(lines, fmt.Sprintf("      %s %s = %s (declared: %s)", t.Paint(view.Yellow)("~"), a.Name, view.Clean(a.Found), view.Clean(a.Declared)))
			}
		}
	}
	if len(lines) == 0 {
		return false
	}
	t.Printf("\n%s\n\nlocktree detected the following changes made outside of locktree since the last \"locktree apply\":\n\n%s\n",
		t.Paint(view.Bold)("Note: Objects have changed outside of locktree"), strings.Join(lines, "\n"))
	return true
}

// preamble explains the symbols that occur, and no others.
func (t planText) preamble(p Plan) {
	what := "will perform the following actions"
	if p.Failing() {
		what = "planned the following actions, but then encountered a problem"
	}
	t.Printf("\nlocktree %s. They are indicated with these symbols:\n", what)
	for _, l := range []struct {
		action plan.Action
		text   string
	}{{plan.Create, "create"}, {plan.Update, "update in-place"}, {plan.Delete, "destroy"},
		{plan.Replace, "destroy and then create replacement"}, {plan.Forget, "forget, without destroying"}} {
		if slices.ContainsFunc(p.Plans, func(one *plan.Plan) bool {
			return l.action == plan.Update && (len(one.Access) > 0 || one.NotesAccess()) || slices.ContainsFunc(one.Shown(), func(c *plan.Change) bool { return c.Action == l.action })
		}) {
			symbol := l.action.Symbol()
			t.Printf("%s\n", t.Paint(symbolColours[symbol])(fmt.Sprintf("%3s %s", symbol, l.text)))
		}
	}
}

// changes prints the blocks of one ensemble in the order of their paths, as the tree does. With together, changes that are alike are
// one entry; grouped reports whether there are any.
func (t planText) changes(p *plan.Plan, several, concise, together bool) (grouped bool) {
	if several && p.HasChanges() {
		t.Printf("\n%s\n", t.Paint(view.Bold)("Ensemble "+view.Quote(p.Ensemble)+", below "+view.Clean(p.Root)+":"))
	}
	if p.Resumes != "" {
		t.Printf("\n  # resuming apply %s: %d access list %s pending\n", view.Clean(p.Resumes), p.Transaction.ACLPhase, view.PluralWord(p.Transaction.ACLPhase, "change", "changes"))
	}
	if concise {
		t.Printf("\n")
	}
	all := byPath(p.Shown())
	groups := map[likeness][]*plan.Change{}
	for _, c := range all {
		if together && plain(c) {
			groups[likenessOf(c)] = append(groups[likenessOf(c)], c)
		}
	}
	for _, c := range all {
		switch group := groups[likenessOf(c)]; {
		case len(group) > fewAlike && plain(c):
			if grouped = true; c == group[0] {
				t.group(group)
			}
		case c.Action == plan.NoOp && !moved(c):
		case concise:
			t.Printf("  %s %s%s\n", t.head(c), view.Clean(c.Addr), gist(c))
		default:
			t.change(c)
		}
	}
	t.access(p, concise)
	return grouped
}

func byPath(changes []*plan.Change) []*plan.Change {
	slices.SortStableFunc(changes, func(a, b *plan.Change) int { return strings.Compare(a.Path, b.Path) })
	return changes
}

func (t planText) change(c *plan.Change) {
	t.Printf("\n")
	for _, line := range t.captions(c) {
		t.Printf("  %s\n", line)
	}
	if c.Action == plan.NoOp || c.Action == plan.Forget {
		return
	}
	t.Printf("%s %s {\n", t.head(c), header(c.Addr))
	shown, hidden := attributes(c)
	t.block(6, shown, hidden)
	t.Printf("    }\n")
}

// head is the symbol of a change, as wide as the widest.
func (t planText) head(c *plan.Change) string {
	symbol := c.Action.Symbol()
	return t.Paint(symbolColours[symbol])(fmt.Sprintf("%3s", symbol))
}

var symbolColours = map[string]string{"+": view.Green, "~": view.Yellow, "-": view.Red, "-/+": view.Red, ".": view.Yellow}

// symbol colours the symbol a line begins with, if it does.
func (t planText) symbol(line string) string {
	symbol, rest, _ := strings.Cut(line, " ")
	if code := symbolColours[symbol]; code != "" {
		return t.Paint(code)(symbol) + " " + rest
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
			t.Printf("%s%s\n", pad(in), t.symbol(fmt.Sprintf("%s %-*s = [", a.symbol, width, a.name)))
			for _, line := range a.list {
				t.Printf("%s%s\n", pad(in+4), t.symbol(view.Clean(line)))
			}
			t.Printf("%s]\n", pad(in+1+len(a.symbol)))
			continue
		}
		comment := ""
		if a.comment != "" {
			comment = " " + t.Paint(view.Red)("# "+a.comment)
		}
		t.Printf("%s%s\n", pad(in), t.symbol(fmt.Sprintf("%s %-*s = %s%s", a.symbol, width, a.name, view.Clean(a.text), comment)))
	}
	if hidden > 0 {
		t.Printf("        # (%d unchanged %s hidden)\n", hidden, view.PluralWord(hidden, "attribute", "attributes"))
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

// SummaryLine is the line that scripts search for. If there are any, it counts imports as Terraform does, and forgotten locks as OpenTofu.
func SummaryLine(c plan.Counts) string {
	return "Plan: " + figures(c, "%d to import, ", "%d to add, %d to change, %d to destroy", ", %d to forget")
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
	if !slices.ContainsFunc(p.Plans, visible) {
		if p.Failing() {
			return // the problems say why it cannot be applied
		}
		what := "You can apply this plan to save these new output values, without changing any locks."
		switch {
		case slices.ContainsFunc(p.Plans, func(one *plan.Plan) bool { return one.Before.Lost }):
			what = "You can apply this plan to write the record of the stack again, without changing any locks."
		case slices.ContainsFunc(p.Plans, (*plan.Plan).Seals):
			what = "Some nodes have no sum of what the last apply left. You can apply this plan to add it, without changing any locks."
		case p.operation() == "destroy":
			what = "No locks are left. You can apply this plan to remove what locktree recorded about the stack."
		}
		t.Printf("\n%s\n", what)
		return
	}
	line := SummaryLine(total(p.Plans))
	t.Printf("\n%s%s\n", t.Paint(view.Bold)(line[:5]), line[5:])
	for _, one := range p.Plans {
		if s := one.Transaction; s.Ops > 0 {
			several := max(len(one.Batches), 1)
			text := fmt.Sprintf("%d %s, %d %s, %.1f kB.", several, view.PluralWord(several, "transaction", "transactions"), s.Ops, view.PluralWord(s.Ops, "operation", "operations"), float64(s.Bytes)/1000)
			if s.ACLPhase > 0 {
				text += fmt.Sprintf(" Then %d access %s of existing nodes.", s.ACLPhase, view.PluralWord(s.ACLPhase, "list", "lists"))
			}
			if len(p.Plans) > 1 {
				text = "Ensemble " + view.Quote(one.Ensemble) + ": " + text
			}
			t.Printf("%s\n", t.Paint(view.Dim)(text))
		}
	}
}

// notRead says how many nodes of others were only counted.
func notRead(plans []*plan.Plan) (lines []string) {
	for _, p := range plans {
		for path, n := range p.Unread {
			if n > 0 {
				lines = append(lines, fmt.Sprintf("%s is open to others: %d %s not read", path, n, view.PluralWord(n, "node", "nodes")))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// access shows the tool's own nodes as one block, that of the ensemble which declares who may use them.
func (t planText) access(p *plan.Plan, concise bool) {
	if len(p.Access) == 0 && !p.NotesAccess() {
		return
	}
	addr := view.Clean(plan.EnsembleAddr(p.Ensemble))
	if concise {
		t.Printf("  %s %s (%s of locktree's own nodes)\n", t.Paint(view.Yellow)("  ~"), addr, view.Plural(len(p.Access), "access list"))
		return
	}
	t.Printf("\n  %s\n  # (who may use locktree's own nodes: admins and readers)\n%s ensemble %s {\n", t.Paint(view.Bold)("# "+addr+" will be updated in-place"), t.Paint(view.Yellow)("  ~"), view.Quote(p.Ensemble))
	if len(p.Access) == 0 {
		t.Printf("        # (noted in the record; no access list changes)\n")
	}
	t.block(6, accessLists(p.Access), 0)
	t.Printf("    }\n")
}

// accessLists folds what says the same of different nodes, in the order of the first ones.
func accessLists(changes []plan.AccessChange) (out []attribute) {
	paths := map[string][]string{}
	for i := range changes {
		c := &changes[i]
		a := attribute{symbol: "~", name: "acl", list: listChange(&c.ACLDiff)}
		if c.Contenders {
			a.name = "contender_acl"
		}
		key := fmt.Sprint(a)
		if paths[key] == nil {
			out = append(out, a)
		}
		paths[key] = append(paths[key], c.Pin.Path)
	}
	for i, a := range out {
		out[i].list = append([]string{"  # of " + view.FirstFew(paths[fmt.Sprint(a)])}, a.list...)
	}
	return out
}

// group is the entry for changes that are alike.
func (t planText) group(all []*plan.Change) {
	first := all[0]
	t.Printf("\n  %s\n", t.loud(fmt.Sprintf("# %s %s, %d times", view.Clean(first.Addr.Block()), verb(first), len(all))))
	if first.Drift {
		t.Printf("  %s\n", deleted)
	}
	for _, c := range all[:fewAlike] {
		t.Printf("%s %s\n", t.head(c), view.Clean(c.Addr))
	}
	t.Printf("    # (and %d more)\n", len(all)-fewAlike)
}

// Changes that are many and alike are one entry on a terminal.
const (
	manyChanges = 200 // more of them than that
	fewAlike    = 3   // no more alike than that stay whole; of others, so many are named
)

// Many reports whether plans have so many changes that a person reads those that are alike as one.
func Many(plans []*plan.Plan) bool {
	n := 0
	for _, p := range plans {
		for _, c := range p.Changes {
			if c.Action != plan.NoOp {
				n++
			}
		}
	}
	return n > manyChanges
}

// likeness is what changes have in common that are one entry.
type likeness struct {
	block  plan.Addr
	action plan.Action
	drift  bool
}

// plain reports whether a change is a creation and no more.
func plain(c *plan.Change) bool {
	return c.Action == plan.Create && c.PreviousAddr == "" && c.Importing == "" && !c.Revive &&
		!c.Usage.Busy() && c.Relists() == ""
}

func likenessOf(c *plan.Change) likeness { return likeness{c.Addr.Block(), c.Action, c.Drift} }
