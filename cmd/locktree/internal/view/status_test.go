package view_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// liveTree has a lock in use, an idle one, a draining one, a node of nobody's and
// names that sort differently with and without their slashes.
func liveTree() *plan.Tree {
	ledger := node("namespace.payments.mutex.ledger", "/locks/payments/ledger", kind.Mutex.New())
	ledger.Live.Usage = busyAt(ledger.Path)
	draining := node("namespace.payments.semaphore.pool", "/locks/payments/pool", semaphore(2))
	draining.Payload.State = kind.StateDraining
	foreign := &plan.Node{Path: "/locks/payments/odd", Live: &plan.Live{Trouble: plan.TroubleForeign}}
	return &plan.Tree{Ensemble: "main", Root: "/locks", Stack: "payments-prod", Nodes: []*plan.Node{
		node("namespace.payments", "/locks/payments", kind.Namespace.New()),
		node("mutex.odd", "/locks/payments-old", kind.Mutex.New()),
		ledger, foreign, draining,
	}, Unmanaged: []string{"/locks/payments/stranger"}, Unread: map[string]int{"/locks/payments": 3}}
}

func TestStatus(t *testing.T) {
	s := view.Status{Trees: []*plan.Tree{liveTree(), {Ensemble: "spare", Root: "/", Stack: "payments-prod"}}, Declared: []*plan.Tree{{}, {}}, Servers: []string{"zk1:2181,zk2:2181", "zk9:2181"},
		Drift: []*plan.Plan{richPlan(), {}}, NowMs: now}
	v, out, _ := capture(nil)
	v.Show(s)
	golden(t, "status.txt", out.String())
	out.Reset()
	view.NewDocuments(out, view.Stream{}, "1.2.3").Show(s)
	golden(t, "status.json", out.String())
	require.True(t, json.Valid(out.Bytes()))
}

// A lock with a thousand waiters must not fill the screen; one with a thousand nodes of somebody else's did.
func TestStatusCutsLongQueues(t *testing.T) {
	tree := liveTree()
	long := &kind.Usage{}
	for i := range 13 {
		long.Waiters = append(long.Waiters, kind.Party{ID: fmt.Sprintf("worker-%d", i)})
		long.Junk = append(long.Junk, fmt.Sprintf("junk-%d", i))
	}
	tree.Nodes[2].Live.Usage = long
	v, out, _ := capture(nil)
	v.Show(view.Status{Trees: []*plan.Tree{tree}, Declared: []*plan.Tree{{}}, Servers: []string{""}, Drift: []*plan.Plan{{}}})
	require.Contains(t, out.String(), "worker-9")
	require.NotContains(t, out.String(), "worker-10")
	require.NotContains(t, out.String(), "junk-10")
	require.Equal(t, 2, strings.Count(out.String(), "and 3 more"))
	require.Contains(t, out.String(), "13 waiting.")
}

func TestTree(t *testing.T) {
	v, out, _ := capture(nil)
	v.Show(view.Live{liveTree()})
	golden(t, "show.txt", out.String())
	out.Reset()
	view.NewDocuments(out, view.Stream{}, "1.2.3").Show(view.Live{liveTree()})
	golden(t, "show.json", out.String())
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
		human.Show(view.Event{"main", e})
	}
	human.Show(view.Applied{Operation: "apply", Counts: plan.Counts{Add: 2, Change: 1, Destroy: 2}, Outputs: outputs})
	human.Show(view.Applied{Operation: "destroy", Counts: plan.Counts{Destroy: 1}})
	golden(t, "apply.txt", "-- stdout --\n"+out.String()+"-- stderr --\n"+err.String())

	out.Reset()
	for _, e := range applyEvents() {
		stream.Show(view.Event{"main", e})
	}
	stream.Show(view.Applied{Operation: "apply", Counts: plan.Counts{Add: 2, Change: 1, Destroy: 2}, Outputs: outputs})
	golden(t, "apply.jsonl", out.String())
}
