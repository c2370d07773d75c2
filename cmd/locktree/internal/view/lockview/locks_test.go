package lockview_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/inspect/words"
	"github.com/locktree/locktree/recipes/kind"
)

// People read a prefix with a thousand locks for the two in use.
func TestIdleLocksAreSummedUp(t *testing.T) {
	show := func(idle int) string {
		found := crossed()[:1]
		for i := range idle {
			path := "/locks/shard/" + strconv.Itoa(i)
			found = append(found, &inspect.Report{Path: path, Kind: kind.Mutex, Payload: &kind.Payload{Params: kind.Mutex.New(), State: kind.StateActive, Owner: kind.Owner{Stack: "s", Addr: "mutex.shard"}}})
		}
		found[len(found)-1].Payload.State = kind.StateDraining
		return text(locks(found...))
	}
	many := show(1001)
	for _, want := range []string{"/locks/ledger  mutex", "\n/locks/shard  1000 locks idle: 0, 1, 2 and 997 more\n",
		"/locks/shard/1000  mutex, mutex.shard of stack s, draining\n  idle\n", "1002 locks, 1 held, 1 waiting"} {
		require.Contains(t, many, want)
	}
	require.NotContains(t, many, "/locks/shard/7")
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
	golden(t, "locks.txt", text(l))
	golden(t, "locks.json", document(t, l))
}

// A lock that its stack has let go was "mutex, of stack ". The name that a program gave itself must not reach the terminal as
// control characters.
func TestALockIsShownAsItsNodeHasItAndSafely(t *testing.T) {
	in := crossed()[0]
	in.Payload.Owner = kind.Owner{}
	in.Holders[0].ID, in.Holders[0].Host = "\x1b[31mred", "host\nheld by nobody"
	shown := text(locks(in))
	require.Contains(t, shown, "/locks/ledger  mutex, declared by no stack, draining\n")
	require.NotContains(t, shown, "\x1b")
	require.NotContains(t, shown, "\nheld by nobody")
}

// A list says how old it is while the servers do not answer. The passing of time is no change, and a holder that goes is one.
func TestWhatIsStaleSaysSinceWhen(t *testing.T) {
	first, later := locks(crossed()...), locks(crossed()...)
	later.NowMs = now + 35_000
	require.Equal(t, first.State(), later.State())
	later.Ensembles[0].Error = "connection lost"
	require.NotEqual(t, first.State(), later.State())
	require.Contains(t, text(later), "\nstale since 08:01:30 (35s): connection lost\n")
	left := locks(crossed()...)
	left.Ensembles[0].Locks[0].Holders = nil
	require.NotEqual(t, first.State(), left.State())
}
