package view_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/problem"
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
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// capture is a human view whose two streams are kept apart.
func capture(set ...func(*view.Stream)) (v *view.Human, out, err *bytes.Buffer) {
	out, err = &bytes.Buffer{}, &bytes.Buffer{}
	streams := [2]view.Stream{{Writer: out, Width: 78}, {Writer: err, Width: 78}}
	for i := range streams {
		for _, f := range set {
			f(&streams[i])
		}
	}
	return view.NewHuman(streams[0], streams[1]), out, err
}

// now is a minute and a half after the first event of the fixtures.
const now = int64(1_800_000_090_000)

func clock() time.Time { return time.UnixMilli(now).UTC() }

var busy = &kind.Usage{
	Holders: []kind.Party{{Name: "_c_1-lock-0000000001", ID: "host-a/4121", Session: 0x1000123, Token: 4294967301, Since: time.UnixMilli(now - 90_000)}},
	Waiters: []kind.Party{
		{Name: "_c_2-lock-0000000002", ID: "host-b/77", Session: 0x1000124, Token: 4294967302, Since: time.UnixMilli(now - 30_000)},
		{Path: "/locks/catalog/_c_3-__READ__0000000003", Name: "_c_3-__READ__0000000003", Session: 0x1000125, Token: 4294967303, Since: time.UnixMilli(now - 1_000), Shared: true},
	},
}

// text is what people see of results on standard output, one after the other.
func text(results ...view.Result) string {
	v, out, _ := capture()
	for _, r := range results {
		v.Show(r)
	}
	return out.String()
}

// document is a result for programs as one document, and stream as messages.
func document(r view.Result) string {
	var out bytes.Buffer
	view.NewDocuments(&out, view.Stream{}, "1.2.3").Show(r)
	return out.String()
}

func stream(r view.Result) string {
	var out bytes.Buffer
	view.NewStream(&out, "1.2.3", clock).Show(r)
	return out.String()
}

// hash is the part of a digest that must not be shown anywhere.
const hash = "CANARYhashCANARYhashCANARY1="

var (
	users  = kind.ACL{Scheme: "digest", ID: "payments:" + hash, Perms: kind.PermCreate | kind.PermRead | kind.PermDelete}
	admins = kind.ACL{Scheme: "digest", ID: "admin:" + hash, Perms: kind.PermAll}
)

func semaphore(permits int) kind.Params {
	p := kind.Semaphore.New().(*kind.SemaphoreParams)
	p.Permits = permits
	return p
}

func node(addr, path string, params kind.Params) *plan.Node {
	return &plan.Node{
		Path: path, Addr: plan.Addr(addr), ACL: kind.List{users, admins},
		Payload: &kind.Payload{Params: params, Owner: kind.Owner{Stack: "payments-prod", Addr: addr}, State: kind.StateActive, Gen: 3},
		Live:    &plan.Live{Czxid: 77, Version: 2, Aversion: 1},
	}
}

