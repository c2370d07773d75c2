package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// bubble runs a test in fake time with a server and a client.
func bubble(t *testing.T, opts []zktest.Option, f func(t *testing.T, s *zktest.Server, c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(opts...)
		defer s.Close()
		c := dial(t, s, 10*time.Second)
		defer c.end()
		f(t, s, c)
	})
}

func TestANewServerHasZooKeepersOwnNodes(t *testing.T) {
	bubble(t, nil, func(t *testing.T, _ *zktest.Server, c *client) {
		kids, stat, err := c.Children("/")
		require.NoError(t, err)
		require.Equal(t, []string{"zookeeper"}, kids)
		require.Equal(t, &zk.Stat{Cversion: -1, NumChildren: 1}, stat)
		_, stat, err = c.Children("/zookeeper")
		require.NoError(t, err)
		require.Equal(t, &zk.Stat{Cversion: -2, NumChildren: 2}, stat)
		acl, stat, err := c.GetACL("/zookeeper/config")
		require.NoError(t, err)
		require.Equal(t, zk.WorldACL(zk.PermRead), acl)
		require.Equal(t, &zk.Stat{Aversion: -1}, stat)
	})
}

func TestStatsFollowEveryKindOfChange(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		_, err := c.Create("/a", []byte("one"), 0, open) // zxid 2: the session took 1
		require.NoError(t, err)
		born := time.Now().UnixMilli()
		time.Sleep(time.Second)
		_, err = c.Create("/a/b", nil, 0, open)
		require.NoError(t, err)
		_, err = c.Create("/a/e", nil, zk.FlagEphemeral, open)
		require.NoError(t, err)
		require.NoError(t, c.Delete("/a/b", -1))
		_, err = c.Set("/a", []byte("four"), 0)
		require.NoError(t, err)
		_, err = c.SetACL("/a", zk.WorldACL(zk.PermRead), 0)
		require.NoError(t, err)
		n, ok := s.Get("/a")
		require.True(t, ok)
		require.Equal(t, zktest.Stat{
			Czxid: 2, Mzxid: 6, Ctime: born, Mtime: born + 1000, Version: 1, Cversion: 3, Aversion: 1,
			DataLength: 4, NumChildren: 1, Pzxid: 5,
		}, n.Stat)
		n, _ = s.Get("/a/e")
		require.Equal(t, c.SessionID(), n.Stat.EphemeralOwner)
	})
}

func TestASequenceNumberCountsCreatesNotChildren(t *testing.T) {
	bubble(t, nil, func(t *testing.T, _ *zktest.Server, c *client) {
		_, err := c.Create("/q", nil, 0, open)
		require.NoError(t, err)
		_, err = c.Create("/q/other", nil, 0, open)
		require.NoError(t, err)
		require.NoError(t, c.Delete("/q/other", -1))
		p, err := c.Create("/q/n-", nil, zk.FlagSequence, open)
		require.NoError(t, err)
		require.Equal(t, "/q/n-0000000001", p)
		p, err = c.Create("/q/n-", nil, zk.FlagEphemeralSequential, open)
		require.NoError(t, err)
		require.Equal(t, "/q/n-0000000002", p)
	})
}

func TestTheSequenceSticksAtItsEndExceptInsideAMulti(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		require.NoError(t, s.Create("/q", nil))
		require.NoError(t, s.SetCreateCount("/q", 1<<31-1))
		create := func() any {
			return &zk.CreateRequest{Path: "/q/n-", Acl: open, Flags: zk.FlagSequence}
		}
		res, err := c.Multi(create(), create())
		require.NoError(t, err)
		require.Equal(t, "/q/n-2147483647", res[0].String)
		require.Equal(t, "/q/n--2147483648", res[1].String)
		_, err = c.Create("/q/n-", nil, zk.FlagSequence, open)
		require.ErrorIs(t, err, zk.ErrNodeExists)
	})
}

