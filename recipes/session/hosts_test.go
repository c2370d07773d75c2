package session

import (
	"cmp"
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestServersAreCompleted(t *testing.T) {
	got, err := parseServers([]string{"a", "b:1234, c ", "::1", "[::1]", "[fe80::2]:99", "10.0.0.1", "a:2181"})
	require.NoError(t, err)
	require.Equal(t, []string{"a:2181", "b:1234", "c:2181", "[::1]:2181", "[fe80::2]:99", "10.0.0.1:2181"}, got)
}

func hostsOf(names []string, resolve func(context.Context, string) ([]string, error)) *hosts {
	return newHosts(context.Background(), names, resolve)
}

// Raw: shouldQuit is looked at only on retryStart; a provider that never says it made a Conn that could not be closed.
func TestRetryStartOncePerPassButNotOnTheFirst(t *testing.T) {
	h := hostsOf([]string{"a:1", "b:1", "c:1"}, nil)
	for pass := range 4 {
		seen := map[string]bool{}
		for i := range 3 {
			server, retryStart := h.Next()
			require.Equal(t, pass > 0 && i == 0, retryStart)
			seen[server] = true
			_, at, first := h.current()
			require.Equal(t, pass, at)
			require.Equal(t, i == 0, first)
		}
		require.Len(t, seen, 3, "each once a pass")
	}
}

func TestRetryStartAlwaysWhenOver(t *testing.T) {
	live, end := context.WithCancel(context.Background())
	h := newHosts(live, []string{"a:1", "b:1"}, nil)
	end()
	for range 5 {
		_, retryStart := h.Next()
		require.True(t, retryStart)
	}
}

func TestLostConnectionStartsWithAnotherServerAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hostsOf([]string{"a:1", "b:1", "c:1"}, nil)
		for range 50 {
			server, _ := h.Next()
			h.Connected()
			time.Sleep(settled)
			next, retryStart := h.Next()
			require.NotEqual(t, server, next)
			require.False(t, retryStart)
		}
	})
}

func TestConnectionThatDoesNotLastCountsAsFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hostsOf([]string{"a:1"}, nil)
		_, retryStart := h.Next()
		require.False(t, retryStart)
		for range 5 {
			h.Connected()
			time.Sleep(settled - 1)
			_, retryStart = h.Next()
			require.True(t, retryStart, "a pause before the next attempt")
		}
	})
}

// go-zookeeper resolves once, and one name that does not resolve fails it as a whole.
func TestNamesAreResolvedOnEachPass(t *testing.T) {
	answers := map[string][]string{"pods": {"10.0.0.1", "10.0.0.2"}}
	h := hostsOf([]string{"pods:2181", "gone:2181", "127.0.0.1:2181"}, func(_ context.Context, host string) ([]string, error) {
		if ips, ok := answers[host]; ok {
			return ips, nil
		}
		return nil, errors.New("no such host")
	})
	pass := func(n int) (all []target) {
		for range n {
			h.Next()
			t, _, _ := h.current()
			all = append(all, t)
		}
		return all
	}
	require.ElementsMatch(t, []target{
		{"pods:2181", "10.0.0.1:2181"}, {"pods:2181", "10.0.0.2:2181"},
		{"gone:2181", "gone:2181"}, {"127.0.0.1:2181", "127.0.0.1:2181"},
	}, pass(4))
	answers["pods"] = []string{"10.0.0.9"}
	require.Contains(t, pass(3), target{"pods:2181", "10.0.0.9:2181"})
}

// Name servers are behind the network that has just cut us off.
func TestAddressesThatWereKnownOutliveTheirNameServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails error
		h := hostsOf([]string{"pod:2181"}, func(ctx context.Context, _ string) ([]string, error) {
			if fails == nil {
				return []string{"10.0.0.1"}, nil
			}
			<-ctx.Done()
			return nil, fails
		})
		h.Next()
		for _, c := range []struct {
			err  error
			most time.Duration
			want string
		}{
			{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, 0, "10.0.0.1:2181"},
			{&net.DNSError{Err: "server misbehaving", IsTemporary: true}, 100 * time.Millisecond, "10.0.0.1:2181"},
			{&net.DNSError{Err: "no such host", IsNotFound: true}, 0, "pod:2181"},
			{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, 0, "pod:2181"},
		} {
			fails = c.err
			h.hurry = func() (time.Duration, bool) { return c.most, c.most > 0 }
			start := time.Now()
			server, _ := h.Next()
			require.Equal(t, c.want, server, c.err)
			require.Equal(t, cmp.Or(c.most, time.Second), time.Since(start), "no longer than can be spared")
		}
	})
}

func TestBudgetLeavesEveryServerItsShare(t *testing.T) {
	h := hostsOf([]string{"a:1", "b:1", "c:1"}, nil)
	h.Next()
	g := &guard{hosts: h, timeout: func() time.Duration { return 18 * time.Second }}
	require.Equal(t, 2*time.Second, g.budget(0), "T/3 for all of them")
	require.Equal(t, 4*time.Second, g.budget(1), "slow networks get more")
	require.Equal(t, 10*time.Second, g.budget(9), "up to 10 s")
	g.limit = time.Second
	require.Equal(t, time.Second, g.budget(0))
	g.limit = 0
	h.hurry = func() (time.Duration, bool) { return time.Second, true }
	require.Equal(t, 2*time.Second, g.budget(9), "a silent server must not take what is left of a lease")
}
