package lockview

import (
	"fmt"
	"strings"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind/slots"
)

// jobOf is what the tree says about a job that runs once for each slot; nil for other nodes.
func jobOf(n *plan.Node) *inspect.Job {
	if n.Live == nil || n.Payload == nil {
		return nil
	}
	for _, part := range n.Live.Parts {
		if part.Written {
			return inspect.NewJob(part.Record, time.UnixMilli(n.Payload.Since), time.UnixMilli(part.CreatedMs))
		}
	}
	return nil
}

// SlotLines are a name and a text each: the last run of a job, its next slot, and missed slots.
func SlotLines(in *inspect.Report, now time.Time) (lines [][2]string) {
	if in.Job == nil {
		return nil
	}
	outlook, err := in.Slots(now)
	if err != nil {
		lines = append(lines, [2]string{"slots", "not known: " + view.Clean(err.Error())})
	}
	if outlook.Last != nil {
		lines = append(lines, [2]string{"last", slotText(outlook.Last, in)})
	}
	if !outlook.Next.IsZero() {
		lines = append(lines, [2]string{"next", slots.At(outlook.Next)})
	}
	for _, s := range []struct {
		what string
		at   []time.Time
	}{{"due", outlook.Due}, {"missed", outlook.Missed}} {
		first := max(0, len(s.at)-fewSlots)
		names := slotNames(s.at[first:])
		if first > 0 {
			names = append(names, fmt.Sprintf("and %d before that", first))
		}
		if len(names) > 0 {
			lines = append(lines, [2]string{s.what, strings.Join(names, ", ")})
		}
	}
	return lines
}

// fewSlots is how many slots are named: beyond that, a person wants the number.
const fewSlots = 3

func slotNames(at []time.Time) []string {
	names := make([]string, len(at))
	for i, t := range at {
		names[i] = slots.At(t)
	}
	return names
}

// slotText is one line about a run: "2026-11-26T02:00:00Z succeeded after 2m3s, by host-a/4121, token 17".
func slotText(run *slots.Run, in *inspect.Report) string {
	text := view.Cell(run.Slot) + " " + RunState(run, in)
	switch run.State {
	case slots.Running:
		text += " since " + run.Begun().Format(time.RFC3339)
	case slots.Succeeded, slots.Failed:
		text += fmt.Sprintf(" after %v", run.Duration())
	}
	text += fmt.Sprintf(", by %s, token %d", view.Cell(run.By), run.Token)
	if run.Tries > 1 {
		text += fmt.Sprintf(", start %d", run.Tries)
	}
	if run.Result != "" {
		text += ": " + view.Clean(run.Result)
	}
	return text
}

// RunState is the state of a run. One that is recorded as running is lost if its holder has gone.
func RunState(run *slots.Run, in *inspect.Report) string {
	if run.State == slots.Running && (len(in.Holders) == 0 || in.Holders[0].Token != run.Token) {
		return "lost"
	}
	return string(run.State)
}

// SlotsUse says in one line which slots were missed, and whether the last run failed or was lost; "" if neither.
func SlotsUse(in *inspect.Report, now time.Time) (text string) {
	if in.Job == nil {
		return ""
	}
	outlook, err := in.Slots(now)
	if err != nil {
		return ", slots not known"
	}
	if run := outlook.Last; run != nil {
		if state := RunState(run, in); state == "lost" || state == string(slots.Failed) {
			text += ", last run " + state
		}
	}
	if n := len(outlook.Missed); n > 0 {
		text += fmt.Sprintf(", %d missed", n)
	}
	return text
}

// onceDoc is the part of status -json about a job.
type onceDoc struct {
	Last   *runDoc         `json:"last"`
	Next   *document.Stamp `json:"next"`
	Due    []string        `json:"due"`
	Missed []string        `json:"missed"`
	Slots  []runDoc        `json:"slots"` // all that are recorded
	Error  string          `json:"error,omitempty"`
}

type runDoc struct {
	Slot    string          `json:"slot"`
	State   string          `json:"state"`
	By      string          `json:"by"`
	Token   uint64          `json:"token"`
	Tries   int             `json:"tries"`
	Started *document.Stamp `json:"started,omitempty"`
	Seconds float64         `json:"seconds"`
	Result  string          `json:"result,omitempty"`
}

func newRunDoc(run *slots.Run, in *inspect.Report) runDoc {
	d := runDoc{Slot: run.Slot, State: RunState(run, in), By: run.By, Token: run.Token, Tries: run.Tries, Seconds: run.Duration().Seconds(), Result: run.Result}
	if run.Started != 0 {
		d.Started = &document.Stamp{Time: run.Begun()}
	}
	return d
}

func newOnceDoc(in *inspect.Report, now time.Time) *onceDoc {
	if in.Job == nil {
		return nil
	}
	outlook, err := in.Slots(now)
	d := &onceDoc{Due: slotNames(outlook.Due), Missed: slotNames(outlook.Missed), Slots: []runDoc{}}
	if err != nil {
		d.Error = err.Error()
	}
	if outlook.Last != nil {
		last := newRunDoc(outlook.Last, in)
		d.Last = &last
	}
	if !outlook.Next.IsZero() {
		d.Next = &document.Stamp{Time: outlook.Next}
	}
	if in.Job.Record != nil {
		for i := range in.Job.Record.Slots {
			d.Slots = append(d.Slots, newRunDoc(&in.Job.Record.Slots[i], in))
		}
	}
	return d
}
