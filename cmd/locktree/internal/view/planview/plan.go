// Package planview renders plans and applies: a [Plan] before an apply, each [Event] during it, [Applied] after it. It also
// renders the locks in ZooKeeper ([Live]), output values ([Outputs]) and the [History] of applies.
//
// The text follows Terraform's layout and the JSON Terraform's formats, so that tools for those read ours. It relies on package
// plan for everything that it says, and computes no change. It shows the user name of a digest, never its hash.
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
	changeSummary(m, SummaryLine(total(p.Plans)), total(p.Plans), "plan")
	sendOutputs(m, outputs)
	for _, line := range notRead(p.Plans) {
		m.Log(line)
	}
	m.SendDiagnostics(Problems(p), p.Files)
	if p.SavedTo != "" {
		m.Log("Saved the plan to: " + p.SavedTo)
	}
}

// Saved writes plans and checks as one document.
func (p Saved) WriteJSON(m *view.Machine) { m.Document(document.Of(m.Version, p.Checks, p.Plans...)) }

func planned(m *view.Machine, ensemble string, c *plan.Change) {
	one := change{Action: c.Action.String(), Resource: newPlanned(ensemble, c.Addr), Reason: string(c.Reason), Origin: document.OriginOf(c)}
	if moved(c) {
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

// change is a planned change, or a drift.
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

// plannedResource has more of them.
type plannedResource struct {
	resource
	Key  *string `json:"resource_key"`
	Name string  `json:"resource_name"`
	Type string  `json:"resource_type"`
}

func newResource(ensemble string, addr plan.Addr) resource {
	return resource{addr, ensemble, "locktree", addr.Module(), addr.Local()}
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

// folded is problems for people: one of many nodes is shown once, with the first three of them.
func folded(p Plan) hcl.Diagnostics {
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

// declaration finds the line that "locks.locktree.hcl:12" means. The trees carry the place as text, so that the planner needs no HCL.
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
