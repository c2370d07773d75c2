// Package planview renders plans and applies: a [Plan] before an apply, each [Event] during it, [Applied] after it. It also
// renders the locks in ZooKeeper ([Live]), output values ([Outputs]) and the [History] of applies.
//
// The text has Terraform's layout, and the JSON has Terraform's formats, so tools for Terraform can read both. The package relies
// on package plan for everything that it says, and computes no change. It shows the user name of a digest, never its hash.
//
//	out.Show(planview.Plan{Plans: []*plan.Plan{p}, Files: sources})
package planview

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes/kind"
)

// Plan is one or more plans, one per ensemble, and what to show with them.
type Plan struct {
	Plans []*plan.Plan
	// Incomplete means that some ensembles could not be read. Then the plan cannot be applied.
	Incomplete bool
	Checks     []plan.Check         // of the configuration; failed checks are already diagnostics
	Files      map[string]*hcl.File // to show where a problem is declared
	Concise    bool                 // one line per change
	Full       bool                 // each change, however many there are
	SavedTo    string               // the file of plan -out, "" without
	NowMs      int64                // milliseconds since 1970, to say how long a lock is held; 0 leaves that out
	NoAdvice   bool                 // the plan is applied at once: no advice about -out
}

// Saved is a plan whose -json is one document.
type Saved struct{ Plan }

// operation is the word for the plans, "apply" or "destroy"; it is the same for all of them.
func (p Plan) operation() string {
	if len(p.Plans) > 0 && p.Plans[0].Destroy {
		return "destroy"
	}
	return "apply"
}

// Failing reports whether the plan cannot be applied.
func (p Plan) Failing() bool { return p.Incomplete || Failing(p.Plans) }

// Changed reports whether any of the plans changes something.
func Changed(plans []*plan.Plan) bool {
	return slices.ContainsFunc(plans, (*plan.Plan).HasChanges)
}

// Failing reports whether any of the plans cannot be applied.
func Failing(plans []*plan.Plan) bool {
	return slices.ContainsFunc(plans, func(p *plan.Plan) bool { return !p.Applyable() })
}

func (p Plan) WriteJSON(m *view.Machine) {
	for _, one := range p.Plans {
		for _, d := range one.Drifted {
			m.Send("info", "resource_drift", fmt.Sprintf("%s: Drift detected (%s)", d.Addr, d.Action()),
				view.Fields{"change": &change{Action: d.Action().String(), Resource: newPlanned(one.Ensemble, d.Addr), Attributes: d.Attributes}})
		}
	}
	outputs := map[string]document.Output{}
	for _, one := range p.Plans {
		for _, c := range byPath(one.Shown()) {
			planned(m, one.Ensemble, c)
		}
		if len(one.Access) > 0 || one.NotesAccess() { // one message about the tool's own nodes
			addr := plan.EnsembleAddr(one.Ensemble)
			m.Send("info", "planned_change", string(addr)+": Plan to update",
				view.Fields{"change": &change{Action: "update", Resource: newPlanned(one.Ensemble, addr), Access: document.AccessOf(one)}})
		}
		for _, o := range one.Outputs {
			out := document.OfOutput(cmp.Or(o.After, o.Before))
			out.Value, out.Action = nil, strings.ReplaceAll(o.Action.String(), "-", "") // "no-op" is one word in the stream
			outputs[o.Name] = out
		}
	}
	changeSummary(m, SummaryLine(sumCounts(p.Plans)), sumCounts(p.Plans), "plan")
	sendOutputs(m, outputs)
	for _, line := range notRead(p.Plans) {
		m.Log(line)
	}
	m.SendDiagnostics(Problems(p), p.Files)
	if p.SavedTo != "" {
		m.Log("Saved the plan to: " + p.SavedTo)
	}
}

// WriteJSON writes plans and checks as one document.
func (p Saved) WriteJSON(m *view.Machine) { m.Document(document.Of(m.Version, p.Checks, p.Plans...)) }

func planned(m *view.Machine, ensemble string, c *plan.Change) {
	one := change{Action: c.Action.String(), Resource: newPlanned(ensemble, c.Addr), Reason: string(c.Reason), Origin: document.OriginOf(c)}
	if hasMoved(c) {
		one.Previous = map[string]plan.Addr{"addr": c.PreviousAddr}
	}
	switch {
	case c.Action == plan.NoOp && one.Previous == nil:
		return
	case c.Action == plan.NoOp:
		one.Action = "move"
	}
	one.Live = live(c.Usage)
	m.Send("info", "planned_change", string(c.Addr)+": Plan to "+one.Action, view.Fields{"change": one})
}

func changeSummary(m *view.Machine, text string, c plan.Counts, operation string) {
	m.Send("info", "change_summary", text, view.Fields{"changes": view.Fields{
		"add": c.Add, "change": c.Change, "forget": c.Forget, "import": c.Import, "operation": operation, "remove": c.Destroy}})
}

func sendOutputs(m *view.Machine, out map[string]document.Output) {
	if len(out) > 0 {
		m.Send("info", "outputs", fmt.Sprintf("Outputs: %d", len(out)), view.Fields{"outputs": out})
	}
}

