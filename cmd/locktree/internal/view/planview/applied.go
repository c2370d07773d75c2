package planview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/plan/explain"
)

// Event is what happens during an apply on an ensemble.
type Event struct {
	Ensemble string
	event.Event
}

func (e Event) WriteText(h *view.Human) {
	say := func(addr plan.Addr, text string) {
		h.Out.Printf("%s\n", h.Out.Paint(view.Bold)(fmt.Sprintf("%s: %s", view.Clean(addr), text)))
	}
	switch e := e.Event.(type) {
	case event.LockWaiting:
		h.Message(acquiring)
		if e.Info != nil {
			h.Message(e.Info.String())
		}
	case event.Scaffolded:
		h.Message("Created " + view.Clean(strings.Join(e.Paths, ", ")))
	case event.Draining:
		say(e.Addr, fmt.Sprintf("Draining: it grants nothing new (%s)", view.Clean(e.Usage.String())))
	case event.Left:
		h.Message(leftText(e))
	case event.Breaking:
		say(e.Addr, fmt.Sprintf("Breaking: its holders lose it (%s)", view.Clean(e.Usage.String())))
	case event.Started:
		say(e.Addr, progress[e.Action][0])
	case event.Applied:
		say(e.Addr, fmt.Sprintf("%s after %s [path=%s]", progress[e.Action][1], view.Elapsed(e.Elapsed), view.Clean(e.Path)))
	case event.Committed:
		if e.Batches > 1 {
			h.Message(fmt.Sprintf("Transaction %d of %d is committed (%d operations).", e.Batch, e.Batches, e.Ops))
		}
		if e.Resolved {
			h.Message("The connection was lost during the transaction. Reading back showed that it was committed.")
		}
	case event.Recorded:
		if e.Entry == nil {
			h.Message(view.Clean(unrecorded(e)))
		}
	case event.ACLPhase:
		h.Message(fmt.Sprintf("Setting %d access %s...", e.Total, view.PluralWord(e.Total, "list", "lists")))
	case event.ACLApplied:
		say(e.Addr, fmt.Sprintf("Access list set [path=%s]", view.Clean(e.Path)))
	}
}

func (e Event) WriteJSON(m *view.Machine) {
	about := func(level, kind string, addr plan.Addr, text string, h hook) {
		h.send(m, level, kind, e.Ensemble, addr, text)
	}
	switch ev := e.Event.(type) {
	case event.LockWaiting:
		fields := view.Fields{"ensemble": e.Ensemble}
		if ev.Info != nil {
			fields["lock"] = ev.Info
		}
		m.Send("info", "lock_waiting", acquiring, fields)
	case event.Scaffolded:
		m.Log("Created " + strings.Join(ev.Paths, ", "))
	case event.Draining:
		about("info", "drain_start", ev.Addr, "Draining", hook{IDValue: ev.Path, Live: live(ev.Usage)})
	case event.Left:
		m.Log(leftText(ev))
	case event.Breaking:
		about("warn", "force_break", ev.Addr, "Breaking", hook{IDValue: ev.Path, Live: live(ev.Usage)})
	case event.Started:
		about("info", "apply_start", ev.Addr, progress[ev.Action][0], hook{IDValue: ev.Path, Action: ev.Action.String()})
	case event.Applied:
		about("info", "apply_complete", ev.Addr, fmt.Sprintf("%s after %s", progress[ev.Action][1], view.Elapsed(ev.Elapsed)),
			hook{IDValue: ev.Path, Action: ev.Action.String(), Elapsed: seconds(ev.Elapsed)})
	case event.Failed:
		about("error", "apply_errored", ev.Addr, "not applied", hook{IDValue: ev.Path, Action: ev.Action.String()})
	case event.Committed:
		m.Send("info", "transaction", fmt.Sprintf("Committed %d operations in one transaction", ev.Ops), view.Fields{"ensemble": e.Ensemble, "transaction": view.Fields{
			"batch": ev.Batch, "batches": ev.Batches, "bytes": ev.Bytes, "id": ev.ApplyID, "ops": ev.Ops, "resolved": ev.Resolved}})
	case event.Recorded:
		if ev.Entry == nil {
			m.Send("warn", "log", unrecorded(ev), nil)
			return
		}
		m.Send("info", "recorded", "Recorded in the history", view.Fields{"entry": ev.Entry, "ensemble": e.Ensemble})
	case event.ACLApplied:
		about("info", "acl_applied", ev.Addr, "Access list set", hook{IDValue: ev.Path})
	}
}

const acquiring = "Acquiring the apply lock. This may take a few moments..."

func unrecorded(e event.Recorded) string {
	return view.NotRecorded + e.Path + " is not there, or we may not write it."
}

// Applied is the end of an apply.
type Applied struct {
	Operation string // "apply" or "destroy"
	Counts    plan.Counts
	Outputs   Outputs
}

// line is the line that scripts search for at the end of an apply.
func (a Applied) line() string {
	if a.Operation == "destroy" {
		return fmt.Sprintf("Destroy complete! Resources: %d destroyed.", a.Counts.Destroy)
	}
	return "Apply complete! Resources: " + figures(a.Counts, "%d imported, ", "%d added, %d changed, %d destroyed", ", %d forgotten")
}

