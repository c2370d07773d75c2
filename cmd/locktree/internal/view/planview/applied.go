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
		h.Message("Acquiring the apply lock. This may take a few moments...")
		if e.Info != nil {
			h.Message(e.Info.String())
		}
	case event.Scaffolded:
		h.Message("Created " + view.Clean(strings.Join(e.Paths, ", ")))
	case event.Draining:
		say(e.Addr, fmt.Sprintf("Draining: it admits nobody new (%s)", view.Clean(e.Usage.String())))
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
			h.Message(view.NotRecorded + view.Clean(e.Path) + " is not there, or we may not write it.")
		}
	case event.ACLPhase:
		h.Message(fmt.Sprintf("Setting %d access %s on existing nodes...", e.Total, view.PluralWord(e.Total, "list", "lists")))
	case event.ACLApplied:
		say(e.Addr, fmt.Sprintf("Access list set [path=%s]", view.Clean(e.Path)))
	}
}

func (e Event) WriteJSON(m *view.Machine) {
	of := func(addr plan.Addr, path string, action string) *hook {
		return &hook{Resource: newResource(e.Ensemble, addr), Action: action, IDKey: "path", IDValue: path}
	}
	switch ev := e.Event.(type) {
	case event.LockWaiting:
		fields := view.Fields{"ensemble": e.Ensemble}
		if ev.Info != nil {
			fields["lock"] = ev.Info
		}
		m.Send("info", "lock_waiting", "Acquiring the apply lock. This may take a few moments...", fields)
	case event.Scaffolded:
		m.Log("Created " + strings.Join(ev.Paths, ", "))
	case event.Draining:
		h := of(ev.Addr, ev.Path, "")
		h.Live = live(ev.Usage)
		m.Send("info", "drain_start", string(ev.Addr)+": Draining", view.Fields{"hook": h})
	case event.Left:
		m.Log(leftText(ev))
	case event.Breaking:
		h := of(ev.Addr, ev.Path, "")
		h.Live = live(ev.Usage)
		m.Send("warn", "force_break", string(ev.Addr)+": Breaking", view.Fields{"hook": h})
	case event.Started:
		m.Send("info", "apply_start", fmt.Sprintf("%s: %s", ev.Addr, progress[ev.Action][0]), view.Fields{"hook": of(ev.Addr, ev.Path, ev.Action.String())})
	case event.Applied:
		h := of(ev.Addr, ev.Path, ev.Action.String())
		h.Elapsed = seconds(ev.Elapsed)
		m.Send("info", "apply_complete", fmt.Sprintf("%s: %s after %s", ev.Addr, progress[ev.Action][1], view.Elapsed(ev.Elapsed)), view.Fields{"hook": h})
	case event.Failed:
		m.Send("error", "apply_errored", fmt.Sprintf("%s: not applied", ev.Addr), view.Fields{"hook": of(ev.Addr, ev.Path, ev.Action.String())})
	case event.Committed:
		m.Send("info", "transaction", fmt.Sprintf("Committed %d operations in one transaction", ev.Ops),
			view.Fields{"transaction": transaction{ev.Batch, ev.Batches, ev.Bytes, ev.ApplyID, ev.Ops, ev.Resolved}, "ensemble": e.Ensemble})
	case event.Recorded:
		if ev.Entry == nil {
			m.Send("warn", "log", view.NotRecorded+ev.Path+" is not there, or we may not write it.", nil)
			return
		}
		m.Send("info", "recorded", "Recorded in the history", view.Fields{"entry": ev.Entry, "ensemble": e.Ensemble})
	case event.ACLApplied:
		m.Send("info", "acl_applied", string(ev.Addr)+": Access list set", view.Fields{"hook": of(ev.Addr, ev.Path, "")})
	}
}

// Applied is the end of an apply.
type Applied struct {
	Operation string // "apply" or "destroy"
	Counts    plan.Counts
	Outputs   Outputs
}

// line is the one that scripts search for when an apply is done.
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

// Still is what an apply has been doing for a while.
type Still struct {
	Ensemble string
	Open     []Ongoing
	Now      time.Time
}

func (s Still) WriteText(h *view.Human) {
	for _, o := range s.Open[:min(len(s.Open), maxStill)] {
		h.Out.Printf("%s\n", h.Out.Paint(view.Bold)(stillText(o, s.Now)))
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
		m.Send("info", kind, stillText(o, still.Now), view.Fields{"hook": &hook{Resource: newResource(still.Ensemble, o.Addr), Action: action,
			IDKey: "path", IDValue: o.Path, Elapsed: seconds(still.Now.Sub(o.Since))}})
	}
}

// Ongoing is a change, or the draining before it, that has begun and not ended.
type Ongoing struct {
	event.Started
	Drains bool // it waits for those who use the lock; Action is not set then
	Since  time.Time
}

// progress says what an action does, and that it is done.
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
	return fmt.Sprintf("%s: Still %s [%s elapsed]", view.Clean(o.Addr), doing, view.Elapsed(now.Sub(o.Since)))
}

// maxStill is how many of the changes under way are named: those of one
// transaction end together, so a few lines say as much as a thousand.
const maxStill = 5

// seconds are whole ones.
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

type transaction struct {
	Batch    int    `json:"batch"`
	Batches  int    `json:"batches"`
	Bytes    int    `json:"bytes"`
	ID       string `json:"id"`
	Ops      int    `json:"ops"`
	Resolved bool   `json:"resolved"`
}

// Together are the changes that an apply made, in place of an event for each: those of one block are one line.
type Together []*appliedGroup

type appliedGroup struct {
	ensemble string
	block    plan.Addr
	action   plan.Action
	first    []event.Applied // the first few
	count    int
	elapsed  time.Duration // the longest
}

// Add counts one more.
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

// WriteJSON writes nothing: a stream has every event by itself.
func (Together) WriteJSON(*view.Machine) {}
