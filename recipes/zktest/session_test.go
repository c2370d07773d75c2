package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

func TestASessionTimeoutIsClampedToTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(zktest.WithTickTime(time.Second))
		defer s.Close()
		for asked, want := range map[time.Duration]time.Duration{
			time.Millisecond: 2 * time.Second, 5 * time.Second: 5 * time.Second, time.Hour: 20 * time.Second,
		} {
			c := dial(t, s, asked)
			require.Equal(t, want, s.Sessions()[0].Timeout, "asked for %v", asked)
			c.end()
		}
	})
}

func TestEphemeralsGoWithTheSessionThatIsClosed(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		other := dial(t, s, 10*time.Second)
		_, err := other.Create("/e", nil, zk.FlagEphemeral, open)
		require.NoError(t, err)
		_, _, gone, err := c.GetW("/e")
		require.NoError(t, err)
		other.end()
		require.Equal(t, zk.EventNodeDeleted, (<-gone).Type)
		require.Len(t, s.Sessions(), 1)
	})
}

func TestASilentSessionExpiresAtTheTickAfterItsTimeout(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		start := time.Now()
		time.Sleep(500 * time.Millisecond)
		other := dial(t, s, 5*time.Second)
		_, err := other.Create("/e", nil, zk.FlagEphemeral, open)
		require.NoError(t, err)
		_, _, gone, err := c.GetW("/e")
		require.NoError(t, err)
		other.abandon(s)
		require.Equal(t, zk.EventNodeDeleted, (<-gone).Type)
		// Heard of last at 0.5 s, 5 s later is 5.5 s, the next tick of 2 s is 6 s.
		require.Equal(t, 6*time.Second, time.Since(start))
	})
}

func TestPingsKeepASessionAliveForDays(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		id := c.SessionID()
		time.Sleep(50 * time.Hour)
		require.Equal(t, id, s.Sessions()[0].ID)
		require.Greater(t, s.Counts().Pings, 50*3600/10)
		require.Zero(t, s.Counts().Total)
	})
}

func TestAReconnectKeepsTheSessionItsEphemeralsAndItsWatches(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		_, err := c.Create("/e", nil, zk.FlagEphemeral, open)
		require.NoError(t, err)
		_, _, ch, err := c.GetW("/e")
		require.NoError(t, err)
		id := c.SessionID()
		s.Disconnect(id)
		require.NoError(t, s.Set("/e", []byte("while you were out")))
		c.await(t, zk.StateHasSession)
		require.Equal(t, id, c.SessionID())
		require.Equal(t, zk.EventNodeDataChanged, (<-ch).Type)
		require.Equal(t, []string{"/e"}, s.Sessions()[0].Ephemerals)
	})
}

func TestAnExpiredSessionIsToldSoAtItsReconnect(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		id := c.SessionID()
		_, err := c.Create("/e", nil, zk.FlagEphemeral, open)
		require.NoError(t, err)
		s.Expire(id)
		_, ok := s.Get("/e")
		require.False(t, ok)
		c.await(t, zk.StateExpired)
		c.await(t, zk.StateHasSession) // go-zookeeper opens a new one by itself
		require.NotEqual(t, id, c.SessionID())
	})
}

func TestACredentialOpensWhatItsDigestMayAndGetACLHidesIt(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		require.NoError(t, c.AddAuth("digest", []byte("alice:secret")))
		acl := append(zk.AuthACL(zk.PermAll), zk.WorldACL(zk.PermRead)...)
		_, err := c.Create("/a", []byte("x"), 0, append(acl, acl...))
		require.NoError(t, err)
		n, _ := s.Get("/a")
		require.Equal(t, []zktest.ACL{
			{Perms: zk.PermAll, Scheme: "digest", ID: zktest.DigestID("alice:secret")},
			{Perms: zk.PermRead, Scheme: "world", ID: "anyone"},
		}, n.ACL)

		other := dial(t, s, 10*time.Second)
		defer other.end()
		_, err = other.Set("/a", nil, -1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		_, err = other.Create("/a/b", nil, 0, open)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		seen, _, err := other.GetACL("/a")
		require.NoError(t, err)
		require.Equal(t, "alice:x", seen[0].ID)
		require.NoError(t, other.Delete("/a", -1), "deleting is a right of the parent")
	})
}

func TestAnIPIsAnIdentityAndNeedsNoCredential(t *testing.T) {
	bubble(t, nil, func(t *testing.T, _ *zktest.Server, c *client) {
		_, err := c.Create("/in", nil, 0, []zk.ACL{{Perms: zk.PermAll, Scheme: "ip", ID: "127.0.0.0/8"}})
		require.NoError(t, err)
		_, _, err = c.Get("/in")
		require.NoError(t, err)
		_, err = c.Create("/out", nil, 0, []zk.ACL{{Perms: zk.PermAll, Scheme: "ip", ID: "10.0.0.0/8"}})
		require.NoError(t, err)
		_, _, err = c.Get("/out")
		require.ErrorIs(t, err, zk.ErrNoAuth)
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

func TestATooLongPacketCostsTheConnection(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		_, err := c.Create("/fits", make([]byte, 1_048_376), 0, open)
		require.NoError(t, err)
		_, err = c.Create("/big", make([]byte, 1<<20), 0, open)
		require.Error(t, err)
		c.await(t, zk.StateDisconnected)
		c.await(t, zk.StateHasSession)
		_, ok := s.Get("/big")
		require.False(t, ok)
	})
}

func TestItServesTCP(t *testing.T) {
	s := zktest.Start(t)
	c, events, err := zk.Connect([]string{s.Addr()}, 40*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	require.NoError(t, err)
	_, err = c.Create("/a", []byte("x"), 0, open)
	require.NoError(t, err)
	n, ok := s.Get("/a")
	require.True(t, ok)
	require.Equal(t, "x", string(n.Data))
	began := time.Now()
	c.Close()
	for range events {
	}
	if time.Since(began) < time.Second { // go-zookeeper waits no longer for the end of its session
		require.Empty(t, s.Sessions())
	}
}
