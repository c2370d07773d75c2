package session

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/internal/session/servers"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// places dials servers of one ensemble by name, and notes the names.
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
	s := c.mustSession(t)
	return c, s
}

// pausing opens a session that pauses for the longest time it may, divided by part. waits collects these longest times.
func pausing(t *testing.T, part time.Duration) (srv *zktest.Server, s *Session, waits *[]time.Duration) {
	srv, waits = zktest.Start(t), new([]time.Duration)
	_, s = openWith(t, seam.Seams{Jitter: func(most time.Duration) time.Duration {
		*waits = append(*waits, most)
		return most / part
	}}, Config{Servers: []string{"zk"}, Dialer: srv.DialContext})
	return srv, s, waits
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
		release := s.mustHold(t, func(err error) { t.Errorf("lost: %v", err) }, mine)
		time.Sleep(time.Minute)

		require.ErrorContains(t, c.SetServers([]string{"new", "zk://x"}), "zk://x")
		require.NoError(t, c.SetServers([]string{"other", "old"}))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"old:2181"}, n.tried, "the server is still named, and a wrong list is none")

		id, began := s.ID(), time.Now()
		require.NoError(t, c.SetServers([]string{"new"}))
		synctest.Wait()
		s.mustRead(t, mine)
		require.LessOrEqual(t, time.Since(began), time.Second, "a twelfth of the timeout")
		require.Equal(t, []string{"old:2181", "new:2181"}, n.tried)
		require.Equal(t, "new:2181", s.Stats().Server)
		require.Equal(t, id, s.ID())
		time.Sleep(time.Minute)
		require.NoError(t, s.Err())

		release()
		srv.Expire(id)
		<-s.Done()
		next := c.mustSession(t)
		require.Equal(t, "new:2181", next.Stats().Server, "and so does the next session")
	})
}

// A session did not obey a list that came while it was being dialled.
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

// A change of the list does not leave the outcome of a request under way unknown.
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
			created := going(func() error { return errOf(s.Create(t.Context(), "/a-", nil, zk.FlagSequence, openACL)) })
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

// The answers of name servers are not signed.
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
		"by address": {Servers: []string{addr}, SessionTimeout: 40 * time.Second, ConnectTimeout: hostile.Patience},
		"by name":    {Servers: []string{"zk.example.com:" + port}, SessionTimeout: 40 * time.Second, ConnectTimeout: hostile.Patience},
	} {
		t.Run(name, func(t *testing.T) {
			both := func(context.Context, string) ([]string, error) { return []string{"::1", "127.0.0.77"}, nil }
			if name == "by name" { // one of its addresses leads nowhere
				cfg.Dialer = (&net.Dialer{}).DialContext
			}
			_, s := openWith(t, seam.Seams{Resolve: both}, cfg)
			require.Equal(t, addr, s.At().Addr)
			s.mustRead(t, "/")
		})
	}
}

// A session that holds something does not wait beyond its next heartbeat. No session waits beyond the end of a silent connection. From
// then on, a pause uses up the time that the lease or the session has left.
func TestNoLeaseEndsBecauseTheFirstAttemptWaits(t *testing.T) {
	const timeout = 12 * time.Second
	for step := range 48 {
		synctest.Test(t, func(t *testing.T) {
			srv, s, waits := pausing(t, 1)
			mine := s.mustCreate(t, "/mine", zk.FlagEphemeral)
			release := s.mustHold(t, func(err error) { t.Errorf("lost: %v", err) }, mine)
			defer release()
			time.Sleep(time.Minute + timeout*time.Duration(step)/6/48) // anywhere between two heartbeats
			synctest.Wait()                                            // for the heartbeat that may be due now
			due := s.Deadline().Add(timeout/6 - timeout/2)
			srv.Disconnect(s.ID())
			synctest.Wait()
			require.Len(t, *waits, 1)
			require.LessOrEqual(t, (*waits)[0], timeout/12)
			require.False(t, time.Now().Add((*waits)[0]).After(due), "step %d", step)
			require.Equal(t, min(timeout/12, max(0, time.Until(due))), (*waits)[0], "step %d", step)
			time.Sleep(time.Minute)
			require.NoError(t, s.Err())
		})
	}
}

func TestASilentConnectionIsFollowedByTheNextAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, s, waits := pausing(t, 1)
		time.Sleep(time.Minute)
		silent, gone := srv.Inject(zktest.On("ping"), zktest.DropRequest), s.Changed()
		<-gone
		synctest.Wait()
		silent.Remove()
		require.Equal(t, []time.Duration{0}, *waits, "it has had 2T/3 of its time")
		require.NoError(t, s.Err())
	})
}

