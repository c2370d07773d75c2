package zktest_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestASilentSessionExpiresAtTheTickAfterItsTimeout(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		start := time.Now()
		time.Sleep(500 * time.Millisecond)
		other := dial(t, s, 5*time.Second)
		other.mustCreate("/e", zk.FlagEphemeral)
		gone := c.watch("/e")
		other.abandon(s)
		require.Equal(t, zk.EventNodeDeleted, (<-gone).Type)
		// It was last heard at 0.5 s. 5 s later is 5.5 s, and the next tick of 2 s is at 6 s.
		require.Equal(t, 6*time.Second, time.Since(start))
	})
}

func TestTheSuperDigestMayDoEverything(t *testing.T) {
	opts := []zktest.Option{zktest.WithSuperDigest(zktest.DigestID("root:pw"))}
	bubble(t, opts, func(t *testing.T, _ *zktest.Server, c *client) {
		_, err := c.Create("/a", nil, 0, zk.DigestACL(zk.PermAll, "bob", "b"))
		require.NoError(t, err)
		_, _, err = c.Get("/a")
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.NoError(t, c.AddAuth("digest", []byte("root:pw")))
		_, _, err = c.Get("/a")
		require.NoError(t, err)
	})
}

func TestAReadOnlyServerTurnsAwayOrdinaryClientsAndExpiresNobody(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		c.mustCreate("/e", zk.FlagEphemeral)
		s.SetReadOnly(true)
		c.await(zk.StateDisconnected)
		time.Sleep(time.Hour)
		require.Len(t, s.Sessions(), 1)
		require.False(t, s.Sessions()[0].Connected, "go-zookeeper does not ask for read-only service")
		require.Equal(t, c.SessionID(), s.Sessions()[0].ID)
		s.SetReadOnly(false)
		c.await(zk.StateHasSession)
		require.True(t, exists(s, "/e"))
		synctest.Wait()
	})
}

func TestAnEventCanBeLostDelayedOrHeldAlone(t *testing.T) {
	deleted := func(e zktest.Event) bool { return e.Type == "deleted" && e.Path == "/a" }
	tests := []struct {
		name  string
		fault zktest.Fault
		check func(t *testing.T, i *zktest.Injection, ch <-chan zk.Event)
	}{
		{"lost", zktest.DropEvent, func(t *testing.T, _ *zktest.Injection, ch <-chan zk.Event) {
			time.Sleep(time.Hour)
			require.Empty(t, ch)
		}},
		{"delayed", zktest.Delay(3 * time.Second), func(t *testing.T, _ *zktest.Injection, ch <-chan zk.Event) {
			start := time.Now()
			require.Equal(t, zk.EventNodeDeleted, (<-ch).Type)
			require.Equal(t, 3*time.Second, time.Since(start))
		}},
		{"held", zktest.Hold, func(t *testing.T, i *zktest.Injection, ch <-chan zk.Event) {
			time.Sleep(time.Hour)
			require.Empty(t, ch)
			i.Release()
			require.Equal(t, zk.EventNodeDeleted, (<-ch).Type)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
				require.NoError(t, s.Create("/a", nil))
				ch := c.watch("/a")
				i := s.InjectEvent(deleted, tt.fault)
				require.NoError(t, c.Delete("/a", -1))
				require.False(t, c.there("/a"), "the rest of the connection goes on")
				synctest.Wait()
				require.Empty(t, ch)
				require.Equal(t, 1, i.Hits())
				tt.check(t, i, ch)
				i.Remove()
			})
		})
	}
}

func TestACertificatesSubjectIsAnX509Identity(t *testing.T) {
	authority := hostile.Authority(t)
	server, _ := authority.Issue(t, "zk")
	alice, _ := authority.Issue(t, "alice")
	s := zktest.Start(t, zktest.WithTLS(&tls.Config{
		Certificates: []tls.Certificate{server}, ClientCAs: authority.Pool, ClientAuth: tls.VerifyClientCertIfGiven,
	}))
	connect := func(certs ...tls.Certificate) *zk.Conn {
		c, events, err := zk.Connect([]string{s.Addr()}, 40*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}),
			zk.WithDialer(func(network, address string, _ time.Duration) (net.Conn, error) {
				return tls.DialWithDialer(&net.Dialer{Timeout: hostile.Patience}, network, address,
					&tls.Config{ServerName: "zk", RootCAs: authority.Pool, Certificates: certs})
			}))
		require.NoError(t, err)
		t.Cleanup(func() {
			c.Close()
			for range events {
			}
		})
		return c
	}
	c := connect(alice)
	_, err := c.Create("/a", nil, 0, zk.AuthACL(zk.PermAll))
	require.NoError(t, err)
	n, _ := s.Get("/a")
	require.Equal(t, []zktest.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: "CN=alice,OU=ops,O=Acme"}}, n.ACL)
	_, err = c.Set("/a", nil, -1)
	require.NoError(t, err)
	_, err = c.SetACL("/a", []zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: "no name"}}, -1)
	require.ErrorIs(t, err, zk.ErrInvalidACL)
	_, err = c.SetACL("/a", []zk.ACL{{Perms: zk.PermRead, Scheme: "x509", ID: `CN=a,O=Acme\, Inc.`}, {Perms: zk.PermAll, Scheme: "x509", ID: "CN=alice,OU=ops,O=Acme"}}, -1)
	require.NoError(t, err, "a comma that is escaped begins no new part")
	_, err = connect().Set("/a", nil, -1)
	require.ErrorIs(t, err, zk.ErrNoAuth)
}

