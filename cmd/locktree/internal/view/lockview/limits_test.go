package lockview_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

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
		require.NoError(t, json.Unmarshal([]byte(document(t, status(tree))), &doc))
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
