package view

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/recipes/kind"
)

// uiVersion is the version of the message stream. A new message or field raises
// the minor number, an incompatible change the major one.
const uiVersion = "1.6"

// machine is -json: one document, or plan, apply and destroy -json, one object a line, in the types and field names of Terraform's
// machine-readable UI.
type machine struct {
	out     io.Writer
	version string
	now     func() time.Time

	mu    sync.Mutex // an interrupt writes at any time
	begun bool
}

// documents is the -json of commands with one document. What is no part of it is written for people.
type documents struct {
	machine
	notices
}

// stream is the -json of commands that tell what they do.
type stream struct{ machine }

// NewDocuments returns the output of commands whose -json is one document on out;
// diagnostics that are no part of it go to err.
func NewDocuments(out io.Writer, err Stream, version string) Output {
	serialize(&err)
	return &documents{machine{out: out, version: version, now: time.Now}, notices{err}}
}

// NewStream returns the output of commands whose -json is a stream of messages.
// now is the clock of "@timestamp".
func NewStream(out io.Writer, version string, now func() time.Time) Output {
	return &stream{machine{out: out, version: version, now: now}}
}

// Show implements [Output].
func (m *machine) Show(r Result) { r.json(m) }

// Message implements [Output].
func (s *stream) Message(text string) { s.message(text) }

// Diagnostics implements [Output].
func (s *stream) Diagnostics(diags hcl.Diagnostics, files map[string]*hcl.File) {
	s.diagnostics(diags, files)
}

func (m *machine) document(v any) { writeJSON(m.out, "  ", v) }