// codeBadArguments is a code of the protocol that has no name in zktest.
const codeBadArguments zktest.Code = -8

func TestADumpShowsEveryNodeAndIsTheSameForEqualTrees(t *testing.T) {
	build := func(t *testing.T) (dump string) {
		opts := []zktest.Option{zktest.WithExtendedTypes()}
		bubble(t, opts, func(t *testing.T, s *zktest.Server, c *client) {
			require.NoError(t, s.Create("/locks/a", []byte("x")))
			_, err := c.Create("/locks/a/n-", nil, zk.FlagEphemeralSequential, zk.DigestACL(zk.PermRead|zk.PermDelete, "u", "p"))
			require.NoError(t, err)
			_, err = c.CreateContainer("/box", nil, zk.FlagContainer, open)
			require.NoError(t, err)
			_, err = c.CreateTTL("/brief", nil, zk.FlagTTL, open, 90*time.Second)
			require.NoError(t, err)
			_, err = c.Set("/locks/a", []byte("y"), -1)
			require.NoError(t, err)
			dump = s.Dump()
		})
		return dump
	}
	want := `/
  box container
  brief ttl 1m30s
  locks
    a "y" v1
      n-0000000000 ephemeral of session 1 digest:` + zktest.DigestID("u:p") + `:rd
  zookeeper
    config world:anyone:r
    quota
`
	require.Equal(t, want, build(t))
	require.Equal(t, want, build(t))
}

func TestTheServersOwnHandIsATransactionAndIgnoresACLsAndVersions(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		_, err := c.Create("/mine", nil, 0, zk.DigestACL(zk.PermAll, "u", "p"))
		require.NoError(t, err)
		c.mustCreate("/mine2", 0)
		require.NoError(t, s.Create("/mine2/a/b", nil))
		_, _, kids, err := c.ChildrenW("/mine2")
		require.NoError(t, err)
		before, _ := s.Get("/mine")
		require.NoError(t, s.Set("/mine", []byte("x")))
		after, _ := s.Get("/mine")
		require.Greater(t, after.Stat.Mzxid, before.Stat.Mzxid)
		require.NoError(t, s.Delete("/mine2"))
		require.Equal(t, zk.EventNodeChildrenChanged, (<-kids).Type)
		require.False(t, exists(s, "/mine2"))

		require.ErrorIs(t, s.Delete("/mine2"), zktest.CodeNoNode)
		require.ErrorIs(t, s.Set("/nosuch", nil), zktest.CodeNoNode)
		require.ErrorIs(t, s.Create("/mine", nil), zktest.CodeNodeExists)
		require.ErrorIs(t, s.Create("no/slash", nil), codeBadArguments)
		require.ErrorIs(t, s.SetCreateCount("/nosuch", 1), zktest.CodeNoNode)
	})
}

func TestSessionsAndCountsTellWhoAskedWhat(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		other := dial(t, s, 20*time.Second)
		s.ResetCounts()
		c.mustCreate("/e", zk.FlagEphemeral)
		other.watch("/e")
		require.NoError(t, c.Delete("/e", -1))
		for _, path := range []string{"/h", "/g", "/f"} {
			c.mustCreate(path, zk.FlagEphemeral)
		}
		all := s.Sessions()
		require.Equal(t, []zktest.Session{
			{ID: c.SessionID(), Timeout: 10 * time.Second, Connected: true, Ephemerals: []string{"/f", "/g", "/h"}, Requests: 5},
			{ID: other.SessionID(), Timeout: 20 * time.Second, Connected: true, Requests: 1},
		}, all)
		n := s.Counts()
		require.Equal(t, map[string]int{"create": 4, "delete": 1, "getData": 1}, n.ByOp)
		require.Equal(t, 6, n.Total)
		require.Equal(t, 1, n.WatchEvents)
		require.Positive(t, n.BytesIn)
		require.Positive(t, n.BytesOut)
		require.Equal(t, 1, s.SessionCounts(other.SessionID()).WatchEvents)
		other.abandon(s)
		require.False(t, s.Sessions()[1].Connected)
	})
}

