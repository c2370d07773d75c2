//go:build linux

package scan_test

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect/check"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// On an ensemble of three, every server shows the holder, with the address that another server knows and the end of the session that the
// leader knows. A holder without its program is first away, and then gone.
func TestAnEnsembleOfThree(t *testing.T) {
	const timeout = 20 * time.Second // a session survives a machine that stops for seconds
	servers := realzk.StartEnsemble(t, 3, realzk.Options{TickTime: 500 * time.Millisecond, Config: map[string]string{"maxSessionTimeout": "60000", "syncLimit": "40"}})
	dial := func(readOnly bool, sessionTimeout time.Duration, addrs ...string) *session.Client {
		c, err := session.Dial(t.Context(), session.Config{Servers: addrs, ReadOnly: readOnly, SessionTimeout: sessionTimeout, ConnectTimeout: time.Minute})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	owner := func(addr, path string) *session.Session {
		s, err := dial(false, timeout, addr).Session(t.Context())
		require.NoError(t, err)
		if stat, err := s.Exists(t.Context(), "/jobs"); err == nil && stat == nil {
			_, err = s.Create(t.Context(), "/jobs", nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		_, err = s.Create(t.Context(), path, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		return s
	}
	all := make([]string, len(servers))
	for i, s := range servers {
		all[i] = s.Addr
		owner(s.Addr, "/jobs/lock-")
	}
	looker := dial(true, 30*time.Second, all...)
	s := scan.New(looker, scan.Options{Prefix: "/jobs"})
	snap := lookOnce(t, s)
	until := func(what string, there func() bool) {
		for deadline := time.Now().Add(5 * time.Minute); !there(); time.Sleep(100 * time.Millisecond) { // servers notify no client of it
			require.True(t, time.Now().Before(deadline), what)
			snap = lookOnce(t, s)
		}
	}
	elections := regexp.MustCompile(`elections that it has seen since it started: [1-9]\d*, the slowest took [1-9]`)
	until("the server tells of elections", func() bool {
		found, err := check.Client(t.Context(), looker)
		require.NoError(t, err)
		lease := slices.IndexFunc(found, func(k check.Condition) bool { return k.Name == "lease" })
		return elections.MatchString(found[lease].What)
	})
	modes := map[string]int{}
	until("each server answers, and knows each session", func() bool {
		clear(modes)
		for _, at := range snap.Servers {
			modes[at.Mode]++
		}
		if !snap.Dump || len(snap.Unasked) > 0 || modes["leader"] != 1 || modes["follower"] != 2 || len(snap.Locks[0].Waiters) != 2 {
			return false
		}
		for _, c := range append(snap.Locks[0].Waiters, snap.Locks[0].Holders...) {
			if x := snap.Sessions[c.Session]; x.Address == "" || x.Expires.IsZero() || x.Away {
				return false
			}
		}
		return true
	})
	for _, at := range snap.Servers {
		require.GreaterOrEqual(t, at.Connections, 1, at.Name)
	}
	for _, c := range append(snap.Locks[0].Waiters, snap.Locks[0].Holders...) {
		x := snap.Sessions[c.Session]
		require.Equal(t, timeout, x.Timeout)
		// Expires is by this machine's clock, not a leader's in another zone. So its distance from snap.At is at most the session's timeout,
		// a tick, and a third of the timeout of the client that looks.
		require.Less(t, x.Expires.Sub(snap.At).Abs(), time.Minute)
	}

	// The client knows one server: this ensemble's configuration does not have the others' addresses for clients.
	one, err := scan.Look(t.Context(), dial(true, 30*time.Second, all[0]), scan.Options{Prefix: "/jobs"})
	require.NoError(t, err)
	require.Equal(t, []string{"a server on 127.0.0.1", "a server on 127.0.0.1"}, []string{one.Unasked[0].Server, one.Unasked[1].Server})
	for id, x := range one.Sessions {
		require.False(t, x.Away, "%#x", id)
	}

	// A follower is killed, and the others lose sight of its client.
	for _, at := range snap.Servers {
		for _, srv := range servers {
			if at.Name == srv.Addr && at.Mode == "follower" && !at.Here && modes["follower"] == 2 {
				modes["follower"]--
				srv.Kill()
			}
		}
	}
	until("its session expires, and its contender goes", func() bool { return len(snap.Locks) > 0 && len(snap.Locks[0].Waiters) == 1 })
}
