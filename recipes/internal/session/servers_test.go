package session

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/zktest"
)

// places dials servers of one ensemble by name, and notes which.
type places struct {
	mu    sync.Mutex
	at    map[string]func(ctx context.Context, network, address string) (net.Conn, error)
	tried []string
}

func (n *places) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	n.tried = append(n.tried, address)
	n.mu.Unlock()
	if dial := n.at[address]; dial != nil {
		return dial(ctx, network, address)
	}
	return nil, errors.New("connection refused")
}

// openWith is open with seams.
func openWith(t *testing.T, seams seam.Seams, cfg Config) (*Client, *Session) {
	t.Helper()
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = 12 * time.Second
	}
	c, err := Dial(seam.With(t.Context(), seams), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	return c, s
}

func longest(most time.Duration) time.Duration { return most }

// CURATOR-7: a session was lost when the list of servers changed.
func TestASessionLeavesAServerThatIsNotInTheListAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		n := &places{}
		n.at = map[string]func(context.Context, string, string) (net.Conn, error){"old:2181": srv.DialContext, "new:2181": srv.Replica().DialContext}
		c, s := openWith(t, seam.Seams{Jitter: longest}, Config{Servers: []string{"old"}, Dialer: n.dial})
		mine := s.mustCreate(t, "/mine", zk.FlagEphemeral)
		release, err := s.Hold(t.Context(), func(err error) { t.Errorf("lost: %v", err) }, mine)
		require.NoError(t, err)
		time.Sleep(time.Minute)

		require.ErrorContains(t, c.SetServers([]string{"new", "zk://x"}), "zk://x")
		require.NoError(t, c.SetServers([]string{"other", "old"}))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"old:2181"}, n.tried, "the server is still named, and a wrong list is none")

		id, began := s.ID(), time.Now()
		require.NoError(t, c.SetServers([]string{"new"}))
		synctest.Wait()
		_, _, err = s.Get(t.Context(), mine)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(began), time.Second, "a twelfth of the timeout")
		require.Equal(t, []string{"old:2181", "new:2181"}, n.tried)
		require.Equal(t, "new:2181", s.Stats().Server)
		require.Equal(t, id, s.ID())
		time.Sleep(time.Minute)
		require.NoError(t, s.Err())

		release()
		srv.Expire(id)
		<-s.Done()
		next, err := c.Session(t.Context())
		require.NoError(t, err)
		require.Equal(t, "new:2181", next.Stats().Server, "and so does the next session")
	})
}

// A list that came while the session was dialled was not obeyed by it.
func TestASessionThatIsBeingDialledFindsTheNewList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		n := &places{at: map[string]func(context.Context, string, string) (net.Conn, error){"old:2181": srv.DialContext, "new:2181": srv.DialContext}}
		c, s := openWith(t, seam.Seams{}, Config{Servers: []string{"old"}, Dialer: n.dial, Auth: []Auth{{"digest", "a:b"}}})
		held := srv.Inject(zktest.On("auth"), zktest.Hold)
		srv.Expire(s.ID())
		<-s.Done()
		got := make(chan *Session)
		go func() {
			next, _ := c.Session(context.Background())
			got <- next
		}()
		<-held.Hit()
		require.NoError(t, c.SetServers([]string{"new"}))
		held.Release()
		next := <-got
		time.Sleep(next.Timeout())
		require.Equal(t, "new:2181", next.Stats().Server)
		require.NoError(t, next.Err())
	})
}

// What is under way has an outcome: a change of the list is no reason not to know it.
func TestRequestsUnderWayAreAnsweredBeforeASessionLeavesAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		n := &places{at: map[string]func(context.Context, string, string) (net.Conn, error){"old:2181": srv.DialContext, "new:2181": srv.DialContext}}
		c, s := openWith(t, seam.Seams{}, Config{Servers: []string{"old"}, Dialer: n.dial})
		time.Sleep(time.Minute)
		for _, slow := range []struct {
			by    time.Duration
			fails bool
		}{{900 * time.Millisecond, false}, {1100 * time.Millisecond, true}} {
			srv.Inject(zktest.Once(zktest.On("create")), zktest.Delay(slow.by))
			created := make(chan error, 1)
			go func() {
				_, err := s.Create(t.Context(), "/a-", nil, zk.FlagSequence, openACL)
				created <- err
			}()
			synctest.Wait()
			list := []string{"new"}
			if s.Stats().Server == "new:2181" {
				list = []string{"old"}
			}
			require.NoError(t, c.SetServers(list))
			synctest.Wait()
			_, _, err := s.Get(t.Context(), "/") // on the next connection
			require.NoError(t, err)
			require.Equal(t, list[0]+":2181", s.Stats().Server)
			if err := <-created; slow.fails {
				require.Equal(t, OutcomeUnknown, OutcomeOf(err), "nobody waits longer than a second")
				require.ErrorContains(t, err, "not in the list any more")
			} else {
				require.NoError(t, err)
			}
			time.Sleep(time.Minute)
		}
	})
}

