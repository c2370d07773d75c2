package lockview_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/kind"
)

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// text is what people see of results, one after the other.
func text(results ...view.Result) string {
	var out bytes.Buffer
	v := view.NewHuman(view.Stream{Writer: &out, Width: 78}, view.Stream{Writer: io.Discard})
	for _, r := range results {
		v.Show(r)
	}
	return out.String()
}

// document is what programs get.
func document(t *testing.T, r view.Result) string {
	t.Helper()
	var out bytes.Buffer
	view.NewDocuments(&out, view.Stream{}, "1.2.3").Show(r)
	require.True(t, json.Valid(out.Bytes()))
	return out.String()
}

// status is that of a stack of one tree, which is as it was declared.
func status(tree *plan.Tree) lockview.Status {
	return lockview.Status{Trees: []*plan.Tree{tree}, Declared: []*plan.Tree{{}}, Servers: []string{""}, Drift: []*plan.Plan{{}}, NowMs: now}
}

// locks are some of one ensemble.
func locks(found ...*inspect.Report) lockview.Locks {
	return lockview.Locks{NowMs: now, Ensembles: []lockview.LocksOf{{Ensemble: "main", Path: "/locks",
		Snapshot: &scan.Snapshot{At: time.UnixMilli(now), Locks: found, Waits: inspect.WaitsFor(found...)}}}}
}

// now is a minute and a half after everything the fixtures say happened.
const now = int64(1_800_000_090_000)

func semaphore(permits int) kind.Params {
	p := kind.Semaphore.New().(*kind.SemaphoreParams)
	p.Permits = permits
	return p
}

func node(addr, path string, params kind.Params) *plan.Node {
	return &plan.Node{
		Path: path, Addr: plan.Addr(addr),
		Payload: &kind.Payload{Params: params, Owner: kind.Owner{Stack: "payments-prod", Addr: addr}, State: kind.StateActive, Gen: 3},
		Live:    &plan.Live{Czxid: 77, Version: 2, Aversion: 1},
	}
}

var busy = &kind.Usage{
	Holders: []kind.Party{{Name: "_c_1-lock-0000000001", ID: "host-a/4121", Session: 0x1000123, Token: 4294967301, Since: time.UnixMilli(now - 90_000)}},
	Waiters: []kind.Party{
		{Name: "_c_2-lock-0000000002", ID: "host-b/77", Session: 0x1000124, Token: 4294967302, Since: time.UnixMilli(now - 30_000)},
		{Path: "/locks/catalog/_c_3-__READ__0000000003", Name: "_c_3-__READ__0000000003", Session: 0x1000125, Token: 4294967303, Since: time.UnixMilli(now - 1_000), Shared: true},
	},
}

// at are the parties of the lock at path.
func at(path string, all []kind.Party) []kind.Party {
	out := slices.Clone(all)
	for i := range out {
		out[i].Path = kind.JoinPath(path, out[i].Name)
	}
	return out
}

func busyAt(path string) *kind.Usage {
	return &kind.Usage{Holders: at(path, busy.Holders), Waiters: at(path, busy.Waiters)}
}

// liveTree has a lock in use, an idle one, a draining one, a foreign node, and names that sort differently with and without their slashes.
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

// party is a contender of the fixtures.
func party(path, id string, session int64, change ...func(*recipes.Contender)) recipes.Contender {
	c := recipes.Contender{Path: path + "/_c_" + id + "-lock-0000000001", Name: "_c_" + id + "-lock-0000000001", ID: id, Writer: "curator",
		Session: session, Token: 4294967300 + uint64(session), Since: time.UnixMilli(now - 90_000)}
	for _, f := range change {
		f(&c)
	}
	return c
}

// crossed are two locks whose holders want each other's, and an undeclared one.
func crossed() []*inspect.Report {
	ledger := &kind.Payload{Params: kind.Mutex.New(), State: kind.StateDraining, Owner: kind.Owner{Stack: "payments-prod", Addr: "mutex.ledger"}}
	x, y := "/locks/ledger", "/locks/rates"
	return []*inspect.Report{
		{Path: x, Kind: kind.Mutex, Payload: ledger, Holders: []recipes.Contender{party(x, "A", 1, func(c *recipes.Contender) { c.Host, c.PID = "host-a", 4121 })},
			Waiters: []recipes.Contender{party(x, "B", 2, func(c *recipes.Contender) { c.Host = "host-b" })}},
		{Path: y, Kind: kind.RWLock, Guessed: true, Holders: []recipes.Contender{party(y, "B", 2, func(c *recipes.Contender) { c.Shared = true })},
			Waiters: []recipes.Contender{party(y, "A", 1, func(c *recipes.Contender) { c.Revoked, c.Writer = true, "kazoo" })}, Junk: []string{y + "/readme"}},
		{Path: "/locks/idle", Kind: kind.Election, Payload: &kind.Payload{Params: kind.Election.New(), State: kind.StateActive, Owner: kind.Owner{Stack: "s", Addr: "election.idle"}}},
	}
}