// richPlan has one change of every sort.
func richPlan() *plan.Plan {
	const ns = "namespace.payments"
	pool := ns + `.semaphore.pool["thumbnails"]`
	before, after := node(pool, "/locks/payments/pool-thumbnails", semaphore(8)), node(pool, "/locks/payments/pool-thumbnails", semaphore(4))
	before.Live.Usage = busyAt(before.Path)
	after.Payload.Protect = true
	after.ACL = kind.List{admins, {Scheme: "digest", ID: "payments:" + "OTHER" + hash[5:], Perms: users.Perms}, {Scheme: "world", ID: "anyone", Perms: kind.PermRead}}
	books := node(ns+".mutex.books", "/locks/payments/books", kind.Mutex.New())
	books.Live.Usage = busyAt(books.Path)
	kazoo := node(ns+".mutex.audit", "/locks/payments/audit", kind.Mutex.New())
	kazooAfter := node(ns+".mutex.audit", "/locks/payments/audit", kind.Mutex.New())
	kazooAfter.Payload.Params.(*kind.MutexParams).Wire = kind.WireKazoo
	turned := node(ns+".rwlock.cat", "/locks/payments/cat", kind.RWLock.New())
	created := node(ns, "/locks/payments", kind.Namespace.New())
	created.Payload.ChildACL = kind.List{users}
	renamed := node(ns+".mutex.new", "/locks/payments/renamed", kind.Mutex.New())
	return &plan.Plan{
		Ensemble: "main", Root: "/locks", Stack: "payments-prod", Unread: map[string]int{"/locks/payments": 3, "/locks/payments/none": 0},
		Changes: []plan.Change{
			{Action: plan.Delete, Addr: books.Addr, Path: books.Path, Kind: kind.Mutex, Before: books, Reason: plan.ReasonDeleteNoConfig, Usage: busyAt(books.Path)},
			{Action: plan.Create, Addr: ns, Path: created.Path, Kind: kind.Namespace, After: created, Drift: true},
			{Action: plan.Update, Addr: plan.Addr(pool), Path: before.Path, Kind: kind.Semaphore, Before: before, After: after, Drift: true,
				Params:  kind.Diff(before.Payload.Params, after.Payload.Params),
				ACL:     &plan.ACLDiff{Before: before.ACL, After: after.ACL},
				Protect: true, Usage: busyAt(before.Path), MissingParts: []string{"leases"}},
			{Action: plan.Replace, Addr: kazoo.Addr, Path: kazoo.Path, Kind: kind.Mutex, Before: kazoo, After: kazooAfter,
				Params: kind.Diff(kazoo.Payload.Params, kazooAfter.Payload.Params), ForcesReplace: []string{"wire"}, Reason: plan.ReasonReplaceCannotUpdate},
			{Action: plan.Replace, Addr: turned.Addr, Path: turned.Path, Kind: kind.RWLock,
				Before: node(ns+".mutex.cat", "/locks/payments/cat", kind.Mutex.New()), After: turned, ForcesReplace: []string{"type"}},
			{Action: plan.Update, Addr: renamed.Addr, PreviousAddr: ns + ".mutex.old", Path: renamed.Path, Kind: kind.Mutex, Before: node(ns+".mutex.old", "/locks/payments/renamed", kind.Mutex.New()), After: renamed},
			{Action: plan.NoOp, Addr: ns + ".mutex.ledger", Path: "/locks/payments/ledger", Kind: kind.Mutex,
				Before: node(ns+".mutex.ledger", "/locks/payments/ledger", kind.Mutex.New()), After: node(ns+".mutex.ledger", "/locks/payments/ledger", kind.Mutex.New())},
		},
		Drifted: []plan.Drift{{Addr: ns, Path: created.Path, Deleted: true}, {Addr: plan.Addr(pool), Path: before.Path}},
		Problems: []plan.Problem{{Severity: problem.Warning, Code: problem.InUse, Addr: books.Addr, Path: books.Path, Origin: "locks.locktree.hcl:2",
			Summary: "1 lock to be destroyed is in use", Detail: "The apply will refuse until it is idle."}},
		Outputs: []plan.OutputChange{
			{Name: "ledger_path", Action: plan.Create, After: &plan.Output{Name: "ledger_path", Type: json.RawMessage(`"string"`), Value: json.RawMessage(`"/locks/payments/ledger"`)}},
			{Name: "sizes", Action: plan.Update, Before: &plan.Output{Name: "sizes", Value: json.RawMessage(`{"a":[1,true,null]}`)}, After: &plan.Output{Name: "sizes", Value: json.RawMessage(`{"a":[]}`)}},
			{Name: "token", Action: plan.Create, After: &plan.Output{Name: "token", Sensitive: true}},
		},
		Transaction: plan.Stats{Ops: 9, Bytes: 2048, ACLPhase: 1},
	}
}