// serviceOf answers lookups from a table of records, which a test changes.
func serviceOf(records *atomic.Pointer[[]*net.SRV]) func(context.Context, string) ([]*net.SRV, error) {
	return func(_ context.Context, name string) ([]*net.SRV, error) {
		if all := records.Load(); all != nil {
			return *all, nil
		}
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
}

func TestServersOfSRVRecordsAreTriedByPriority(t *testing.T) {
	var records atomic.Pointer[[]*net.SRV]
	records.Store(&[]*net.SRV{{Target: "far.example.com.", Port: 2181, Priority: 20}, {Target: "b.example.com.", Port: 2182, Priority: 10}, {Target: "a.example.com.", Port: 2181, Priority: 10}, {Target: "."}})
	book := bookOf(func(_ context.Context, host string) ([]string, error) {
		return map[string][]string{"a.example.com": {"10.0.0.1", "fd00::1"}, "b.example.com": {"10.0.0.2"}, "far.example.com": {"10.9.0.1"}}[host], nil
	}, newJournal(nil))
	book.services = serviceOf(&records)
	const entry = "dns-srv://_zookeeper._tcp.example.com"
	names, err := parseServers([]string{entry})
	require.NoError(t, err)
	h := newHosts(t.Context(), newRoster(names), book)
	first := map[string]bool{}
	for range 50 {
		var pass []string
		for range 4 {
			server, _, _ := h.next(0)
			pass = append(pass, server.Addr)
			require.Equal(t, entry, server.Entry)
		}
		require.ElementsMatch(t, []string{"10.0.0.1:2181", "[fd00::1]:2181", "10.0.0.2:2182"}, pass[:3])
		require.Equal(t, "10.9.0.1:2181", pass[3])
		first[pass[0]] = true
	}
	require.Len(t, first, 3, "clients spread over those of one priority")
	require.Contains(t, h.report(), "a.example.com:2181: not tried yet; ")

	records.Store(nil) // the name servers are behind the network that has just broken
	h.restart()
	server, _, _ := h.next(0)
	require.NotEmpty(t, server.Addr)
	require.Contains(t, h.report(), "(lookup _zookeeper._tcp.example.com: no such host; tried at its last addresses)")

	records.Store(&[]*net.SRV{{Target: "new.example.com.", Port: 2181}})
	h.restart()
	server, _, _ = h.next(0)
	require.Equal(t, "new.example.com:2181", server.Name, "each pass asks again")

	for _, wrong := range []string{"dns-srv://", "dns-srv://a/b", "dns-srv://a:2181", "srv://a"} {
		_, err := parseServers([]string{wrong})
		require.ErrorContains(t, err, "dns-srv://")
	}
}

func TestSRVRecordsThatAreNotThereAreTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var records atomic.Pointer[[]*net.SRV]
		cfg := Config{Servers: []string{"dns-srv://_zookeeper._tcp.example.com"}, Dialer: zktest.Start(t).DialContext}
		_, err := Dial(seam.With(t.Context(), seam.Seams{Services: serviceOf(&records)}), cfg)
		require.ErrorIs(t, err, ErrUnreachable)
		require.ErrorContains(t, err, "dns-srv://_zookeeper._tcp.example.com: lookup _zookeeper._tcp.example.com: no such host")
		records.Store(new([]*net.SRV))
		_, err = Dial(seam.With(t.Context(), seam.Seams{Services: serviceOf(&records)}), cfg)
		require.ErrorContains(t, err, "there are no SRV records of that name")
	})
}

