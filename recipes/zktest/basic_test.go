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

func TestAWatchEventComesBeforeTheReplyThatRevealsTheChange(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		require.NoError(t, s.Create("/a", nil))
		for range 200 {
			ch := c.watch("/a")
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
