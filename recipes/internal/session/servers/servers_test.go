package servers

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestServersAreCompleted(t *testing.T) {
	got, err := Parse([]string{"a", "b:1234, c ", "::1", "[::1]", "[fe80::2]:99", "10.0.0.1", "a:2181"})
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
		_, err := Parse([]string{server})
		require.ErrorContains(t, err, want)
	}
	got, err := Parse([]string{"fd00::7:a5", "fd00::7:0", "1:2:3:4:5:6:7:2181", "[::1:2181]", "fd00::5"})
	require.NoError(t, err)
	require.Equal(t, []string{"[fd00::7:a5]:2181", "[fd00::7:0]:2181", "[1:2:3:4:5:6:7:2181]:2181", "[::1:2181]:2181", "[fd00::5]:2181"}, got)
}

func hostsOf(names []string, resolve func(context.Context, string) ([]string, error)) *Rotation {
	return NewRotation(context.Background(), NewRoster(names), NewBook(resolve, nil, func(slog.Level, string, ...any) {}))
}

func TestEachAddressIsTriedOnceAPass(t *testing.T) {
	h := hostsOf([]string{"a:1", "b:1", "c:1"}, nil)
	for pass := range 4 {
		seen := map[Server]bool{}
		for i := range 3 {
			server, at, first := h.Next(0)
			require.Equal(t, pass, at)
			require.Equal(t, i == 0, first)
			require.Equal(t, server, h.Current())
			seen[server] = true
		}
		require.Len(t, seen, 3)
	}
}

func TestLostConnectionStartsWithAnotherServerAtOnce(t *testing.T) {
	h := hostsOf([]string{"a:1", "b:1", "c:1"}, nil)
	for range 50 {
		server, _, _ := h.Next(0)
		h.Restart()
		next, pass, first := h.Next(0)
		require.NotEqual(t, server, next)
		require.Zero(t, pass, "no pause")
		require.True(t, first)
	}
}

// go-zookeeper resolves names once, and fails as a whole if one name does not resolve.
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
			t, _, _ := h.Next(0)
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

// Name servers are behind the network that has just cut us off. A headless service of Kubernetes without a ready pod has no address for a
// moment, and its clients forgot the addresses that had worked.
func TestAddressesThatWereKnownOutliveTheirNameServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails error
		var lines []string
		log := func(_ slog.Level, text string, _ ...any) { lines = append(lines, text) }
		book := NewBook(func(ctx context.Context, _ string) ([]string, error) {
			if fails == nil {
				return []string{"10.0.0.1"}, nil
			}
			<-ctx.Done()
			return nil, fails
		}, nil, log)
		h := NewRotation(t.Context(), NewRoster([]string{"pod:2181"}), book)
		h.Next(0)
		require.NotContains(t, h.Report(), "last addresses")
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
			server, _, _ := h.Next(c.most)
			require.Equal(t, c.want, server.Addr, c.err)
			require.Equal(t, cmp.Or(c.most, time.Second), time.Since(start), "no longer than can be spared")
		}
		server, _, _ := NewRotation(t.Context(), NewRoster([]string{"pod:2181"}), book).Next(0)
		require.Equal(t, "10.0.0.1:2181", server.Addr, "the next session of the client knows them too")
		require.Contains(t, h.Report(), "(lookup pod: no such host; tried at its last addresses)")
		fails = nil
		h.Next(0)
		require.NotContains(t, h.Report(), "last addresses")
		require.Equal(t, []string{"a name does not resolve; the addresses that it had last are tried", "a name resolves again"}, lines, "once an outage")
	})
}

func TestServersOfSRVRecordsAreTriedByPriority(t *testing.T) {
	var records atomic.Pointer[[]*net.SRV]
	records.Store(&[]*net.SRV{{Target: "far.example.com.", Port: 2181, Priority: 20}, {Target: "b.example.com.", Port: 2182, Priority: 10}, {Target: "a.example.com.", Port: 2181, Priority: 10}, {Target: "."}})
	book := NewBook(func(_ context.Context, host string) ([]string, error) {
		return map[string][]string{"a.example.com": {"10.0.0.1", "fd00::1"}, "b.example.com": {"10.0.0.2"}, "far.example.com": {"10.9.0.1"}}[host], nil
	}, func(_ context.Context, name string) ([]*net.SRV, error) {
		if all := records.Load(); all != nil {
			return *all, nil
		}
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}, func(slog.Level, string, ...any) {})
	const entry = "dns-srv://_zookeeper._tcp.example.com"
	names, err := Parse([]string{entry})
	require.NoError(t, err)
	h := NewRotation(t.Context(), NewRoster(names), book)
	first := map[string]bool{}
	for range 50 {
		var pass []string
		for range 4 {
			server, _, _ := h.Next(0)
			pass = append(pass, server.Addr)
			require.Equal(t, entry, server.Entry)
		}
		require.ElementsMatch(t, []string{"10.0.0.1:2181", "[fd00::1]:2181", "10.0.0.2:2182"}, pass[:3])
		require.Equal(t, "10.9.0.1:2181", pass[3])
		first[pass[0]] = true
	}
	require.Len(t, first, 3, "clients spread over those of one priority")
	require.Contains(t, h.Report(), "a.example.com:2181: not tried yet; ")

	records.Store(nil) // the name servers are behind the network that has just broken
	h.Restart()
	server, _, _ := h.Next(0)
	require.NotEmpty(t, server.Addr)
	require.Contains(t, h.Report(), "(lookup _zookeeper._tcp.example.com: no such host; tried at its last addresses)")

	records.Store(&[]*net.SRV{{Target: "new.example.com.", Port: 2181}})
	h.Restart()
	server, _, _ = h.Next(0)
	require.Equal(t, "new.example.com:2181", server.Name, "each pass asks again")

	for _, wrong := range []string{"dns-srv://", "dns-srv://a/b", "dns-srv://a:2181", "srv://a"} {
		_, err := Parse([]string{wrong})
		require.ErrorContains(t, err, "dns-srv://")
	}
}