// movedPlan has the changes of moved, import and removed blocks, and a replacement on request.
func movedPlan() *plan.Plan {
	mutex := func(addr, path string) *plan.Node { return node(addr, path, kind.Mutex.New()) }
	free := mutex("mutex.free", "/free")
	free.Payload.Owner = kind.Owner{}
	return &plan.Plan{
		Ensemble: "main", Root: "/", Stack: "payments-prod", Transaction: plan.Stats{Ops: 9, Bytes: 2048}, Batches: []plan.Stats{{Ops: 5}, {Ops: 4}},
		Targeted: true,
		Changes: []plan.Change{
			{Action: plan.NoOp, Addr: "mutex.b", PreviousAddr: "mutex.a", Path: "/a", Kind: kind.Mutex, Before: mutex("mutex.a", "/a"), After: mutex("mutex.b", "/a")},
			{Action: plan.Forget, Addr: "mutex.free", Path: "/free", Kind: kind.Mutex, Before: mutex("mutex.free", "/free"), After: free},
			{Action: plan.Replace, Addr: "mutex.taken", Path: "/taken", Kind: kind.Mutex, Before: mutex("mutex.taken", "/taken"), After: mutex("mutex.taken", "/taken"),
				Importing: "/taken", Reason: plan.ReasonReplaceContainer},
			{Action: plan.Update, Addr: "mutex.used", Path: "/used", Kind: kind.Mutex, Before: mutex("mutex.used", "/used"), After: mutex("mutex.used", "/used"),
				Importing: "/used", Usage: busyAt("/used")},
			{Action: plan.Replace, Addr: "mutex.anew", Path: "/anew", Kind: kind.Mutex, Before: mutex("mutex.anew", "/anew"), After: mutex("mutex.anew", "/anew"), Reason: plan.ReasonReplaceByRequest},
		},
	}
}

// at puts the parties into the lock at path.
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

func sources() map[string]*hcl.File {
	return map[string]*hcl.File{"locks.locktree.hcl": {Bytes: []byte("namespace \"payments\" {\n  mutex \"books\" {\n  }\n}\n")}}
}

// unsealedAlone is a lock without the sum of its state after the last apply.
func unsealedAlone() []plan.Change {
	n := node("mutex.a", "/a", kind.Mutex.New())
	return []plan.Change{{Action: plan.NoOp, Addr: n.Addr, Path: n.Path, Kind: kind.Mutex, Before: n, After: n, Unsealed: true}}
}

// driftedAlone is a lock that was changed by hand to its declaration.
func driftedAlone() []plan.Change {
	n := node("mutex.a", "/a", kind.Mutex.New())
	return []plan.Change{{Action: plan.NoOp, Addr: n.Addr, Path: n.Path, Kind: kind.Mutex, Before: n, After: n, Drift: true}}
}

func smallPlan(ensemble string) *plan.Plan {
	n := node("mutex.a", "/a", kind.Mutex.New())
	return &plan.Plan{Ensemble: ensemble, Root: "/", Changes: []plan.Change{{Action: plan.Create, Addr: n.Addr, Path: n.Path, Kind: kind.Mutex, After: n}},
		Transaction: plan.Stats{Ops: 2, Bytes: 400}}
}

func failingPlan() *plan.Plan {
	p := smallPlan("main")
	p.Problems = []plan.Problem{{Severity: problem.Error, Code: problem.Foreign, Addr: "mutex.a", Path: "/a", Origin: "locks.locktree.hcl:2",
		Summary: "Somebody else's node stands at /a", Detail: "Choose another name, or remove it."}}
	return p
}

// status is the status of a stack with one tree, which is as it was declared.
func status(tree *plan.Tree) lockview.Status {
	return lockview.Status{Trees: []*plan.Tree{tree}, Declared: []*plan.Tree{{}}, Servers: []string{""}, Drift: []*plan.Plan{{}}, NowMs: now}
}

func locks(found ...*inspect.Report) lockview.Locks {
	return lockview.Locks{NowMs: now, Ensembles: []lockview.LocksOf{{Ensemble: "main", Path: "/locks",
		Snapshot: &scan.Snapshot{At: time.UnixMilli(now), Locks: found, Waits: inspect.WaitsFor(found...)}}}}
}

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
