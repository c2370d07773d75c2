package planview

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/locktree/locktree/cmd/locktree/internal/view"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/recipes/kind"
)

func (p Plan) WriteJSON(m *view.Machine) {
	for _, one := range p.Plans {
		for _, d := range one.Drifted {
			m.Send("info", "resource_drift", fmt.Sprintf("%s: Drift detected (%s)", d.Addr, d.Action()),
				view.Fields{"change": &change{Action: d.Action().String(), Resource: newPlanned(one.Ensemble, d.Addr), Attributes: d.Attributes}})
		}
	}
	for _, one := range p.Plans {
		for _, c := range byPath(one.Shown()) {
			planned(m, one.Ensemble, c)
		}
		plannedAccess(m, one)
	}
	changeSummary(m, SummaryLine(total(p.Plans)), total(p.Plans), "plan")
	plannedOutputs(m, p.Plans)
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
		one.Previous = &previous{c.PreviousAddr}
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

// plannedAccess is the one message about the tool's own nodes of an ensemble.
func plannedAccess(m *view.Machine, p *plan.Plan) {
	if len(p.Access) > 0 || p.NotesAccess() {
		addr := plan.EnsembleAddr(p.Ensemble)
		m.Send("info", "planned_change", string(addr)+": Plan to update",
			view.Fields{"change": &change{Action: "update", Resource: newPlanned(p.Ensemble, addr), Access: document.AccessOf(p)}})
	}
}

func changeSummary(m *view.Machine, text string, c plan.Counts, operation string) {
	m.Send("info", "change_summary", text, view.Fields{"changes": changes{c.Add, c.Change, c.Forget, c.Import, operation, c.Destroy}})
}

func plannedOutputs(m *view.Machine, plans []*plan.Plan) {
	out := map[string]document.Output{}
	for _, p := range plans {
		for _, o := range p.Outputs {
			one := document.OfOutput(cmp.Or(o.After, o.Before))
			one.Value, one.Action = nil, strings.ReplaceAll(o.Action.String(), "-", "") // "no-op" is one word in the stream
			out[o.Name] = one
		}
	}
	sendOutputs(m, out)
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
	Live     *document.Usage `json:"live,omitempty"`
	Previous *previous       `json:"previous_resource,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Resource plannedResource `json:"resource"`
}

type previous struct {
	Addr plan.Addr `json:"addr"`
}

// changes are the figures of the summary line.
type changes struct {
	Add       int    `json:"add"`
	Change    int    `json:"change"`
	Forget    int    `json:"forget"`
	Import    int    `json:"import"`
	Operation string `json:"operation"`
	Remove    int    `json:"remove"`
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