// change is a planned change, or one change by hand.
type change struct {
	Access     []document.AccessChange `json:"access,omitzero"`
	Action     string                  `json:"action"`
	Attributes []plan.Attribute        `json:"attributes,omitzero"`
	document.Origin
	Live     *document.Usage      `json:"live,omitempty"`
	Previous map[string]plan.Addr `json:"previous_resource,omitempty"`
	Reason   string               `json:"reason,omitempty"`
	Resource plannedResource      `json:"resource"`
}

// resource names what a message is about, with Terraform's keys.
type resource struct {
	Addr     plan.Addr `json:"addr"`
	Ensemble string    `json:"ensemble"`
	Provider string    `json:"implied_provider"`
	Module   plan.Addr `json:"module"`
	Resource plan.Addr `json:"resource"`
}

// plannedResource adds keys.
type plannedResource struct {
	resource
	Key  *string `json:"resource_key"`
	Name string  `json:"resource_name"`
	Type string  `json:"resource_type"`
}

func newResource(ensemble string, addr plan.Addr) resource {
	local := strings.TrimPrefix(strings.TrimPrefix(string(addr), string(addr.Module())), ".")
	return resource{addr, ensemble, "locktree", addr.Module(), plan.Addr(local)}
}

func newPlanned(ensemble string, addr plan.Addr) plannedResource {
	r := plannedResource{newResource(ensemble, addr), nil, addr.Name(), addr.Type()}
	if key, ok := addr.Key(); ok {
		r.Key = &key
	}
	return r
}

// live is nil if the lock is idle.
func live(u *kind.Usage) *document.Usage {
	if !u.Busy() {
		return nil
	}
	usage := document.NewUsage(u)
	return &usage
}

// Problems turns the problems of plans into diagnostics, with the line that declares the node if there is one.
func Problems(p Plan) hcl.Diagnostics {
	var out hcl.Diagnostics
	for _, one := range p.Plans {
		for i := range one.Problems {
			out = append(out, diagnostic(&one.Problems[i], p.Files))
		}
	}
	return out
}

// foldProblems returns the problems for people: a problem of many nodes is shown once, with the first three nodes.
func foldProblems(p Plan) hcl.Diagnostics {
	var out hcl.Diagnostics
	for _, one := range p.Plans {
		for _, same := range plan.Fold(one.Problems) {
			d := diagnostic(&same[0], p.Files)
			var others []string
			for _, p := range same[1:] {
				others = append(others, cmp.Or(string(p.Addr), p.Path))
			}
			if len(others) > 0 {
				d.Detail += fmt.Sprintf("\n\nThe same goes for %d more: %s.", len(others), view.FirstFew(others))
			}
			out = append(out, d)
		}
	}
	return out
}

func diagnostic(p *plan.Problem, files map[string]*hcl.File) *hcl.Diagnostic {
	d := &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: p.Summary, Detail: p.Detail, Extra: view.Address(p.Addr)}
	if p.Severity == problem.Error {
		d.Severity = hcl.DiagError
	}
	d.Subject = declaration(p.Origin, files)
	return d
}

// declaration finds the line that "locks.locktree.hcl:12" means. The trees carry the place as text, so that the planner needs no
// HCL.
func declaration(origin string, files map[string]*hcl.File) *hcl.Range {
	i := strings.LastIndexByte(origin, ':')
	if i < 0 {
		return nil
	}
	number, err := strconv.Atoi(origin[i+1:])
	if err != nil || number < 1 {
		return nil
	}
	name, file := origin[:i], files[origin[:i]]
	for _, known := range slices.Sorted(maps.Keys(files)) {
		if file == nil && filepath.Base(known) == name {
			name, file = known, files[known]
		}
	}
	if file == nil {
		return nil
	}
	start := 0
	for range number - 1 {
		next := bytes.IndexByte(file.Bytes[start:], '\n')
		if next < 0 {
			return nil
		}
		start += next + 1
	}
	line, _, _ := bytes.Cut(file.Bytes[start:], []byte("\n"))
	place := func(at int) hcl.Pos { return hcl.Pos{Line: number, Column: 1 + at, Byte: start + at} }
	return &hcl.Range{Filename: name, Start: place(len(line) - len(bytes.TrimLeft(line, " \t"))), End: place(len(bytes.TrimRight(line, " \t\r{")))}
}

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
		if slices.ContainsFunc(p.Plans, isVisible) {
			t.preamble(p)
		}
		grouped, together := false, h.Out.Terminal && !p.Full && Many(p.Plans)
		for _, one := range p.Plans {
			grouped = t.changes(one, len(p.Plans) > 1, p.Concise, together) || grouped
		}
		if grouped {
			t.Printf("\n%s\n", t.Paint(view.Dim)("Locks of one block that are only created are one entry. -full shows each."))
		}
		if slices.ContainsFunc(p.Plans, func(one *plan.Plan) bool { return len(one.Outputs) > 0 }) {
			outputChanges(t.Stream, p.Plans)
		}
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
	if problems := foldProblems(p); len(problems) > 0 {
		h.Diagnostics(problems, p.Files)
	}
	switch {
	case p.Failing():
	case p.SavedTo != "":
		t.Printf("\n%s\n\nSaved the plan to: %s\n\nTo perform exactly these actions, run the following command to apply:\n    locktree apply %s\n", rule, p.SavedTo, view.Quote(p.SavedTo))
	case !p.NoAdvice && Changed(p.Plans):
		t.Printf("\n%s\n\nNote: You didn't use the -out option to save this plan, so locktree can't guarantee to take exactly these actions if you run \"locktree apply\" now.\n", rule)
	}
}

