package zktest

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/internal/release"
)

func TestAServerOf39TellsWhichTransactionFiredAnEvent(t *testing.T) {
	for v, has := range map[string]bool{"3.8": false, "3.9.0": true, "3.9": true, "3.10.0": true} {
		parsed, err := release.Parse(v)
		require.NoError(t, err)
		require.Equal(t, has, parsed.EventsHaveZxids(), v)
	}
	for v, needs := range map[string]bool{"3.8.0": false, "3.8.3": false, "3.8.4": true, "3.8": true, "3.9.1": false, "3.9.2": true, "3.9": true} {
		parsed, err := release.Parse(v)
		require.NoError(t, err)
		require.Equal(t, needs, parsed.ExistsNeedsRead(), v)
	}
	for _, wrong := range []string{"", "3", "3.9.1.2", "x.9"} {
		_, err := release.Parse(wrong)
		require.Error(t, err, wrong)
	}
	require.Contains(t, New(WithVersion("3.9")).fourLetter("srvr"), "Zookeeper version: 3.9.5-zktest")
}

func TestAServerOf39HidesWhetherANodeExists(t *testing.T) {
	s := Start(t, WithVersion("3.9"))
	owner := connected(t, s)
	require.NoError(t, owner.AddAuth("digest", []byte("a:b")))
	_, err := owner.Create("/secret", nil, 0, zk.DigestACL(zk.PermAll, "a", "b"))
	require.NoError(t, err)
	_, _, err = connected(t, s).Exists("/secret")
	require.ErrorIs(t, err, zk.ErrNoAuth)
	there, _, err := connected(t, s).Exists("/none")
	require.NoError(t, err)
	require.False(t, there)
}

func connected(t *testing.T, s *Server) *zk.Conn {
	c, _, err := zk.Connect([]string{"127.0.0.1"}, 10*time.Second, zk.WithDialer(s.Dialer()), zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}
