package view_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/checkup"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/check"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/inspect/words"
	"github.com/locktree/locktree/recipes/kind"
)

func TestStatusTellsOfTreesDriftAndServers(t *testing.T) {
	differs := &plan.Plan{}
	for _, action := range []plan.Action{plan.Create, plan.Update, plan.Update, plan.Delete, plan.Replace, plan.Replace} {
		differs.Changes = append(differs.Changes, plan.Change{Action: action, Addr: "mutex.a", Path: "/a", Kind: kind.Mutex})
	}
	s := lockview.Status{Trees: []*plan.Tree{liveTree(), {Ensemble: "spare", Root: "/", Stack: "payments-prod"}}, Declared: []*plan.Tree{{}, {}}, Servers: []string{"zk1:2181,zk2:2181", "zk9:2181"},
		Drift: []*plan.Plan{differs, {}}, NowMs: now}
	golden(t, "status.txt", text(s))
	golden(t, "status.json", document(s))
}

// A lock with a thousand waiters must not fill the screen; one with a thousand foreign nodes did.
func TestStatusCutsLongQueues(t *testing.T) {
	tree := liveTree()
	long := &kind.Usage{}
	for i := range 13 {
		long.Waiters = append(long.Waiters, kind.Party{ID: fmt.Sprintf("worker-%d", i)})
		long.Junk = append(long.Junk, fmt.Sprintf("junk-%d", i))
	}
	tree.Nodes[2].Live.Usage = long
	shown := text(status(tree))
	require.Contains(t, shown, "worker-9")
	require.NotContains(t, shown, "worker-10")
	require.NotContains(t, shown, "junk-10")
	require.Equal(t, 2, strings.Count(shown, "and 3 more"))
	require.Contains(t, shown, "13 waiting.")
}

// C1 controls, marks that turn text around and characters without a width stood in JSON unescaped.
func TestJSONHasNoInvisibleCharacters(t *testing.T) {
	id := "a\u007f\u0085\u009b31m\u200b\u202e\u2066\ufeff\U000e0041\u00a0é日\U0001f512\\u0041\"z"
	tree := liveTree()
	tree.Nodes[2].Live.Usage = &kind.Usage{Holders: []kind.Party{{ID: id}}, Junk: []string{id}}
	doc := document(status(tree))
	for _, text := range []string{doc, string(view.VisibleJSON([]byte("\"\xff\"")))} {
		require.False(t, strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) || r == utf8.RuneError }), text)
	}
	var read struct {
		Ensembles []struct {
			Locks []struct{ Holders []struct{ ID string } }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(doc), &read))
	require.Equal(t, id, read.Ensembles[0].Locks[1].Holders[0].ID, "the value is the same")
	require.Contains(t, doc, "é日\U0001f512", "what can be seen stays")
}

// A person looks at a prefix with a thousand locks for the two in use.
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

func TestLocksAreShownWithHoldersWaitersAndSessions(t *testing.T) {
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
	golden(t, "locks.json", document(l))
}

// A lock that its stack has let go was shown as "mutex, of stack ". Control characters in the name that a program gave itself must not
// reach the terminal.
func TestALockIsShownAsItsNodeHasItAndSafely(t *testing.T) {
	in := crossed()[0]
	in.Payload.Owner = kind.Owner{}
	in.Holders[0].ID, in.Holders[0].Host = "\x1b[31mred", "host\nheld by nobody"
	shown := text(locks(in))
	require.Contains(t, shown, "/locks/ledger  mutex, declared by no stack, draining\n")
	require.NotContains(t, shown, "\x1b")
	require.NotContains(t, shown, "\nheld by nobody")
}

// While the servers do not answer, a list says how old it is. Time that passes is no change of the state, and a holder that leaves is one.
func TestWhatIsStaleSaysSinceWhen(t *testing.T) {
	first, later := locks(crossed()...), locks(crossed()...)
	later.NowMs = now + 35_000
	require.Equal(t, first.State(), later.State())
	later.Ensembles[0].Error = "connection lost"
	require.NotEqual(t, first.State(), later.State())
	require.Contains(t, text(later), "\nstale since 08:01:30 (35s): connection lost\n")
	left := locks(crossed()...)
	left.Ensembles[0].Snapshot.Locks[0].Holders = nil
	require.NotEqual(t, first.State(), left.State())
}

var stated = kind.Limits{MaxHold: "1m", MaxWait: "45s", Owner: "Team \x1b[31mLedger", Runbook: "https://wiki.example.com/ledger"}

