package planview_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
)

func TestTree(t *testing.T) {
	golden(t, "show.txt", text(planview.Live{liveTree()}))
	golden(t, "show.json", document(planview.Live{liveTree()}))
}

func applyEvents() []event.Event {
	info := failure.LockInfo{ID: "7f3a", Path: "/locks/.locktree/apply/p", Operation: "OperationTypeApply", Who: "ann@host", Version: "1.2.3", Created: clock()}
	return []event.Event{
		event.LockWaiting{Info: &info}, event.LockAcquired{Info: info}, event.Scaffolded{Paths: []string{"/locks", "/locks/.locktree"}}, event.Verified{Pins: 3},
		event.Started{Addr: "mutex.a", Path: "/a", Action: plan.Create}, event.Started{Addr: "mutex.b", Path: "/b", Action: plan.Delete},
		event.Committed{ApplyID: "7f3a", Ops: 4, Bytes: 900, Resolved: true, Elapsed: time.Second},
		event.Applied{Addr: "mutex.a", Path: "/a", Action: plan.Create, Elapsed: 1900 * time.Millisecond}, event.Applied{Addr: "mutex.b", Path: "/b", Action: plan.Delete},
		event.ACLPhase{Total: 1}, event.ACLApplied{Addr: "mutex.c", Path: "/c"},
		event.Failed{Addr: "mutex.d", Path: "/d", Action: plan.Update, Err: nil},
	}
}

func TestApplyProgress(t *testing.T) {
	outputs := []plan.Output{{Name: "path", Type: json.RawMessage(`"string"`), Value: json.RawMessage(`"/a"`)}, {Name: "secret", Sensitive: true}}
	human, out, err := capture(nil)
	stream := view.NewStream(out, "1.2.3", clock)
	for _, e := range applyEvents() {
		human.Show(planview.Event{"main", e})
	}
	human.Show(planview.Applied{Operation: "apply", Counts: plan.Counts{Add: 2, Change: 1, Destroy: 2}, Outputs: outputs})
	human.Show(planview.Applied{Operation: "destroy", Counts: plan.Counts{Destroy: 1}})
	golden(t, "apply.txt", "-- stdout --\n"+out.String()+"-- stderr --\n"+err.String())

	out.Reset()
	for _, e := range applyEvents() {
		stream.Show(planview.Event{"main", e})
	}
	stream.Show(planview.Applied{Operation: "apply", Counts: plan.Counts{Add: 2, Change: 1, Destroy: 2}, Outputs: outputs})
	golden(t, "apply.jsonl", out.String())
}
