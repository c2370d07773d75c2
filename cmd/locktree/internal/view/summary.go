package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/plan"
)

// GitHub refuses a comment of more than 65,536 characters. What a summary leaves out, it says.
const (
	maxSummary  = 60 << 10
	maxProblems = maxSummary / 2 // of it, what problems may take
	maxDetail   = 4 << 10        // what is shown of the text of one
	lastWords   = 1 << 10        // what is kept free for what is said of the rest
)

// Markdown is the output of -summary=markdown and of show -markdown: one document on standard output at the end, for the comment of a
// pull request or the summary of a job. Diagnostics and messages are also written for people.
type Markdown struct {
	notices
	out Stream

	plan    *Plan
	applied *Applied
	diags   hcl.Diagnostics
	tree    bool // the document was a tree: what goes wrong besides is no part of it
}

// NewMarkdown returns the output for a review.
func NewMarkdown(out, err Stream) *Markdown {
	serialize(&out, &err)
	return &Markdown{notices: notices{err}, out: out}
}

// Diagnostics implements [Output].
func (m *Markdown) Diagnostics(diags hcl.Diagnostics, files map[string]*hcl.File) {
	m.notices.Diagnostics(diags, files)
	m.diags = append(m.diags, diags...)
}

// Show implements [Output]. What happens during an apply is no part of the document.
func (m *Markdown) Show(r Result) {
	switch r := r.(type) {
	case Plan:
		m.plan = &r
		m.notices.Diagnostics(folded(r), r.Files)
	case Saved:
		m.plan = &r.Plan
	case Applied:
		m.applied = &r
	case Live:
		m.tree = true
		m.out.printf("%s", r.markdown())
	}
}

// Close writes the summary.
func (m *Markdown) Close() {
	if !m.tree && (m.plan != nil || m.applied != nil || len(m.diags) > 0) {
		m.out.printf("%s", m.summary())
	}
}

// summary is the document, at most maxSummary bytes long.
func (m *Markdown) summary() string {
	p := Plan{}
	if m.plan != nil {
		p = *m.plan
	}
	all := append(fold(m.diags), folded(p)...)
	slices.SortStableFunc(all, func(a, b *hcl.Diagnostic) int { return cmp.Compare(a.Severity, b.Severity) })
	d := &summaryDoc{left: maxSummary - lastWords}
	d.add(m.headline(p, all))
	d.problems(all)
	d.table(p)
	text := &strings.Builder{}
	t := planText{Stream{Writer: text}, p.NowMs}
	if t.drift(p.Plans) {
		d.details("Changed outside of locktree since the last apply", []string{text.String()})
	}
	text.Reset()
	t.outputs(p.Plans)
	if m.applied != nil && len(m.applied.Outputs) > 0 {
		text.Reset()
		m.applied.Outputs.text(&Human{out: t.Stream})
	}
	if text.Len() > 0 {
		d.details("Outputs", []string{text.String()})
	}
	d.details("All changes in full", blocks(p))
	return d.String() + d.rest
}

// headline is the line that a reader of many comments reads, and what of it is not in the table.
func (m *Markdown) headline(p Plan, all hcl.Diagnostics) string {
	errs := len(all.Errs())
	var found []string
	if errs > 0 {
		found = append(found, Plural(errs, "error"))
	}
	if n := len(all) - errs; n > 0 {
		found = append(found, Plural(n, "warning"))
	}
	counts, line := strings.Join(found, ", "), ""
	switch {
	case m.applied != nil:
		line = m.applied.line()
	case m.plan == nil, p.Failing() && !Changed(p.Plans): // the problems say why
	case !Changed(p.Plans):
		line = "No changes."
	case !slices.ContainsFunc(p.Plans, visible):
		line = "Plan: no lock changes, only outputs or what locktree records."
	default:
		line = SummaryLine(total(p.Plans))
	}
	title := line
	if errs > 0 {
		title = "Failed: " + counts
		counts = line
	} else if counts != "" {
		counts = upperFirst(counts) + "."
	}
	text := "## " + cmp.Or(title, "No plan") + "\n\n"
	for _, one := range p.Plans {
		where := fmt.Sprintf("Stack %s on ensemble %s, below %s.", code(one.Stack), code(one.Ensemble), code(one.Root))
		text += strings.TrimSpace(where+" "+counts) + "\n\n"
		counts = ""
	}
	if counts != "" {
		text += counts + "\n\n"
	}
	if m.plan != nil && m.applied == nil && p.Failing() {
		text += "**This plan cannot be applied.**\n\n"
	}
	return text
}

// summaryDoc is a document that has an end.
type summaryDoc struct {
	strings.Builder
	left int    // bytes
	rest string // what is said of what had no place
}

// add reports whether there was place.
func (d *summaryDoc) add(text string) bool {
	if len(text) > d.left {
		return false
	}
	d.left -= len(text)
	d.WriteString(text)
	return true
}

func (d *summaryDoc) omitted(n int, what string) {
	if n > 0 {
		d.rest += fmt.Sprintf("%s had no place here; \"locktree plan\" shows everything.\n\n", Plural(n, what))
	}
}