// The holder of the fixtures has been there for 90 seconds, the first waiter for 30.
func TestWhatIsLongerThanDeclaredIsMarked(t *testing.T) {
	tree := liveTree()
	tree.Nodes[2].Payload.Params.(*kind.MutexParams).Limits = stated
	in := &inspect.Report{Path: "/locks/payments/ledger", Kind: kind.Mutex, Payload: tree.Nodes[2].Payload, Waiters: []recipes.Contender{party("/l", "B", 2)}}
	golden(t, "limits.txt", text(status(tree), locks(in)))

	for _, c := range []struct {
		limits kind.Limits
		want   any
	}{{stated, []any{"max_hold"}}, {kind.Limits{MaxHold: "2m"}, []any{}}, {kind.Limits{Owner: "a"}, nil}} {
		tree.Nodes[2].Payload.Params.(*kind.MutexParams).Limits = c.limits
		var doc struct {
			Ensembles []struct{ Locks []map[string]any }
		}
		require.NoError(t, json.Unmarshal([]byte(document(status(tree))), &doc))
		lock := doc.Ensembles[0].Locks[1]
		require.Equal(t, "/locks/payments/ledger", lock["path"])
		require.Equal(t, c.want, lock["exceeded"])
		if c.limits.Owner != "" {
			require.Equal(t, c.limits.Owner, lock["owner"])
		}
	}
}

// A contender that waited for an hour and was granted the lock a second ago has held it for a second.
func TestAHoldBeginsWithTheGrant(t *testing.T) {
	tree := liveTree()
	late := kind.Party{Name: "_c_1-lock-0000000001", ID: "late", Session: 1, Since: time.UnixMilli(now - 3_600_000), Held: time.UnixMilli(now - 1_000)}
	ledger := tree.Nodes[2]
	ledger.Live.Usage = &kind.Usage{Holders: []kind.Party{late}}
	shown := text(status(tree), planview.Plan{NowMs: now, Plans: []*plan.Plan{{Changes: []plan.Change{
		{Action: plan.Delete, Addr: ledger.Addr, Path: ledger.Path, Kind: kind.Mutex, Before: ledger, Usage: ledger.Live.Usage}}}}})
	require.NotContains(t, shown, "1h")
	require.Regexp(t, `held by +late +since [0-9-]+T[0-9:]+Z \(1s\) +session 0x1 +connection not asked\n`, shown)
	require.Contains(t, shown, "held by late, since 2027-01-15T08:01:29Z (1s), connection not asked\n")

	noon := time.UnixMilli(now)
	c := recipes.Contender{Since: noon.Add(-time.Hour), Held: noon.Add(-time.Second)}
	lock := func(l kind.Limits, holders, waiters []recipes.Contender) *inspect.Report {
		p := kind.Mutex.New().(*kind.MutexParams)
		p.Limits = l
		return &inspect.Report{Payload: &kind.Payload{Params: p}, Holders: holders, Waiters: waiters}
	}
	limits := kind.Limits{MaxHold: "1m", MaxWait: "1m"}
	require.Empty(t, lockview.Exceeded(lock(limits, []recipes.Contender{c}, nil), noon))
	c.Held = time.Time{}
	over := lockview.Exceeded(lock(limits, []recipes.Contender{c, {}}, []recipes.Contender{c}), noon)
	require.Len(t, over, 2)
	require.Equal(t, lockview.Excess{Limit: "max_wait", Declared: "1m", Age: time.Hour, Times: 60, Who: c}, over[1])
	require.Empty(t, lockview.Exceeded(lock(kind.Limits{MaxHold: "1h"}, []recipes.Contender{c}, nil), noon), "the limit itself is allowed")
}

// orders is a family of ten thousand keys, 150 of them looked at.
func orders() *inspect.Report {
	params := &kind.KeyedParams{Of: "mutex", Common: kind.Common{Limits: kind.Limits{MaxHold: "1m", MaxWait: "1h"}}}
	owner := kind.Owner{Stack: "shop", Addr: "keyed.orders"}
	key := func(name, key string, waiters int, old time.Duration) *inspect.Report {
		in := &inspect.Report{Path: "/locks/orders/" + name, Family: "/locks/orders", Key: key, Kind: kind.Mutex,
			Payload: &kind.Payload{Params: kind.Keyed.Key(params), Owner: owner, State: kind.StateActive},
			Holders: []recipes.Contender{party("/locks/orders/"+name, "A", 1, func(c *recipes.Contender) { c.Since = time.UnixMilli(now).Add(-old) })}}
		for range waiters {
			in.Waiters = append(in.Waiters, party(in.Path, "B", 2))
		}
		return in
	}
	k := &inspect.Keys{InUse: 10_000, Queues: 150, Looked: 150, Waited: 2, Empty: 3,
		Read: []*inspect.Report{key("%2F1", "/1", 0, 3*time.Hour), key("a%1B", "a\x1b", 2, 2*time.Minute), key("b", "b", 0, time.Second)}}
	k.Longest, k.Busiest = k.Read[0], k.Read[1]
	return &inspect.Report{Path: "/locks/orders", Kind: kind.Keyed, Keys: k, Junk: []string{"/locks/orders/lock-0000000001"},
		Payload: &kind.Payload{Params: params, Owner: owner, State: kind.StateActive}}
}