func (a Applied) WriteText(h *view.Human) {
	h.Out.Printf("\n%s\n", h.Out.Paint(view.Bold+";"+view.Green)(a.line()))
	if len(a.Outputs) > 0 {
		h.Out.Printf("\nOutputs:\n\n")
		a.Outputs.WriteText(h)
	}
}

func (a Applied) WriteJSON(m *view.Machine) {
	changeSummary(m, a.line(), a.Counts, a.Operation)
	sendOutputs(m, outputsJSON(a.Outputs))
}

// Still has the changes that an apply has been working on for a while.
type Still struct {
	Ensemble string
	Open     []Ongoing
	Now      time.Time
}

func (s Still) WriteText(h *view.Human) {
	for _, o := range s.Open[:min(len(s.Open), maxStill)] {
		h.Out.Printf("%s\n", h.Out.Paint(view.Bold)(view.Clean(o.Addr)+": "+stillText(o, s.Now)))
	}
	if more := len(s.Open) - maxStill; more > 0 {
		h.Out.Printf("%d more %s under way\n", more, view.PluralWord(more, "change is", "changes are"))
	}
}

func (still Still) WriteJSON(m *view.Machine) {
	for _, o := range still.Open {
		kind, action := "apply_progress", o.Action.String()
		if o.Drains {
			kind, action = "drain_progress", ""
		}
		hook{IDValue: o.Path, Action: action, Elapsed: seconds(still.Now.Sub(o.Since))}.send(m, "info", kind, still.Ensemble, o.Addr, stillText(o, still.Now))
	}
}

// Ongoing is a change, or the draining before it, that has begun and not ended.
type Ongoing struct {
	event.Started
	Drains bool // it waits for holders and waiters; then Action is not set
	Since  time.Time
}

// progress has the words for an action under way, and for its end.
var progress = map[plan.Action][2]string{
	plan.Create:  {"Creating...", "Creation complete"},
	plan.Update:  {"Modifying...", "Modifications complete"},
	plan.Delete:  {"Destroying...", "Destruction complete"},
	plan.Replace: {"Replacing...", "Replacement complete"},
	plan.Forget:  {"Forgetting...", "Forgotten"},
	plan.NoOp:    {"Moving...", "Move complete"},
}

// leftText counts the locks whose node an apply did not create again.
func leftText(e event.Left) string {
	return fmt.Sprintf("%s in use by now and not created again (%s). The node may be a container: the next apply tries again.",
		view.Plural(len(e.Addrs), "lock")+view.PluralWord(len(e.Addrs), " is", " are"), view.Clean(explain.Few(e.Addrs, 3)))
}

func stillText(o Ongoing, now time.Time) string {
	doing := strings.ToLower(progress[o.Action][0])
	if o.Drains {
		doing = "draining..."
	}
	return fmt.Sprintf("Still %s [%s elapsed]", doing, view.Elapsed(now.Sub(o.Since)))
}

// maxStill is how many changes under way are named. Those of one transaction end together, so a few lines say as much as a
// thousand.
const maxStill = 5

// seconds returns whole seconds.
func seconds(d time.Duration) *int {
	n := int(d.Seconds())
	return &n
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

func (h hook) send(m *view.Machine, level, kind, ensemble string, addr plan.Addr, text string) {
	h.Resource, h.IDKey = newResource(ensemble, addr), "path"
	m.Send(level, kind, string(addr)+": "+text, view.Fields{"hook": h})
}

// Together are the changes of an apply, in place of an event for each: the changes of one block are one line.
type Together []*appliedGroup

type appliedGroup struct {
	ensemble string
	block    plan.Addr
	action   plan.Action
	first    []event.Applied // the first few
	count    int
	elapsed  time.Duration // the longest
}

// Add counts one more change.
func (all *Together) Add(ensemble string, e event.Applied) {
	block := e.Addr.Block()
	i := slices.IndexFunc(*all, func(g *appliedGroup) bool { return g.block == block && g.action == e.Action })
	if i < 0 {
		i = len(*all)
		*all = append(*all, &appliedGroup{ensemble: ensemble, block: block, action: e.Action})
	}
	g := (*all)[i]
	if g.count++; len(g.first) < fewAlike {
		g.first = append(g.first, e)
	}
	g.elapsed = max(g.elapsed, e.Elapsed)
}

func (all Together) WriteText(h *view.Human) {
	for _, g := range all {
		if g.count > fewAlike {
			h.Out.Printf("%s\n", h.Out.Paint(view.Bold)(fmt.Sprintf("%s: %s after %s, %d times", view.Clean(g.block), progress[g.action][1], view.Elapsed(g.elapsed), g.count)))
			continue
		}
		for _, e := range g.first {
			Event{g.ensemble, e}.WriteText(h)
		}
	}
}

// WriteJSON writes nothing: a stream already has each event.
func (Together) WriteJSON(*view.Machine) {}
