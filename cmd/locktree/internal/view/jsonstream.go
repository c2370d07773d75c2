package view

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/plan"
)

// uiVersion is the version of the message stream. A new message or field raises
// the minor number, an incompatible change the major one.
const uiVersion = "1.3"

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

type fields map[string]any

// send writes one message, after the version. encoding/json sorts the keys, so "@level"
// comes first and equal messages are equal lines.
func (s *machine) send(level, kind, message string, more fields) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		s.begun = true
		s.write("info", "version", "locktree "+s.version, fields{"locktree": s.version, "ui": uiVersion})
	}
	s.write(level, kind, message, more)
}

func (s *machine) write(level, kind, message string, more fields) {
	m := fields{"@level": level, "@message": message, "@module": "locktree.ui", "@timestamp": s.now().UTC().Format("2006-01-02T15:04:05.000000Z07:00"), "type": kind}
	maps.Copy(m, more)
	writeJSON(s.out, "", m)
}

func (s *machine) message(text string) { s.send("info", "log", text, nil) }

func (s *machine) diagnostics(diags hcl.Diagnostics, files map[string]*hcl.File) {
	for i, j := range diagnosticsJSON(diags, files) {
		level := j.Severity
		if diags[i].Severity == hcl.DiagWarning {
			level = "warn"
		}
		s.send(level, "diagnostic", upperFirst(j.Severity)+": "+j.Summary, fields{"diagnostic": j})
	}
}

func (p Plan) json(s *machine) {
	for _, one := range p.Plans {
		for _, d := range one.Drifted {
			change := fields{"resource": resource(one.Ensemble, d.Addr), "action": driftAction(d)}
			if d.Attributes != nil {
				change["attributes"] = d.Attributes
			}
			s.send("info", "resource_drift", string(d.Addr)+": Drift detected ("+driftAction(d)+")", fields{"change": change})
		}
	}
	for _, one := range p.Plans {
		for _, c := range byPath(one.Changes) {
			s.planned(one.Ensemble, c)
		}
		s.plannedAccess(one)
	}
	s.changeSummary(SummaryLine(total(p.Plans)), total(p.Plans), "plan")
	s.plannedOutputs(p.Plans)
	s.diagnostics(problems(p), p.Files)
	if p.SavedTo != "" {
		s.message("Saved the plan to: " + p.SavedTo)
	}
}

func (s *machine) planned(ensemble string, c *plan.Change) {
	action := c.Action.String()
	switch {
	case c.Action == plan.NoOp && !moved(c):
		return
	case c.Action == plan.NoOp:
		action = "move"
	}
	change := fields{"resource": resource(ensemble, c.Addr), "action": action}
	if moved(c) {
		change["previous_resource"] = fields{"addr": c.PreviousAddr}
	}
	addOrigin(change, c)
	if c.Reason != plan.ReasonNone {
		change["reason"] = string(c.Reason)
	}
	at := c.Path
	if c.Before != nil { // where it is now
		at = c.Before.Path
	}
	if live := usageJSON(at, c.Usage); live != nil {
		change["live"] = live
	}
	s.send("info", "planned_change", string(c.Addr)+": Plan to "+action, fields{"change": change})
}

// resource names what a message is about, with Terraform's keys.
func resource(ensemble string, addr plan.Addr) fields {
	f := hookResource(ensemble, addr)
	f["resource_type"], f["resource_name"], f["resource_key"] = addr.Type(), addr.Name(), nil
	if key, ok := addr.Key(); ok {
		f["resource_key"] = key
	}
	return f
}

func (s *machine) changeSummary(text string, c plan.Counts, operation string) {
	s.send("info", "change_summary", text, fields{"changes": fields{"add": c.Add, "change": c.Change, "import": c.Import, "remove": c.Destroy, "forget": c.Forget, "operation": operation}})
}