// isVisible reports whether a plan has anything to show besides its outputs.
func isVisible(p *plan.Plan) bool {
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

// preamble explains the symbols, but only those that occur.
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

// changes prints the blocks of one ensemble in the order of their paths, as the tree does. If the parameter together is set,
// changes that are alike are one entry; the result grouped reports whether there are any.
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
		if together && isPlain(c) {
			groups[likenessOf(c)] = append(groups[likenessOf(c)], c)
		}
	}
	for _, c := range all {
		switch group := groups[likenessOf(c)]; {
		case len(group) > fewAlike && isPlain(c):
			if grouped = true; c == group[0] {
				t.group(group)
			}
		case c.Action == plan.NoOp && !hasMoved(c):
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

// symbol colours the symbol at the beginning of a line, if there is one.
func (t planText) symbol(line string) string {
	symbol, rest, _ := strings.Cut(line, " ")
	if code := symbolColours[symbol]; code != "" {
		return t.Paint(code)(symbol) + " " + rest
	}
	return line
}

// block writes attributes that begin at the column. Without symbols, they are the present state.
func (t planText) block(column int, shown []attribute, hidden int) {
	width := 0
	for _, a := range shown {
		width = max(width, len(a.name))
	}
	for _, a := range shown {
		if a.list != nil {
			t.Printf("%s%s\n", pad(column), t.symbol(fmt.Sprintf("%s %-*s = [", a.symbol, width, a.name)))
			for _, line := range a.list {
				t.Printf("%s%s\n", pad(column+4), t.symbol(view.Clean(line)))
			}
			t.Printf("%s]\n", pad(column+1+len(a.symbol)))
			continue
		}
		comment := ""
		if a.comment != "" {
			comment = " " + t.Paint(view.Red)("# "+a.comment)
		}
		t.Printf("%s%s\n", pad(column), t.symbol(fmt.Sprintf("%s %-*s = %s%s", a.symbol, width, a.name, view.Clean(a.text), comment)))
	}
	if hidden > 0 {
		t.Printf("        # (%d unchanged %s hidden)\n", hidden, view.PluralWord(hidden, "attribute", "attributes"))
	}
}

func pad(n int) string { return strings.Repeat(" ", n) }

// sumCounts adds up what several ensembles' plans do.
func sumCounts(plans []*plan.Plan) plan.Counts {
	var sum plan.Counts
	for _, p := range plans {
		sum = sum.Plus(p.Summary())
	}
	return sum
}

// SummaryLine is the line that scripts search for. It counts imports as Terraform does and forgotten locks as OpenTofu does, if
// there are any.
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
	if !slices.ContainsFunc(p.Plans, isVisible) {
		if p.Failing() {
			return // the problems say why it cannot be applied
		}
		what := "You can apply this plan to save these new output values, without changing any locks."
		switch {
		case slices.ContainsFunc(p.Plans, func(one *plan.Plan) bool { return one.Before.Lost }):
			what = "You can apply this plan to write the record of the stack again, without changing any locks."
		case slices.ContainsFunc(p.Plans, (*plan.Plan).Seals):
			what = "Some nodes have no checksum of what the last apply left. You can apply this plan to add it, without changing any locks."
		case p.operation() == "destroy":
			what = "No locks are left. You can apply this plan to remove what locktree recorded about the stack."
		}
		t.Printf("\n%s\n", what)
		return
	}
	line := SummaryLine(sumCounts(p.Plans))
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

// notRead says how many nodes of other programs were counted but not read.
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

// access shows the tool's own nodes as one block: the ensemble block, which declares who may use them.
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

// accessLists shows equal changes of different nodes once, in the order of the first nodes.
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
	t.Printf("\n  %s\n", t.boldText(fmt.Sprintf("# %s %s, %d times", view.Clean(first.Addr.Block()), verb(first), len(all))))
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
	manyChanges = 200 // a plan has many changes if it has more than this
	fewAlike    = 3   // up to this many alike changes are shown in full; if there are more, only this many are named
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

// likeness has what the changes of one entry have in common.
type likeness struct {
	block  plan.Addr
	action plan.Action
	drift  bool
}

// isPlain reports whether a change is a creation and no more.
func isPlain(c *plan.Change) bool {
	return c.Action == plan.Create && c.PreviousAddr == "" && c.Importing == "" && !c.Revive &&
		!c.Usage.Busy() && c.Relists() == ""
}

func likenessOf(c *plan.Change) likeness { return likeness{c.Addr.Block(), c.Action, c.Drift} }
