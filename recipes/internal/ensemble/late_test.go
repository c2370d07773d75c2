//go:build linux

package ensemble_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// A thread of Apache ZooKeeper that has read a create and stands still is overtaken by the session's next connection: the
// create is executed behind the write that had shown it absent, and nobody knew of the contender.
func TestRealCreateExecutedLateIsDeleted(t *testing.T) {
	t.Parallel()
	srv := realzk.Start(t, realzk.Options{Debug: true, Config: longSessions})
	var mu sync.Mutex
	var last net.Conn
	c := dial(t, recipes.Config{Servers: []string{srv.Addr}, SessionTimeout: busyTimeout,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			mu.Lock()
			defer mu.Unlock()
			last = conn
			return conn, err
		}})
	declareReal(t, c, "/m", kind.Mutex.New())
	s := live(t, c)
	acquire := func() (*recipes.Lease, error) { return c.Mutex("/m").Lock(t.Context()) }
	l, err := acquire() // from here on the declaration is known
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))

	for range 10 {
		before, err := s.Exists(t.Context(), "/m")
		require.NoError(t, err)
		held, release := srv.Halt("org.apache.zookeeper.server.ZooKeeperServer.enqueueRequest")
		granted := async(acquire)
		held()
		mu.Lock()
		_ = last.Close()
		mu.Unlock()
		r := <-granted
		require.NoError(t, r.Err, "the create was found not applied, and made again")
		release()
		require.NoError(t, r.V.Unlock(t.Context()))
		// The contender that was known, and the one that was not, have come and gone: four changes of the list.
		for look := range 1000 {
			now, err := s.Exists(t.Context(), "/m")
			require.NoError(t, err)
			changes := now.Cversion - before.Cversion
			if now.NumChildren == 0 && changes == 4 {
				return
			}
			if look > 100 && now.NumChildren == 0 {
				break // it was a ping that stood still: once more
			}
			time.Sleep(50 * time.Millisecond)
		}
		children, _, err := s.Children(t.Context(), "/m")
		require.NoError(t, err)
		require.Empty(t, children, "nobody deletes it")
	}
	require.Fail(t, "no create was executed late")
}