func TestAFamilyIsOneRow(t *testing.T) {
	in := orders()
	key := in.Keys.Busiest
	found := []*inspect.Report{crossed()[2], in}
	of := lockview.LocksOf{Ensemble: "main", Addresses: "zk1:2181", Path: "/locks", Snapshot: &scan.Snapshot{At: time.UnixMilli(now), Locks: found, Waits: inspect.WaitsFor(in.Keys.Read...),
		Sessions: map[int64]*words.Session{1: {ID: 1, Away: true}}, Empty: []scan.Empty{{Path: "/locks/old"}, {Path: "/locks/older", Before: time.UnixMilli(now).UTC()}}}}
	l := lockview.Locks{NowMs: now, Ensembles: []lockview.LocksOf{of}}
	alone := of
	alone.Snapshot = &scan.Snapshot{At: time.UnixMilli(now), Locks: []*inspect.Report{key}, Waits: inspect.WaitsFor(key), Empty: of.Snapshot.Empty[1:]}
	tree := &plan.Tree{Ensemble: "main", Stack: "shop", Root: "/locks", Nodes: []*plan.Node{
		{Path: in.Path, Payload: in.Payload, Live: &plan.Live{}}, {Path: "/locks/pools", Payload: in.Payload, Live: &plan.Live{}}}}
	s := status(tree)
	s.Servers, s.Looks = []string{"zk1:2181"}, []*scan.Snapshot{{Locks: []*inspect.Report{in}}}
	golden(t, "family.txt", text(l, lockview.Locks{NowMs: now, Ensembles: []lockview.LocksOf{alone}}, s))
	golden(t, "family.json", document(l))
}

func TestTheUseOfAFamilySaysWhatWasLookedAt(t *testing.T) {
	for want, k := range map[string]inspect.Keys{
		"no key in use":                     {},
		"1 key in use, 1 with waiters":      {InUse: 1, Queues: 1, Looked: 1, Waited: 1},
		"10,000 keys in use; 150 looked at": {InUse: 10_000, Queues: 150, Looked: 150},
		"10,000 keys in use; 150 looked at, 12 with waiters, 5 left empty, 2 cannot be read":                      {InUse: 10_000, Queues: 150, Looked: 150, Waited: 12, Empty: 5, Closed: 2},
		"1,000,000 keys in use, 12 with waiters; 150 looked at":                                                   {InUse: 1_000_000, Queues: 1_000_000, Looked: 150, Waited: 12},
		"400 keys in use in 100 of 256 directories, the others were not listed yet; 40 looked at, 1 with waiters": {InUse: 400, Queues: 40, Looked: 40, Waited: 1, Listed: 100, Dirs: 256},
	} {
		require.Equal(t, want, lockview.KeysUse(&inspect.Report{Keys: &k}))
	}
}

// pool is a semaphore of 12 permits: gw holds 7 of them, and gw2 waits for 7.
func pool() *plan.Node {
	n := node("semaphore.pool", "/locks/payments/pool", semaphore(12))
	n.Live.Usage = &kind.Usage{Waiters: []kind.Party{
		{Name: "_c_9-lock-0000000009", ID: "gw2", Session: 0x2, Token: 4294967390, Since: time.UnixMilli(now - 30_000), Permits: 7}}}
	for i := range 7 {
		n.Live.Usage.Holders = append(n.Live.Usage.Holders, kind.Party{Name: fmt.Sprintf("_c_%d-lease-%010d", i, i), ID: "gw", Session: 0x1,
			Token: 4294967301, Since: time.UnixMilli(now - 90_000), Permits: 1})
	}
	return n
}

// One holder of seven permits took seven lines, and neither their limit nor the number that a waiter wanted was shown.
func TestOneHolderOfManyPermitsIsOneRow(t *testing.T) {
	tree := &plan.Tree{Ensemble: "main", Root: "/locks", Stack: "s", Nodes: []*plan.Node{pool()}}
	in := &inspect.Report{Path: "/locks/pool", Kind: kind.Semaphore, Payload: pool().Payload,
		Holders: at("/locks/pool", pool().Live.Usage.Holders), Waiters: at("/locks/pool", pool().Live.Usage.Waiters)}
	foreign := *in
	foreign.Path, foreign.Payload = "/locks/foreign", nil
	golden(t, "permits.txt", text(status(tree), locks(in, &foreign)))
}

func TestACheckupShowsEachConditionAndItsNextStep(t *testing.T) {
	holds := check.Condition{Name: "clock", What: "deadlines follow the monotonic clock", Why: "a lease must end in time"}
	unsure := check.Condition{Name: "server version", Verdict: check.Unsure, What: "it is 3.8.0", Why: "releases before 3.9.4 can lose committed writes", Next: "plan an upgrade"}
	fails := check.Condition{Name: "access /locks/a\x1b[31m", Verdict: check.Fails, What: "recipes: node does not exist", Why: "contenders are created in the lock node", Next: "run apply"}
	c := lockview.Checkup{
		{Ensemble: "main", Root: "/locks", Report: checkup.Report{Checked: 2, Locks: []check.Condition{fails}, Cut: true},
			Together: []check.Condition{holds}, Servers: []lockview.CheckupServer{{Server: "zk1:2181", Conditions: []check.Condition{holds, unsure}}, {Server: "zk2:2181", Conditions: []check.Condition{holds}}}},
		{Ensemble: "spare", Root: "/"},
	}
	golden(t, "checkup.txt", text(c))
	require.NotContains(t, text(c), "\x1b", "what servers say is shown safely")
	golden(t, "checkup.json", document(c))
}
