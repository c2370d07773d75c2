package view_test

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/inspect/words"
	"github.com/locktree/locktree/recipes/kind"
)

// party is somebody in a queue of the fixtures.
func party(path, id string, session int64, change ...func(*recipes.Contender)) recipes.Contender {
	c := recipes.Contender{Path: path + "/_c_" + id + "-lock-0000000001", Name: "_c_" + id + "-lock-0000000001", ID: id, Writer: "curator",
		Session: session, Token: 4294967300 + uint64(session), Since: time.UnixMilli(now - 90_000)}
	for _, f := range change {
		f(&c)
	}
	return c
}

// crossed are two locks whose holders want each other's, and one nobody declared.
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

// A prefix with a thousand locks, of which two are in use, is read for these two.
func TestIdleLocksAreSummedUp(t *testing.T) {
	show := func(idle int) string {
		found := crossed()[:1]
		for i := range idle {
			path := "/locks/shard/" + strconv.Itoa(i)
			found = append(found, &inspect.Report{Path: path, Kind: kind.Mutex, Payload: &kind.Payload{Params: kind.Mutex.New(), State: kind.StateActive, Owner: kind.Owner{Stack: "s", Addr: "mutex.shard"}}})
		}
		found[len(found)-1].Payload.State = kind.StateDraining
		v, out, _ := capture(nil)
		v.Show(view.Locks{NowMs: now, Ensembles: []view.LocksOf{{Ensemble: "main", Addresses: "zk1:2181", Path: "/locks",
			Snapshot: &scan.Snapshot{At: time.UnixMilli(now), Locks: found, Waits: inspect.WaitsFor(found...)}}}})
		return out.String()
	}
	text := show(1001)
	require.Contains(t, text, "/locks/ledger  mutex")
	require.Contains(t, text, "\n/locks/shard  1000 locks idle: 0, 1, 2 and 997 more\n")
	require.Contains(t, text, "/locks/shard/1000  mutex, mutex.shard of stack s, draining\n  idle\n")
	require.NotContains(t, text, "/locks/shard/7")
	require.Contains(t, text, "1002 locks, 1 held, 1 waiting")
	require.Contains(t, show(4), "/locks/shard/2  mutex", "three are named as before")
}

func TestLocks(t *testing.T) {
	found := crossed()
	at := time.UnixMilli(now)
	seen := &scan.Snapshot{At: at, Zxid: 4294968000, Locks: found, Cut: true, Waits: inspect.WaitsFor(found...), Unread: []scan.Unread{{Path: "/locks/private", Err: zk.ErrNoAuth}},
		Sessions: map[int64]*words.Session{1: {ID: 1, Address: "10.0.0.7:40822"}, 2: {ID: 2, Away: true, Expires: at.Add(8 * time.Second)}}}
	spare := &scan.Snapshot{At: at, Waits: inspect.WaitsFor(), Locks: found[2:], Servers: []words.Server{{Forbids: []string{"dump", "cons"}}},
		Unasked: []words.Unasked{{Server: "zk9:2181", Why: "not allowed", Forbids: true}, {Server: "zk10:2181", Why: "connection refused"}}}
	l := view.Locks{NowMs: now, Ensembles: []view.LocksOf{
		{Ensemble: "main", Addresses: "zk1:2181", Path: "/locks", Snapshot: seen},
		{Ensemble: "spare", Addresses: "zk9:2181", Path: "/locks", Snapshot: spare},
		{Ensemble: "none", Addresses: "zk8:2181", Path: "/locks", Snapshot: &scan.Snapshot{Waits: inspect.WaitsFor()}},
	}}
	v, out, _ := capture(nil)
	v.Show(l)
	golden(t, "locks.txt", out.String())
	out.Reset()
	view.NewDocuments(out, view.Stream{}, "1.2.3").Show(l)
	golden(t, "locks.json", out.String())
	require.True(t, json.Valid(out.Bytes()))
}