// A held request, a delayed one, a partition and a frozen server must not keep Close, or a bubble, from ending.
func TestCloseJoinsEverythingWhateverIsHeld(t *testing.T) {
	hold := map[string]func(s *zktest.Server, c *client){
		"hold":       func(s *zktest.Server, _ *client) { s.Inject(zktest.On("create"), zktest.Hold) },
		"holdReader": func(s *zktest.Server, _ *client) { s.Inject(zktest.On("create"), zktest.HoldReader) },
		"holdReply":  func(s *zktest.Server, _ *client) { s.Inject(zktest.On("create"), zktest.HoldReply) },
		"delay":      func(s *zktest.Server, _ *client) { s.Inject(zktest.On("create"), zktest.Delay(time.Hour)) },
		"freeze":     func(s *zktest.Server, _ *client) { s.Freeze() },
		"partition":  func(s *zktest.Server, c *client) { s.Partition(c.SessionID(), zktest.Both) },
	}
	for name, f := range hold {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.New(zktest.WithLatency(time.Millisecond))
				c := dial(t, s, 10*time.Second)
				f(s, c)
				done := c.creating("/a", 0)
				synctest.Wait()
				s.Close()
				s.Close()
				require.Error(t, <-done)
				c.end()
			})
		})
	}
}

func TestProvisionDeclaresAnew(t *testing.T) {
	s := zktest.Start(t)
	declare := func(p kind.Payload) error { return s.Provision("/s", &p) }
	require.NoError(t, declare(kind.Payload{Params: &kind.SemaphoreParams{Permits: 2}}))
	require.NoError(t, s.Delete("/s/leases"))
	require.NoError(t, declare(kind.Payload{Params: &kind.SemaphoreParams{Permits: 3}, State: kind.StateDraining}))
	n, ok := s.Get("/s")
	require.True(t, ok)
	require.Equal(t, []string{"leases", "locks"}, n.Children)
	p, err := kind.Decode(n.Data)
	require.NoError(t, err)
	require.Equal(t, 3, p.Params.(*kind.SemaphoreParams).Permits)
	require.Equal(t, kind.StateDraining, p.State)

	before := s.Dump()
	require.EqualError(t, declare(kind.Payload{}), "zktest: provision /s: kind: payload without parameters")
	require.ErrorContains(t, declare(kind.Payload{Params: &kind.SemaphoreParams{}}), `parameter "permits"`)
	require.ErrorIs(t, s.Provision("no/slash", &kind.Payload{Params: kind.Mutex.New()}), codeBadArguments)
	require.Equal(t, before, s.Dump())
}

// As with net.Dialer.DialContext, the context ends the dial. The error is both net's and the context's.
func TestADialObeysItsContext(t *testing.T) {
	const oneWay = 100 * time.Millisecond
	enough := errors.New("enough")
	for name, c := range map[string]struct {
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		took time.Duration
		want error
	}{
		"no limit": {context.WithCancel, 2 * oneWay, nil},
		"just in time": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 2*oneWay)
		}, 2 * oneWay, nil},
		"too late": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, oneWay)
		}, oneWay, context.DeadlineExceeded},
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(oneWay, func() { cancel(enough) })
			return ctx, func() { cancel(nil) }
		}, oneWay, context.Canceled},
		"ended before": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, 0, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.Start(t, zktest.WithLatency(oneWay))
				for _, dial := range []func(context.Context, string, string) (net.Conn, error){s.DialContext, s.Replica().DialContext} {
					ctx, cancel := c.ctx(t.Context())
					start := time.Now()
					conn, err := dial(ctx, "tcp", "zk:2181")
					cancel()
					require.Equal(t, c.took, time.Since(start))
					if c.want == nil {
						require.NoError(t, err)
						require.NoError(t, conn.Close())
						continue
					}
					require.ErrorIs(t, err, c.want)
					var op *net.OpError
					require.ErrorAs(t, err, &op)
					require.Equal(t, c.want == context.DeadlineExceeded, op.Timeout())
				}
			})
		})
	}
}

func TestADialWithATimeoutObeysIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := zktest.Start(t, zktest.WithLatency(100*time.Millisecond)).Dialer()
		for timeout, ok := range map[time.Duration]bool{-1: true, 0: true, 199 * time.Millisecond: false, 200 * time.Millisecond: true} {
			conn, err := dial("tcp", "zk:2181", timeout)
			if !ok {
				require.ErrorContains(t, err, "dial tcp zk:2181: i/o timeout")
				continue
			}
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
	})
}