func TestErrorsAreThoseOfZooKeeper(t *testing.T) {
	bubble(t, nil, func(t *testing.T, _ *zktest.Server, c *client) {
		create := func(path string, flags int32, acl []zk.ACL) error {
			_, err := c.Create(path, nil, flags, acl)
			return err
		}
		require.NoError(t, create("/a", 0, open))
		require.NoError(t, create("/a/e", zk.FlagEphemeral, open))
		require.ErrorIs(t, create("/a", 0, open), zk.ErrNodeExists)
		require.ErrorIs(t, create("/x/y", 0, open), zk.ErrNoNode)
		require.ErrorIs(t, create("/a/e/c", 0, open), zk.ErrNoChildrenForEphemerals)
		require.ErrorIs(t, create("/b", 0, nil), zk.ErrInvalidACL)
		require.ErrorIs(t, create("/b", 0, zk.AuthACL(zk.PermAll)), zk.ErrInvalidACL)
		require.ErrorIs(t, c.Delete("/a", -1), zk.ErrNotEmpty)
		require.ErrorIs(t, c.Delete("/a", 7), zk.ErrBadVersion)
		require.ErrorIs(t, c.Delete("/zookeeper", -1), zk.ErrBadArguments)
		_, err := c.Set("/a", nil, 3)
		require.ErrorIs(t, err, zk.ErrBadVersion)
		_, err = c.CreateTTL("/t", nil, zk.FlagTTL, open, time.Second)
		require.EqualError(t, err, "unknown error: -6")
	})
}

func TestAMultiIsAllOrNothingAndNamesTheCulprit(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		require.NoError(t, s.Create("/a", []byte("x")))
		before := s.Dump()
		stat, _ := s.Get("/")
		res, err := c.Multi(
			&zk.CreateRequest{Path: "/a/b", Acl: open, Flags: zk.FlagEphemeral},
			&zk.SetDataRequest{Path: "/a", Data: []byte("y"), Version: 0},
			&zk.DeleteRequest{Path: "/a/b", Version: 5},
			&zk.CheckVersionRequest{Path: "/a", Version: 0},
		)
		require.ErrorIs(t, err, zk.ErrBadVersion)
		require.Len(t, res, 4)
		require.NoError(t, res[0].Error)
		require.NoError(t, res[1].Error)
		require.ErrorIs(t, res[2].Error, zk.ErrBadVersion)
		require.EqualError(t, res[3].Error, "unknown error: -2")
		require.Equal(t, before, s.Dump())
		after, _ := s.Get("/")
		require.Equal(t, stat.Stat, after.Stat)

		res, err = c.Multi(
			&zk.CreateRequest{Path: "/a/s-", Acl: open, Flags: zk.FlagEphemeralSequential},
			&zk.CheckVersionRequest{Path: "/a", Version: 0},
			&zk.SetDataRequest{Path: "/a", Data: []byte("y"), Version: 0},
			&zk.DeleteRequest{Path: "/a/s-0000000000", Version: 0},
		)
		require.NoError(t, err)
		require.Equal(t, "/a/s-0000000000", res[0].String)
		require.EqualValues(t, 1, res[2].Stat.NumChildren)
		n, _ := s.Get("/a")
		require.Equal(t, n.Stat.Mzxid, n.Stat.Pzxid)
	})
}

func TestAWatchEventComesBeforeTheReplyThatRevealsTheChange(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		require.NoError(t, s.Create("/a", nil))
		for range 200 {
			_, _, ch, err := c.GetW("/a")
			require.NoError(t, err)
			require.NoError(t, s.Set("/a", []byte("new")))
			_, stat, err := c.Get("/a")
			require.NoError(t, err)
			select {
			case e := <-ch:
				require.Equal(t, zk.EventNodeDataChanged, e.Type)
			default:
				t.Fatalf("version %d was read before the event that announces it", stat.Version)
			}
		}
	})
}

func TestEveryWatchFiresOnceForItsOwnKindOfChange(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		_, _, made, err := c.ExistsW("/a")
		require.NoError(t, err)
		require.NoError(t, s.Create("/a", nil))
		require.Equal(t, zk.EventNodeCreated, (<-made).Type)
		_, _, data, err := c.GetW("/a")
		require.NoError(t, err)
		_, _, kids, err := c.ChildrenW("/a")
		require.NoError(t, err)
		require.NoError(t, s.Create("/a/b", nil))
		require.Equal(t, zk.EventNodeChildrenChanged, (<-kids).Type)
		require.NoError(t, s.Set("/a", []byte("x")))
		require.NoError(t, s.Set("/a", []byte("y")))
		require.Equal(t, zk.EventNodeDataChanged, (<-data).Type)
		_, _, data, err = c.GetW("/a/b")
		require.NoError(t, err)
		_, _, kids, err = c.ChildrenW("/a/b")
		require.NoError(t, err)
		s.ResetCounts()
		require.NoError(t, s.Delete("/a/b"))
		require.Equal(t, zk.EventNodeDeleted, (<-data).Type)
		require.Equal(t, zk.EventNodeDeleted, (<-kids).Type)
		require.Equal(t, 1, s.Counts().WatchEvents, "data and child watch of one connection are told once")
	})
}
