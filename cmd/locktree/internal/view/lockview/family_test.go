package lockview_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/inspect/words"
	"github.com/locktree/locktree/recipes/kind"
)

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
	alone.Snapshot = &scan.Snapshot{At: time.UnixMilli(now), Locks: []*inspect.Report{key}, Waits: inspect.WaitsFor(key), Empty: of.Empty[1:]}
	tree := &plan.Tree{Ensemble: "main", Stack: "shop", Root: "/locks", Nodes: []*plan.Node{
		{Path: in.Path, Payload: in.Payload, Live: &plan.Live{}}, {Path: "/locks/pools", Payload: in.Payload, Live: &plan.Live{}}}}
	s := status(tree)
	s.Servers, s.Looks = []string{"zk1:2181"}, []*scan.Snapshot{{Locks: []*inspect.Report{in}}}
	golden(t, "family.txt", text(l, lockview.Locks{NowMs: now, Ensembles: []lockview.LocksOf{alone}}, s))
	golden(t, "family.json", document(t, l))
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