// message is one line of the stream. What it has besides its text depends on its type.
type message struct {
	Level     string `json:"@level"`
	Text      string `json:"@message"`
	Module    string `json:"@module"`
	Timestamp string `json:"@timestamp"`

	Change      *change                    `json:"change,omitempty"`
	Changes     *changes                   `json:"changes,omitempty"`
	Diagnostic  *diagnosticJSON            `json:"diagnostic,omitempty"`
	Ensemble    string                     `json:"ensemble,omitempty"`
	Entry       *history.Entry             `json:"entry,omitempty"`
	Hook        *hook                      `json:"hook,omitempty"`
	Job         *jobJSON                   `json:"job,omitempty"`
	Lock        *failure.LockInfo          `json:"lock,omitempty"`
	Locktree    string                     `json:"locktree,omitempty"`
	Outputs     map[string]document.Output `json:"outputs,omitempty"`
	Progress    *progressJSON              `json:"progress,omitempty"`
	Transaction *transaction               `json:"transaction,omitempty"`

	Type string `json:"type"`
	UI   string `json:"ui,omitempty"`
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

type transaction struct {
	Batch    int    `json:"batch"`
	Batches  int    `json:"batches"`
	Bytes    int    `json:"bytes"`
	ID       string `json:"id"`
	Ops      int    `json:"ops"`
	Resolved bool   `json:"resolved"`
}

// hook is what an apply does with a node.
type hook struct {
	Action   string          `json:"action,omitempty"`
	Elapsed  *int            `json:"elapsed_seconds,omitempty"`
	IDKey    string          `json:"id_key"`
	IDValue  string          `json:"id_value"`
	Live     *document.Usage `json:"live,omitempty"`
	Resource resource        `json:"resource"`
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

// send writes one message, after the version. Equal messages are equal lines.
func (s *machine) send(level, kind, text string, m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		s.begun = true
		s.write("info", "version", "locktree "+s.version, message{Locktree: s.version, UI: uiVersion})
	}
	s.write(level, kind, text, m)
}

func (s *machine) write(level, kind, text string, m message) {
	m.Level, m.Text, m.Module, m.Type = level, text, "locktree.ui", kind
	m.Timestamp = s.now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	writeJSON(s.out, "", m)
}

func (s *machine) message(text string) { s.send("info", "log", text, message{}) }

func (s *machine) diagnostics(diags hcl.Diagnostics, files map[string]*hcl.File) {
	s.diagnosticsOf(message{}, diags, files)
}

// diagnosticsOf sends them with what else is in m.
func (s *machine) diagnosticsOf(m message, diags hcl.Diagnostics, files map[string]*hcl.File) {
	for i, j := range diagnosticsJSON(diags, files) {
		level := j.Severity
		if diags[i].Severity == hcl.DiagWarning {
			level = "warn"
		}
		m.Diagnostic = &j
		s.send(level, "diagnostic", upperFirst(j.Severity)+": "+j.Summary, m)
	}
}

func (p Plan) json(s *machine) {
	for _, one := range p.Plans {
		for _, d := range one.Drifted {
			s.send("info", "resource_drift", fmt.Sprintf("%s: Drift detected (%s)", d.Addr, d.Action()),
				message{Change: &change{Action: d.Action().String(), Resource: newPlanned(one.Ensemble, d.Addr), Attributes: d.Attributes}})
		}
	}
	for _, one := range p.Plans {
		for _, c := range byPath(one.Shown()) {
			s.planned(one.Ensemble, c)
		}
		s.plannedAccess(one)
	}
	s.changeSummary(SummaryLine(total(p.Plans)), total(p.Plans), "plan")
	s.plannedOutputs(p.Plans)
	for _, line := range notRead(p.Plans) {
		s.message(line)
	}
	s.diagnostics(Problems(p), p.Files)
	if p.SavedTo != "" {
		s.message("Saved the plan to: " + p.SavedTo)
	}
}

func (s *machine) planned(ensemble string, c *plan.Change) {
	one := change{Action: c.Action.String(), Resource: newPlanned(ensemble, c.Addr), Reason: string(c.Reason), Origin: c.Origin()}
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
	s.send("info", "planned_change", string(c.Addr)+": Plan to "+one.Action, message{Change: &one})
}

// plannedAccess is the one message about the tool's own nodes of an ensemble.
func (s *machine) plannedAccess(p *plan.Plan) {
	if len(p.Access) > 0 || p.NotesAccess() {
		addr := plan.EnsembleAddr(p.Ensemble)
		s.send("info", "planned_change", string(addr)+": Plan to update",
			message{Change: &change{Action: "update", Resource: newPlanned(p.Ensemble, addr), Access: p.AccessDocument()}})
	}
}

func (s *machine) changeSummary(text string, c plan.Counts, operation string) {
	s.send("info", "change_summary", text, message{Changes: &changes{c.Add, c.Change, c.Forget, c.Import, operation, c.Destroy}})
}

func (s *machine) plannedOutputs(plans []*plan.Plan) {
	out := map[string]document.Output{}
	for _, p := range plans {
		for _, o := range p.Outputs {
			one := cmp.Or(o.After, o.Before).Document()
			one.Value, one.Action = nil, strings.ReplaceAll(o.Action.String(), "-", "") // "no-op" is one word in the stream
			out[o.Name] = one
		}
	}
	s.outputs(out)
}

func (e Event) json(s *machine) {
	of := func(addr plan.Addr, path string, action string) *hook {
		return &hook{Resource: newResource(e.Ensemble, addr), Action: action, IDKey: "path", IDValue: path}
	}
	switch ev := e.Event.(type) {
	case event.LockWaiting:
		s.send("info", "lock_waiting", "Acquiring the apply lock. This may take a few moments...", message{Lock: ev.Info, Ensemble: e.Ensemble})
	case event.Scaffolded:
		s.message("Created " + strings.Join(ev.Paths, ", "))
	case event.Draining:
		h := of(ev.Addr, ev.Path, "")
		h.Live = live(ev.Usage)
		s.send("info", "drain_start", string(ev.Addr)+": Draining", message{Hook: h})
	case event.Left:
		s.message(leftText(ev))
	case event.Breaking:
		h := of(ev.Addr, ev.Path, "")
		h.Live = live(ev.Usage)
		s.send("warn", "force_break", string(ev.Addr)+": Breaking", message{Hook: h})
	case event.Started:
		s.send("info", "apply_start", fmt.Sprintf("%s: %s", ev.Addr, progress[ev.Action][0]), message{Hook: of(ev.Addr, ev.Path, ev.Action.String())})
	case event.Applied:
		h := of(ev.Addr, ev.Path, ev.Action.String())
		h.Elapsed = seconds(ev.Elapsed)
		s.send("info", "apply_complete", fmt.Sprintf("%s: %s after %s", ev.Addr, progress[ev.Action][1], elapsed(ev.Elapsed)), message{Hook: h})
	case event.Failed:
		s.send("error", "apply_errored", fmt.Sprintf("%s: not applied", ev.Addr), message{Hook: of(ev.Addr, ev.Path, ev.Action.String())})
	case event.Committed:
		s.send("info", "transaction", fmt.Sprintf("Committed %d operations in one transaction", ev.Ops),
			message{Transaction: &transaction{ev.Batch, ev.Batches, ev.Bytes, ev.ApplyID, ev.Ops, ev.Resolved}, Ensemble: e.Ensemble})
	case event.Recorded:
		if ev.Entry == nil {
			s.send("warn", "log", notRecorded+ev.Path+" is not there, or we may not write it.", message{})
			return
		}
		s.send("info", "recorded", "Recorded in the history", message{Entry: ev.Entry, Ensemble: e.Ensemble})
	case event.ACLApplied:
		s.send("info", "acl_applied", string(ev.Addr)+": Access list set", message{Hook: of(ev.Addr, ev.Path, "")})
	}
}

// seconds are whole ones.
func seconds(d time.Duration) *int {
	n := int(d.Seconds())
	return &n
}

func (still Still) json(s *machine) {
	for _, o := range still.Open {
		kind, action := "apply_progress", o.Action.String()
		if o.Drains {
			kind, action = "drain_progress", ""
		}
		s.send("info", kind, stillText(o, still.Now), message{Hook: &hook{Resource: newResource(still.Ensemble, o.Addr), Action: action,
			IDKey: "path", IDValue: o.Path, Elapsed: seconds(still.Now.Sub(o.Since))}})
	}
}

func (a Applied) json(s *machine) {
	s.changeSummary(a.line(), a.Counts, a.Operation)
	s.outputs(outputsJSON(a.Outputs))
}

func (s *machine) outputs(out map[string]document.Output) {
	if len(out) > 0 {
		s.send("info", "outputs", fmt.Sprintf("Outputs: %d", len(out)), message{Outputs: out})
	}
}