func TestStatusWarnsOfDeadlocks(t *testing.T) {
	held := func(path, holder, waiter string, sessions ...int64) *plan.Node {
		n := node("mutex."+path[1:], path, kind.Mutex.New())
		n.Live.Usage = &kind.Usage{Holders: []kind.Party{{ID: holder, Session: sessions[0]}}, Waiters: []kind.Party{{ID: waiter, Session: sessions[1]}}}
		return n
	}
	tree := &plan.Tree{Nodes: []*plan.Node{held("/ledger", "A", "B", 1, 2), held("/rates", "B", "A", 2, 1)}}
	v, out, _ := capture(nil)
	v.Show(view.Status{Trees: []*plan.Tree{tree}, Declared: []*plan.Tree{{}}, Servers: []string{""}, Drift: []*plan.Plan{{}}})
	require.Contains(t, out.String(), "deadlock: B holds /rates and waits for /ledger; A holds /ledger and waits for /rates\n")
	tree.Nodes = tree.Nodes[:1]
	out.Reset()
	v.Show(view.Status{Trees: []*plan.Tree{tree}, Declared: []*plan.Tree{{}}, Servers: []string{""}, Drift: []*plan.Plan{{}}})
	require.NotContains(t, out.String(), "deadlock")
}

// A lock that its stack has let go was "mutex,  of stack ".
func TestLocksSayThatNoStackDeclaresALock(t *testing.T) {
	in := crossed()[0]
	in.Payload.Owner = kind.Owner{}
	v, out, _ := capture(nil)
	v.Show(view.Locks{Ensembles: []view.LocksOf{{Snapshot: &scan.Snapshot{Locks: []*inspect.Report{in}, Waits: inspect.WaitsFor(in)}}}})
	require.Contains(t, out.String(), "/locks/ledger  mutex, declared by no stack, draining\n")
}

// What a program wrote about itself must not reach the terminal as control characters.
func TestLocksShowForeignTextSafely(t *testing.T) {
	in := crossed()[0]
	in.Holders[0].ID, in.Holders[0].Host = "\x1b[31mred", "host\nheld by nobody"
	v, out, _ := capture(nil)
	v.Show(view.Locks{Ensembles: []view.LocksOf{{Snapshot: &scan.Snapshot{Locks: []*inspect.Report{in}, Waits: inspect.WaitsFor(in)}}}})
	require.NotContains(t, out.String(), "\x1b")
	require.NotContains(t, out.String(), "\nheld by nobody")
}

func TestLocksCutLongQueues(t *testing.T) {
	in := crossed()[0]
	for i := range 20 {
		in.Waiters = append(in.Waiters, party(in.Path, "w"+strconv.Itoa(i), int64(10+i)))
	}
	v, out, _ := capture(nil)
	v.Show(view.Locks{Ensembles: []view.LocksOf{{Snapshot: &scan.Snapshot{Locks: []*inspect.Report{in}, Waits: inspect.WaitsFor(in)}}}})
	require.Contains(t, out.String(), "and 11 more")
	require.Contains(t, out.String(), "21 waiting.")
}

// What is shown while nothing newer can be read says how old it is. The passing of time is no change, and a holder that goes is one.
func TestWhatIsStaleSaysSinceWhen(t *testing.T) {
	of := view.LocksOf{Ensemble: "main", Path: "/locks", Snapshot: &scan.Snapshot{At: time.UnixMilli(now), Locks: crossed(), Waits: inspect.WaitsFor()}}
	first := view.Locks{NowMs: now, Ensembles: []view.LocksOf{of}}
	later := view.Locks{NowMs: now + 35_000, Ensembles: []view.LocksOf{of}}
	require.Equal(t, first.State(), later.State())
	later.Ensembles[0].Error = "connection lost"
	require.NotEqual(t, first.State(), view.Locks{NowMs: now, Ensembles: later.Ensembles}.State())
	v, out, _ := capture(nil)
	v.Show(later)
	require.Contains(t, out.String(), "\nstale since 08:01:30 (35s): connection lost\n")
	of.Error = ""
	of.Snapshot = &scan.Snapshot{At: time.UnixMilli(now), Locks: crossed(), Waits: inspect.WaitsFor()}
	of.Locks[0].Holders = nil
	require.NotEqual(t, first.State(), view.Locks{NowMs: now, Ensembles: []view.LocksOf{of}}.State())
}
