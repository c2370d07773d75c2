package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestServersAreCompleted(t *testing.T) {
	got, err := parseServers([]string{"a", "b:1234, c ", "::1", "[::1]", "[fe80::2]:99", "10.0.0.1", "a:2181"})
	require.NoError(t, err)
	require.Equal(t, []string{"a:2181", "b:1234", "c:2181", "[::1]:2181", "[fe80::2]:99", "10.0.0.1:2181"}, got)
}

// "::1:45005" was refused without a word about brackets, and "::1:2181" was taken for the address 0:0:0:0:0:0:1:2181.
func TestAnIPv6AddressWhosePortIsNotMarkedIsRefused(t *testing.T) {
	for server, want := range map[string]string{
		"::1:45005":            "write [::1]:45005",
		"::1:2181":             "write [::1]:2181, or [::1:2181]:2181 if all of it is the address",
		"fd00::7:5":            "write [fd00::7]:5, or [fd00::7:5]:2181",
		"fe80::1%eth0:2181":    "write [fe80::1%eth0]:2181",
		"1:2:3:4:5:6:7:8:2181": "write [1:2:3:4:5:6:7:8]:2181",
	} {
		_, err := parseServers([]string{server})
		require.ErrorContains(t, err, want)
	}
	got, err := parseServers([]string{"fd00::7:a5", "fd00::7:0", "1:2:3:4:5:6:7:2181", "[::1:2181]", "fd00::5"})
	require.NoError(t, err)
	require.Equal(t, []string{"[fd00::7:a5]:2181", "[fd00::7:0]:2181", "[1:2:3:4:5:6:7:2181]:2181", "[::1:2181]:2181", "[fd00::5]:2181"}, got)
}

func bookOf(resolve func(context.Context, string) ([]string, error), log *journal) *addressBook {
	return &addressBook{resolve: resolve, log: log, known: map[string]resolved{}}
}

func hostsOf(names []string, resolve func(context.Context, string) ([]string, error)) *hosts {
	return newHosts(context.Background(), newRoster(names), bookOf(resolve, newJournal(nil)))
}

func TestEachAddressIsTriedOnceAPass(t *testing.T) {
	h := hostsOf([]string{"a:1", "b:1", "c:1"}, nil)
	for pass := range 4 {
		seen := map[Server]bool{}
		for i := range 3 {
			server, at, first := h.next(0)
			require.Equal(t, pass, at)
			require.Equal(t, i == 0, first)
			require.Equal(t, server, h.current())
			seen[server] = true
		}
		require.Len(t, seen, 3)
	}
}

func TestLostConnectionStartsWithAnotherServerAtOnce(t *testing.T) {
	h := hostsOf([]string{"a:1", "b:1", "c:1"}, nil)
	for range 50 {
		server, _, _ := h.next(0)
		h.restart()
		next, pass, first := h.next(0)
		require.NotEqual(t, server, next)
		require.Zero(t, pass, "no pause")
		require.True(t, first)
	}
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
	pass := func(n int) (all []Server) {
		for range n {
			t, _, _ := h.next(0)
			all = append(all, t)
		}
		return all
	}
	require.ElementsMatch(t, []Server{
		{Name: "pods:2181", Addr: "10.0.0.1:2181"}, {Name: "pods:2181", Addr: "10.0.0.2:2181"},
		{Name: "gone:2181", Addr: "gone:2181"}, {Name: "127.0.0.1:2181", Addr: "127.0.0.1:2181"},
	}, pass(4))
	answers["pods"] = []string{"10.0.0.9"}
	require.Contains(t, pass(3), Server{Name: "pods:2181", Addr: "10.0.0.9:2181"})
}

// Name servers are behind the network that has just cut us off. A headless service of Kubernetes without a ready pod has no
// address for a moment, and its clients forgot those that had worked.
func TestAddressesThatWereKnownOutliveTheirNameServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails error
		var out bytes.Buffer
		log := newJournal(textLogger(&out))
		book := bookOf(func(ctx context.Context, _ string) ([]string, error) {
			if fails == nil {
				return []string{"10.0.0.1"}, nil
			}
			<-ctx.Done()
			return nil, fails
		}, log)
		h := newHosts(t.Context(), newRoster([]string{"pod:2181"}), book)
		h.next(0)
		require.NotContains(t, h.report(), "last addresses")
		for _, c := range []struct {
			err  error
			most time.Duration
			want string
		}{
			{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, 0, "10.0.0.1:2181"},
			{&net.DNSError{Err: "server misbehaving", IsTemporary: true}, 100 * time.Millisecond, "10.0.0.1:2181"},
			{&net.DNSError{Err: "no such host", Name: "pod", IsNotFound: true}, 0, "10.0.0.1:2181"},
		} {
			fails = c.err
			start := time.Now()
			server, _, _ := h.next(c.most)
			require.Equal(t, c.want, server.Addr, c.err)
			require.Equal(t, cmp.Or(c.most, time.Second), time.Since(start), "no longer than can be spared")
		}
		server, _, _ := newHosts(t.Context(), newRoster([]string{"pod:2181"}), book).next(0)
		require.Equal(t, "10.0.0.1:2181", server.Addr, "the next session of the client knows them too")
		require.Contains(t, h.report(), "(lookup pod: no such host; tried at its last addresses)")
		fails = nil
		h.next(0)
		require.NotContains(t, h.report(), "last addresses")
		log.wait()
		require.Equal(t, 1, strings.Count(out.String(), "does not resolve"), "once an outage")
		require.Equal(t, 1, strings.Count(out.String(), "resolves again"))
	})
}

// What a server said before it granted the session was remembered, and a later outage was not logged.
func TestALaterOutageForTheSameReasonIsLoggedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		srv := zktest.Start(t)
		c, s := open(t, srv, func(c *Config) { c.Logger = textLogger(&out) })
		for range 3 {
			srv.RefuseDials(true)
			srv.Disconnect(s.ID())
			time.Sleep(5 * time.Second)
			srv.RefuseDials(false)
			time.Sleep(5 * time.Second)
			require.Equal(t, "zk:2181: it granted the session", s.hosts.report())
		}
		c.log.wait()
		require.Equal(t, 3, strings.Count(out.String(), "the connection ended"), out.String())
		require.Equal(t, 3*2, strings.Count(out.String(), "no connection"), "and why there is no other, once an outage")
	})
}

func TestBudgetLeavesEveryServerItsShare(t *testing.T) {
	c, err := newClient(Config{Servers: []string{"a", "b", "c"}, SessionTimeout: 18 * time.Second, ConnectTimeout: 5 * time.Second / 4}, seam.Seams{})
	require.NoError(t, err)
	defer c.end()
	s := newSession(c)
	s.hosts = hostsOf(c.servers.list(), nil)
	s.hosts.next(0)
	require.Equal(t, time.Second, s.budget(0), "Dial waits")
	s.id.Store(7)
	require.Equal(t, 2*time.Second, s.budget(0), "T/3 for all of them")
	require.Equal(t, 4*time.Second, s.budget(1), "slow networks get more")
	require.Equal(t, 10*time.Second, s.budget(9), "up to 10 s")
	s.holds = []*held{{path: "/a"}}
	require.Equal(t, 2*time.Second, s.budget(9), "a silent server must not take what is left of a lease")
}