// A server's failure before the grant was remembered, so a later outage with the same cause was not logged.
func TestALaterOutageForTheSameReasonIsLoggedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		srv := zktest.Start(t)
		c, s := open(t, srv, func(c *Config) { c.Logger = textLogger(&out) })
		for range 3 {
			cutOff(srv)
			time.Sleep(5 * time.Second)
			srv.RefuseDials(false)
			time.Sleep(5 * time.Second)
			require.Equal(t, "zk:2181: it granted the session", s.hosts.Report())
		}
		c.log.Wait()
		require.Equal(t, 3, strings.Count(out.String(), "the connection ended"), out.String())
		require.Equal(t, 3*2, strings.Count(out.String(), "no connection"), "and why there is no other, once an outage")
	})
}

func TestBudgetLeavesEveryServerItsShare(t *testing.T) {
	c, err := newClient(Config{Servers: []string{"a", "b", "c"}, SessionTimeout: 18 * time.Second, ConnectTimeout: 5 * time.Second / 4}, seam.Seams{})
	require.NoError(t, err)
	defer c.end()
	s := newSession(c)
	s.hosts = servers.NewRotation(t.Context(), c.servers, c.book)
	s.hosts.Next(0)
	require.Equal(t, time.Second, s.budget(0), "Dial waits")
	s.id.Store(7)
	s.move(StateActive)
	require.Equal(t, 2*time.Second, s.budget(0), "T/3 for all of them")
	require.Equal(t, 4*time.Second, s.budget(1), "slow networks get more")
	require.Equal(t, 10*time.Second, s.budget(9), "up to 10 s")
	s.holds = []*heldThing{{path: "/a"}}
	require.Equal(t, 2*time.Second, s.budget(9), "a silent server must not take what is left of a lease")
}

// A follower cut off from its leader answers pings and reads. Measured raw, two clients believed for 5.82 s that they held one lock.
func TestNeitherReadsNorPingsProlongALease(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *Session){
		"pings": func(context.Context, *Session) {},
		// Reads are answered until a heartbeat is due; then they wait behind it.
		"reads": func(ctx context.Context, s *Session) { _, _, _ = s.Get(ctx, "/mine") },
	} {
		runInSession(t, name, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
			s.holding(t, "/mine")
			time.Sleep(61 * time.Second) // no heartbeat is under way
			srv.Inject(zktest.On("multi"), zktest.DropRequest)
			srv.ResetCounts()
			last := s.Deadline()
			for time.Now().Before(last) {
				require.Equal(t, last, s.Deadline())
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				ask(ctx, s)
				<-ctx.Done()
				cancel()
			}
			require.Equal(t, StateLost, s.State())
			require.ErrorContains(t, s.Err(), "no write was committed")
			n := srv.Counts()
			require.Positive(t, n.ByOp["getData"]+n.Pings, "the scenario needs something that is answered")
		})
	}
}

// order records the requests a server reads.
func order(srv *zktest.Server) func() []string {
	var mu sync.Mutex
	var seen []string
	srv.Inject(func(r zktest.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Op)
		return false
	}, zktest.CutBefore)
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), seen...)
	}
}

// A request on a new connection must run with the identities of the last one.
func TestNoRequestOvertakesTheIdentitiesInAnyReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.WithLatency(10*time.Millisecond))
		_, s := open(t, srv, func(c *Config) { c.Auth = []Auth{{"digest", "a:b"}, {"digest", "c:d"}} })
		seen := order(srv)
		for range 12 {
			cut, before := s.Changed(), len(seen())
			srv.Disconnect(s.ID())
			<-cut
			var wg sync.WaitGroup
			for range 40 {
				wg.Go(func() { _, _, _ = s.Get(t.Context(), "/") })
			}
			wg.Wait()
			ops := slices.DeleteFunc(seen()[before:], func(op string) bool { return op == "ping" })
			require.Equal(t, []string{"connect", "auth", "auth"}, ops[:3])
			require.Equal(t, []string{"getData"}, slices.Compact(ops[3:]))
		}
	})
}

func TestAuthenticationThatCannotBeWrittenAgainIsTriedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		var dials atomic.Int32
		_, s := open(t, srv, func(c *Config) { c.Auth = []Auth{{"digest", "a:b"}} }, through(srv, func(n int, c net.Conn) net.Conn {
			if dials.Store(int32(n)); n != 2 {
				return c
			}
			frames := 0
			return writer{c, func(b []byte) (int, error) { // only the connect request can be written
				if frames++; frames > 1 {
					return 0, net.ErrClosed
				}
				return c.Write(b)
			}}
		}))
		srv.Disconnect(s.ID())
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 3, dials.Load())
		require.Equal(t, StateActive, s.State())
		s.mustRead(t, "/")
	})
}

