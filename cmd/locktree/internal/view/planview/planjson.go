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
