package zktest_test

import (
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
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
		// Heard of last at 0.5 s, 5 s later is 5.5 s, the next tick of 2 s is 6 s.
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
			zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
				return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address,
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