// Nobody signs what name servers say.
func TestAServerOfSRVRecordsHasToBeInTheirDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var records atomic.Pointer[[]*net.SRV]
		records.Store(&[]*net.SRV{{Target: "zk.example.com.evil.org.", Port: 2181}})
		n := &places{}
		dial := func(config *tls.Config) error {
			_, err := Dial(seam.With(t.Context(), seam.Seams{Services: serviceOf(&records)}), Config{Servers: []string{"dns-srv://_zookeeper._tcp.example.com"}, Dialer: n.dial, TLS: config})
			return err
		}
		require.ErrorContains(t, dial(&tls.Config{}), "not in example.com")
		require.Empty(t, n.tried)
		require.ErrorContains(t, dial(&tls.Config{ServerName: "zk.example.com"}), "connection refused")
		require.NotEmpty(t, n.tried)
		records.Store(&[]*net.SRV{{Target: "ZK1.Example.com.", Port: 2181}})
		require.ErrorContains(t, dial(&tls.Config{}), "connection refused")
	})
}

func TestAServerIsReachedByIPv6(t *testing.T) {
	srv := zktest.Start(t)
	addr, err := srv.Listen("[::1]:0")
	require.NoError(t, err)
	_, port, _ := net.SplitHostPort(addr)
	for name, cfg := range map[string]Config{
		"by address": {Servers: []string{addr}},
		"by name":    {Servers: []string{"zk.example.com:" + port}},
	} {
		t.Run(name, func(t *testing.T) {
			both := func(context.Context, string) ([]string, error) { return []string{"::1", "fd00::dead"}, nil }
			if name == "by name" { // one of its addresses leads nowhere
				cfg.Dialer = (&net.Dialer{}).DialContext
			}
			_, s := openWith(t, seam.Seams{Resolve: both}, cfg)
			require.Equal(t, addr, s.At().Addr)
			_, _, err := s.Get(t.Context(), "/")
			require.NoError(t, err)
		})
	}
}

// When a server ends all its connections, their clients came back in one moment.
func TestTheFirstAttemptAfterAConnectionWaitsUpToATwelfthOfTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		var waits []time.Duration
		_, s := openWith(t, seam.Seams{Jitter: func(most time.Duration) time.Duration {
			waits = append(waits, most)
			return most / 2
		}}, Config{Servers: []string{"zk"}, Dialer: srv.DialContext})
		time.Sleep(time.Minute)
		cut := time.Now()
		srv.Disconnect(s.ID())
		_, _, _ = s.Get(t.Context(), "/") // it goes out on the old connection, or waits for the new one
		_, _, err := s.Get(t.Context(), "/")
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []time.Duration{time.Second}, waits)
		require.Equal(t, time.Second/2, time.Since(cut))
		time.Sleep(time.Minute)
		require.NoError(t, s.Err())
	})
}

// Whoever holds something does not wait beyond the moment when its next heartbeat is due, and nobody beyond that at which a silent
// connection is given up: from then on the time counts that a lease, or a session, has left.
func TestNoLeaseEndsBecauseTheFirstAttemptWaits(t *testing.T) {
	const timeout = 12 * time.Second
	for step := range 48 {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.Start(t)
			var waits []time.Duration
			_, s := openWith(t, seam.Seams{Jitter: func(most time.Duration) time.Duration {
				waits = append(waits, most)
				return most
			}}, Config{Servers: []string{"zk"}, Dialer: srv.DialContext})
			mine := s.mustCreate(t, "/mine", zk.FlagEphemeral)
			release, err := s.Hold(t.Context(), func(err error) { t.Errorf("lost: %v", err) }, mine)
			require.NoError(t, err)
			defer release()
			time.Sleep(time.Minute + timeout*time.Duration(step)/6/48) // anywhere between two heartbeats
			synctest.Wait()                                            // for the one that may be due now
			due := s.Deadline().Add(timeout/6 - timeout/2)
			srv.Disconnect(s.ID())
			synctest.Wait()
			require.Len(t, waits, 1)
			require.LessOrEqual(t, waits[0], timeout/12)
			require.False(t, time.Now().Add(waits[0]).After(due), "step %d", step)
			require.Equal(t, min(timeout/12, max(0, time.Until(due))), waits[0], "step %d", step)
			time.Sleep(time.Minute)
			require.NoError(t, s.Err())
		})
	}
}

func TestASilentConnectionIsFollowedByTheNextAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		var waits []time.Duration
		_, s := openWith(t, seam.Seams{Jitter: func(most time.Duration) time.Duration {
			waits = append(waits, most)
			return most
		}}, Config{Servers: []string{"zk"}, Dialer: srv.DialContext})
		time.Sleep(time.Minute)
		silent, gone := srv.Inject(zktest.On("ping"), zktest.DropRequest), s.Changed()
		<-gone
		synctest.Wait()
		silent.Remove()
		require.Equal(t, []time.Duration{0}, waits, "it has had 2T/3 of its time")
		require.NoError(t, s.Err())
	})
}
