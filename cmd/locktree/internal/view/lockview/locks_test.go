package lockview_test

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/inspect/words"
	"github.com/locktree/locktree/recipes/kind"
)

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
		v.Show(lockview.Locks{NowMs: now, Ensembles: []lockview.LocksOf{{Ensemble: "main", Addresses: "zk1:2181", Path: "/locks",
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
	l := lockview.Locks{NowMs: now, Ensembles: []lockview.LocksOf{
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

// A lock that its stack has let go was "mutex,  of stack ".
func TestLocksSayThatNoStackDeclaresALock(t *testing.T) {
	in := crossed()[0]
	in.Payload.Owner = kind.Owner{}
	v, out, _ := capture(nil)
	v.Show(lockview.Locks{Ensembles: []lockview.LocksOf{{Snapshot: &scan.Snapshot{Locks: []*inspect.Report{in}, Waits: inspect.WaitsFor(in)}}}})
	require.Contains(t, out.String(), "/locks/ledger  mutex, declared by no stack, draining\n")
}

// What a program wrote about itself must not reach the terminal as control characters.
func TestLocksShowForeignTextSafely(t *testing.T) {
	in := crossed()[0]
	in.Holders[0].ID, in.Holders[0].Host = "\x1b[31mred", "host\nheld by nobody"
	v, out, _ := capture(nil)
	v.Show(lockview.Locks{Ensembles: []lockview.LocksOf{{Snapshot: &scan.Snapshot{Locks: []*inspect.Report{in}, Waits: inspect.WaitsFor(in)}}}})
	require.NotContains(t, out.String(), "\x1b")
	require.NotContains(t, out.String(), "\nheld by nobody")
}

func TestLocksCutLongQueues(t *testing.T) {
	in := crossed()[0]
	for i := range 20 {
		in.Waiters = append(in.Waiters, party(in.Path, "w"+strconv.Itoa(i), int64(10+i)))
	}
	v, out, _ := capture(nil)
	v.Show(lockview.Locks{Ensembles: []lockview.LocksOf{{Snapshot: &scan.Snapshot{Locks: []*inspect.Report{in}, Waits: inspect.WaitsFor(in)}}}})
	require.Contains(t, out.String(), "and 11 more")
	require.Contains(t, out.String(), "21 waiting.")
}

// What is shown while nothing newer can be read says how old it is. The passing of time is no change, and a holder that goes is one.
func TestWhatIsStaleSaysSinceWhen(t *testing.T) {
	of := lockview.LocksOf{Ensemble: "main", Path: "/locks", Snapshot: &scan.Snapshot{At: time.UnixMilli(now), Locks: crossed(), Waits: inspect.WaitsFor()}}
	first := lockview.Locks{NowMs: now, Ensembles: []lockview.LocksOf{of}}
	later := lockview.Locks{NowMs: now + 35_000, Ensembles: []lockview.LocksOf{of}}
	require.Equal(t, first.State(), later.State())
	later.Ensembles[0].Error = "connection lost"
	require.NotEqual(t, first.State(), lockview.Locks{NowMs: now, Ensembles: later.Ensembles}.State())
	v, out, _ := capture(nil)
	v.Show(later)
	require.Contains(t, out.String(), "\nstale since 08:01:30 (35s): connection lost\n")
	of.Error = ""
	of.Snapshot = &scan.Snapshot{At: time.UnixMilli(now), Locks: crossed(), Waits: inspect.WaitsFor()}
	of.Locks[0].Holders = nil
	require.NotEqual(t, first.State(), lockview.Locks{NowMs: now, Ensembles: []lockview.LocksOf{of}}.State())
}
