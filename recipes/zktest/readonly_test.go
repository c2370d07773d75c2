package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

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