// crowd is many clients of one server. Each holds a node, and crowd notes when they dial.
type crowd struct {
	t      *testing.T
	srv    *zktest.Server
	admits func() bool // whether the server accepts one more connection; it ends the others without a word

	mu    sync.Mutex
	dials []time.Time
}

func (c *crowd) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	c.dials = append(c.dials, time.Now())
	admitted := c.admits == nil || c.admits()
	c.mu.Unlock()
	conn, err := c.srv.DialContext(ctx, network, address)
	if err == nil && !admitted {
		_ = conn.Close()
	}
	return conn, err
}

// gather dials n clients one after another, so that their heartbeats and pings are due at different times.
func (c *crowd) gather(n int, timeout time.Duration) (all []*Session) {
	for i := range n {
		client, err := Dial(c.t.Context(), Config{Servers: []string{"zk"}, Dialer: c.dial, SessionTimeout: timeout})
		require.NoError(c.t, err)
		c.t.Cleanup(func() { _ = client.Close() })
		s, err := client.Session(c.t.Context())
		require.NoError(c.t, err)
		mine := s.mustCreate(c.t, fmt.Sprintf("/mine%d", i), zk.FlagEphemeral)
		release, err := s.Hold(c.t.Context(), func(err error) { c.t.Errorf("client %d lost its node: %v", i, err) }, mine)
		require.NoError(c.t, err)
		c.t.Cleanup(release)
		all = append(all, s)
		time.Sleep(timeout / time.Duration(n))
	}
	time.Sleep(timeout)
	c.mu.Lock()
	c.dials = nil
	c.mu.Unlock()
	return all
}

// most is the largest number of dials in any span of time.
func (c *crowd) most(span time.Duration) (most int) {
	first := 0
	for i, at := range c.dials {
		for at.Sub(c.dials[first]) >= span {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// A restarted server, or one told to shed its clients (ZOOKEEPER-5015), had all of them back in one moment. Holders wait no
// longer than their next heartbeat. They come back within T/12, at most half of them in any T/60. In steady state no client
// dials.
func TestAThousandClientsComeBackOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 30 * time.Second
		n := effort.Of(1000, 200)
		c := &crowd{t: t, srv: zktest.Start(t)}
		all := c.gather(n, timeout)
		began := time.Now()
		c.srv.ResetCounts()
		c.srv.Disconnect(0)
		time.Sleep(time.Minute)
		require.Len(t, c.dials, n, "one connection each, and no second attempt")
		last := c.dials[len(c.dials)-1].Sub(began)
		require.LessOrEqual(t, last, timeout/12)
		peak := c.most(timeout / 60)
		require.LessOrEqual(t, peak, n/2, "of %d in half a second", n)
		require.Equal(t, n, c.srv.Counts().Connections)
		for _, s := range all {
			require.NoError(t, s.Err())
		}
		t.Logf("%d clients with a timeout of %v came back within %v: at most %d in %v, %d in 100 ms", n, timeout, last, peak, timeout/60, c.most(100*time.Millisecond))
	})
}

// Connection throttling (connection_throttle_tokens) ends a connection without an answer when there are too many at a time.
func TestAThousandClientsComeBackToAServerThatAdmitsAHundredASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 40 * time.Second
		n := effort.Of(1000, 200)
		c := &crowd{t: t, srv: zktest.Start(t)}
		all := c.gather(n, timeout)
		rate, tokens, filled := n/10, 0.0, time.Now()
		c.admits = func() bool { // c.mu is held
			tokens = min(float64(rate), tokens+time.Since(filled).Seconds()*float64(rate))
			filled = time.Now()
			if tokens < 1 {
				return false
			}
			tokens--
			return true
		}
		began := time.Now()
		c.srv.Disconnect(0)
		time.Sleep(2 * time.Minute)
		for _, s := range all {
			require.NoError(t, s.Err())
			require.Equal(t, StateActive, s.State())
		}
		last := c.dials[len(c.dials)-1].Sub(began)
		require.LessOrEqual(t, last, timeout/2, "no lease lasts longer")
		second := c.most(time.Second)
		require.LessOrEqual(t, second, 2*n, "between two attempts a client waits for half a T/32 at least")
		t.Logf("%d clients came back within %v with %d attempts, at most %d in a second", n, last, len(c.dials), second)
	})
}