func (s *machine) plannedOutputs(plans []*plan.Plan) {
	out := fields{}
	for _, p := range plans {
		for _, o := range p.Outputs {
			one := outputJSON(cmp.Or(o.After, o.Before))
			one["action"] = strings.ReplaceAll(o.Action.String(), "-", "") // "no-op" is one word in the stream
			delete(one, "value")
			out[o.Name] = one
		}
	}
	if len(out) > 0 {
		s.outputs(out)
	}
}

func (e Event) json(s *machine) {
	ensemble := e.Ensemble
	switch e := e.Event.(type) {
	case apply.LockWaiting:
		s.send("info", "lock_waiting", "Acquiring the apply lock. This may take a few moments...", fields{"lock": e.Info, "ensemble": ensemble})
	case apply.Draining:
		s.send("info", "drain_start", string(e.Addr)+": Draining",
			fields{"hook": fields{"resource": fields{"addr": e.Addr, "ensemble": ensemble}, "id_key": "path", "id_value": e.Path, "live": usageJSON(e.Path, e.Usage), "open": e.Open}})
	case apply.Breaking:
		s.send("warn", "force_break", string(e.Addr)+": Breaking",
			fields{"hook": fields{"resource": fields{"addr": e.Addr, "ensemble": ensemble}, "id_key": "path", "id_value": e.Path, "live": usageJSON(e.Path, e.Usage)}})
	case apply.Started:
		s.send("info", "apply_start", fmt.Sprintf("%s: %s", e.Addr, progress[e.Action][0]), fields{"hook": hook(ensemble, e.Addr, e.Path, e.Action)})
	case apply.Applied:
		h := hook(ensemble, e.Addr, e.Path, e.Action)
		h["elapsed_seconds"] = int(e.Elapsed.Seconds())
		s.send("info", "apply_complete", fmt.Sprintf("%s: %s after %s", e.Addr, progress[e.Action][1], elapsed(e.Elapsed)), fields{"hook": h})
	case apply.Failed:
		s.send("error", "apply_errored", fmt.Sprintf("%s: not applied", e.Addr), fields{"hook": hook(ensemble, e.Addr, e.Path, e.Action)})
	case apply.Committed:
		s.send("info", "transaction", fmt.Sprintf("Committed %d operations in one transaction", e.Ops),
			fields{"transaction": fields{"id": e.ApplyID, "ops": e.Ops, "bytes": e.Bytes, "resolved": e.Resolved, "batch": e.Batch, "batches": e.Batches}, "ensemble": ensemble})
	case apply.ACLApplied:
		s.send("info", "acl_applied", string(e.Addr)+": Access list set", fields{"hook": fields{"resource": fields{"addr": e.Addr}, "id_key": "path", "id_value": e.Path}})
	}
}

func (still Still) json(s *machine) {
	for _, o := range still.Open {
		kind, h := "apply_progress", hook(still.Ensemble, o.Addr, o.Path, o.Action)
		if o.Drains {
			kind = "drain_progress"
			delete(h, "action")
		}
		h["elapsed_seconds"] = int(still.Now.Sub(o.Since).Seconds())
		s.send("info", kind, stillText(o, still.Now), fields{"hook": h})
	}
}

// hookResource is as much of it as the messages of an apply have.
func hookResource(ensemble string, addr plan.Addr) fields {
	return fields{"addr": addr, "module": addr.Module(), "resource": addr.Local(), "implied_provider": "locktree", "ensemble": ensemble}
}

func hook(ensemble string, addr plan.Addr, path string, a plan.Action) fields {
	return fields{"resource": hookResource(ensemble, addr), "action": a.String(), "id_key": "path", "id_value": path}
}

func (a Applied) json(s *machine) {
	s.changeSummary(a.line(), a.Counts, a.Operation)
	if len(a.Outputs) > 0 {
		s.outputs(outputsJSON(a.Outputs))
	}
}

func (s *machine) outputs(out fields) {
	s.send("info", "outputs", fmt.Sprintf("Outputs: %d", len(out)), fields{"outputs": out})
}
