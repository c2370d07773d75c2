package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/check"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/inspect/words"
	"github.com/locktree/locktree/recipes/kind"
)

func TestConditionsOfAnEnsemble(t *testing.T) {
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	holder := func(session int64, token uint64, age time.Duration) inspect.Contender {
		return inspect.Contender{Session: session, Token: token, Since: at.Add(-age), Data: []byte(`{"id":"a","since":"2026-11-22T09:00:00Z"}`)}
	}
	lock := func(holders ...inspect.Contender) *inspect.Report {
		return &inspect.Report{Kind: kind.Mutex, Holders: holders}
	}
	foreign := holder(4, 0x5_00000200, time.Hour)
	foreign.Data = []byte("10.0.0.1")
	well := func() *scan.Snapshot {
		return &scan.Snapshot{
			At: at, Zxid: 0x5_80000000, Dump: true, Servers: []words.Server{{Connections: 3}, {Connections: 2}},
			Sessions: map[int64]*words.Session{
				1: {ID: 1, Address: "10.0.0.7:1", Timeout: 30 * time.Second, Nodes: 2, Bytes: 100}, 2: {ID: 2, Address: "10.0.0.7:2", Timeout: 10 * time.Second},
				3: {ID: 3, Address: "0:0:0:0:0:0:0:1:7"}, 4: {ID: 4, Timeout: time.Second},
			},
			// The oldest contender is of the previous epoch, which does not tell this one's rate.
			Locks: []*inspect.Report{lock(holder(1, 0x4_00000001, 90*time.Hour)), lock(holder(1, 0x5_7fffffff-3600*100+1, time.Hour)), lock(holder(2, 0x5_7fffffff, time.Second)), lock(foreign)},
		}
	}
	for name, c := range map[string]struct {
		change func(*scan.Snapshot)
		at     int
		what   string
		unsure bool
		next   string
	}{
		"sizes":       {nil, 0, "the largest session is 0x1 of 10.0.0.7:1, with 2 ephemeral nodes, 108 bytes of paths", false, ""},
		"a large one": {func(s *scan.Snapshot) { s.Sessions[2].Nodes, s.Sessions[2].Bytes = 9000, 600_000 }, 0, "the largest session is 0x2 of 10.0.0.7:2, with 9000 ephemeral nodes, 636000 bytes of paths", true, "spread its nodes"},
		"no nodes":    {func(s *scan.Snapshot) { s.Sessions = nil }, 0, "no session owns a node", false, ""},
		"no dump":     {func(s *scan.Snapshot) { s.Dump = false }, 0, "how many ephemeral nodes each session owns is not known", true, "add dump to 4lw.commands.whitelist"},
		"connections": {nil, 1, "there are 5; the most are from 10.0.0.7 (2), 0:0:0:0:0:0:0:1 (1)", false, ""},
		"no cons": {func(s *scan.Snapshot) {
			s.Unasked = []words.Unasked{{Server: "zk2:2181", Why: "refused", Forbids: true}}
		}, 1, "the sessions of some servers are not known: zk2:2181: refused", true, "add cons to 4lw.commands.whitelist"},
		"ids":               {nil, 2, "50% of this epoch's are used; the rest lasts 248.6 days at the rate of the last 1h0m0s", false, ""},
		"ids end soon":      {func(s *scan.Snapshot) { s.Zxid = 0x5_ffff0000 }, 2, "100% of this epoch's are used; the rest lasts 0.0 days at the rate of the last 1h0m0s", true, "restart the leader"},
		"no rate":           {func(s *scan.Snapshot) { s.Locks = s.Locks[:1] }, 2, "50% of this epoch's are used; how long the rest will last is not known, because no holder or waiter of this epoch is a minute old", false, ""},
		"no rate, near end": {func(s *scan.Snapshot) { s.Locks, s.Zxid = nil, 0x5_f0000000 }, 2, "94% of this epoch's are used; how long the rest will last is not known, because no holder or waiter of this epoch is a minute old", true, "restart the leader"},
	} {
		t.Run(name, func(t *testing.T) {
			snap := well()
			if name == "ids" || name == "ids end soon" {
				snap.Locks = snap.Locks[:3]
			}
			if c.change != nil {
				c.change(snap)
			}
			k := check.Ensemble(snap)[c.at]
			require.Equal(t, c.what, k.What)
			require.Equal(t, c.unsure, k.Verdict == check.Unsure)
			require.Contains(t, k.Next, c.next)
			require.NotEqual(t, check.Fails, k.Verdict)
		})
	}
}