// problems come first: errors are open, warnings have to be clicked at.
func (d *summaryDoc) problems(all hcl.Diagnostics) {
	floor := d.left - maxProblems
	for i, one := range all {
		open, title := " open", "<b>Error:</b> "
		if one.Severity == hcl.DiagWarning {
			open, title = "", "<b>Warning:</b> "
		}
		title += prose(shortened(one.Summary, maxStatement))
		if where := places(one); where != "" {
			title += " (" + where + ")"
		}
		text := collapsed(title, cut(clipText(one.Detail), maxDetail))
		if len(text) > d.left-floor || !d.add(strings.Replace(text, "<details>", "<details"+open+">", 1)) {
			d.omitted(len(all)-i, "more problem")
			return
		}
	}
}

// places are the address and the line of a problem.
func places(d *hcl.Diagnostic) string {
	var out []string
	if address, ok := d.Extra.(Address); ok && address != "" {
		out = append(out, tag(string(address)))
	}
	if d.Subject != nil && d.Subject.Start.Line > 0 {
		out = append(out, tag(fmt.Sprintf("%s:%d", d.Subject.Filename, d.Subject.Start.Line)))
	}
	return strings.Join(out, ", ")
}

// cut is the beginning of a text.
func cut(text string, room int) string {
	if len(text) <= room {
		return text
	}
	return strings.ToValidUTF8(text[:room], "") + "…"
}

// row is what the plan does to one block, or alike to several of its instances.
type row struct {
	ensemble               string
	block                  plan.Addr
	action, because, where string
}

type instances struct {
	row
	names []string
}

func (d *summaryDoc) table(p Plan) {
	rows := rowsOf(p)
	if len(rows) == 0 {
		return
	}
	ensemble := func(string) string { return "" }
	head := "| action | block | why | declared |\n|---|---|---|---|\n"
	if len(p.Plans) > 1 {
		head = "| ensemble " + strings.Replace(head, "\n", "\n|---", 1)
		ensemble = func(name string) string { return " " + code(name) + " |" }
	}
	d.add(head)
	for i, r := range rows {
		what := code(r.names[0])
		if n := len(r.names); n > 1 {
			what = fmt.Sprintf("%s: %d instances, %s", code(string(r.block)), n, code(strings.ReplaceAll(FirstFew(r.names), string(r.block)+"[", "[")))
		}
		if !d.add(fmt.Sprintf("|%s %s | %s | %s | %s |\n", ensemble(r.ensemble), r.action, what, prose(r.because), r.where)) {
			d.omitted(len(rows)-i, "more change")
			break
		}
	}
	d.add("\n")
}

func rowsOf(p Plan) (rows []*instances) {
	alike := map[row]*instances{}
	for _, one := range p.Plans {
		if one.Resumes != "" {
			rows = append(rows, ofEnsemble(one, "resumes apply "+one.Resumes))
		}
		for _, c := range byPath(one.Changes) {
			if c.Action == plan.NoOp && !moved(c) {
				continue
			}
			r := row{ensemble: one.Ensemble, block: c.Addr.Block(), action: "`" + c.Action.Symbol() + "` " + c.Action.String(), because: gistText(c)}
			if c.Action == plan.NoOp {
				r.action = "move"
			}
			if c.After != nil && c.After.Origin != "" {
				r.where = code(c.After.Origin)
			}
			known := alike[r]
			if known == nil {
				known = &instances{row: r}
				alike[r], rows = known, append(rows, known)
			}
			known.names = append(known.names, string(c.Addr))
		}
		if len(one.Access) > 0 || one.NotesAccess() {
			rows = append(rows, ofEnsemble(one, Plural(len(one.Access), "access list")+" of locktree's own nodes"))
		}
	}
	return rows
}

// ofEnsemble is what a plan does to the tool's own nodes.
func ofEnsemble(p *plan.Plan, because string) *instances {
	return &instances{row{ensemble: p.Ensemble, action: "`~` update", because: because}, []string{string(plan.EnsembleAddr(p.Ensemble))}}
}

// blocks are the changes as "locktree plan" prints them.
func blocks(p Plan) (all []string) {
	for _, one := range p.Plans {
		text := &strings.Builder{}
		t := planText{Stream{Writer: text}, p.NowMs}
		if len(p.Plans) > 1 && visible(one) {
			t.printf("\nEnsemble %s, below %s:\n", quote(one.Ensemble), one.Root)
		}
		for _, c := range byPath(one.Changes) {
			if c.Action != plan.NoOp || moved(c) {
				t.change(c)
				all = append(all, text.String())
				text.Reset()
			}
		}
		t.access(one, false)
		if text.Len() > 0 {
			all = append(all, text.String())
		}
	}
	return all
}

// details are texts that a click shows, as many of them as have place.
func (d *summaryDoc) details(title string, parts []string) {
	text := ""
	for i, part := range parts {
		if len(collapsed(title, text+part)) > d.left {
			d.omitted(len(parts)-i, "more block")
			break
		}
		text += part
	}
	if text != "" {
		d.add(collapsed(title, text))
	}
}
