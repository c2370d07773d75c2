package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

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
		c.mustCreate("/f", zk.FlagEphemeral)
		all := s.Sessions()
		require.Equal(t, []zktest.Session{
			{ID: c.SessionID(), Timeout: 10 * time.Second, Connected: true, Ephemerals: []string{"/f"}, Requests: 3},
			{ID: other.SessionID(), Timeout: 20 * time.Second, Connected: true, Requests: 1},
		}, all)
		n := s.Counts()
		require.Equal(t, map[string]int{"create": 2, "delete": 1, "getData": 1}, n.ByOp)
		require.Equal(t, 4, n.Total)
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
