package zktest_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

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
		c.mustCreate("/e", zk.FlagEphemeral)
		ch := c.watch("/e")
		id := c.SessionID()
		s.Disconnect(id)
		require.NoError(t, s.Set("/e", []byte("while you were out")))
		c.await(zk.StateHasSession)
		require.Equal(t, id, c.SessionID())
		require.Equal(t, zk.EventNodeDataChanged, (<-ch).Type)
		require.Equal(t, []string{"/e"}, s.Sessions()[0].Ephemerals)
	})
}

func TestAnExpiredSessionIsToldSoAtItsReconnect(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		id := c.SessionID()
		c.mustCreate("/e", zk.FlagEphemeral)
		s.Expire(id)
		require.False(t, exists(s, "/e"))
		c.await(zk.StateExpired)
		c.await(zk.StateHasSession) // go-zookeeper opens a new one by itself
		require.NotEqual(t, id, c.SessionID())
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
