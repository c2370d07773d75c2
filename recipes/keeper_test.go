package recipes_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/hostile"
)

// A session of a ClickHouse Keeper has a password of zeros.
var keeper = hostile.Saying(hostile.Frame(hostile.Cat(hostile.Be32(0), hostile.Be32(9000), hostile.Be64(7), hostile.Be32(16), make([]byte, 16))...))

func TestAKeeperIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		cfg := recipes.Config{Servers: []string{"zk"}, ConnectTimeout: time.Hour, Dialer: func(context.Context, string, string) (net.Conn, error) {
			dials++ // one attempt at a time
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				keeper(theirs)
			}()
			return ours, nil
		}}
		const says = "recipes: zk:2181 is a ClickHouse Keeper, whose sessions end with their connection, " +
			"so a lock there cannot survive a reconnect; locktree needs Apache ZooKeeper: name its servers instead"
		began := time.Now()
		_, err := recipes.Dial(t.Context(), cfg)
		require.EqualError(t, err, says)
		require.Equal(t, 1, dials)

		cfg.Lazy = true
		c, err := recipes.Dial(t.Context(), cfg)
		require.NoError(t, err)
		calls := map[string]func() error{
			"Session": func() error { _, err := c.Session(t.Context()); return err },
			"Lock":    func() error { _, err := c.Mutex("/m").Lock(t.Context()); return err },
			"Acquire": func() error { _, err := c.Semaphore("/s").Acquire(t.Context(), 1); return err },
			"Lead": func() error {
				return c.Election("/e").Lead(t.Context(), func(context.Context, *recipes.Lease) error { return nil })
			},
			"a set of keys": func() error { _, err := c.Keyed("/k").Lock(t.Context(), "a", "b"); return err },
		}
		for name, try := range tries(c) {
			calls["a Try of "+name] = func() error { _, err := try(t.Context()); return err }
		}
		for name, call := range calls {
			dials = 0
			err := call()
			require.ErrorContains(t, err, "zk:2181 is a ClickHouse Keeper", name)
			require.NotErrorIs(t, err, recipes.ErrUnreachable, name)
			require.False(t, recipes.Retryable(err), name)
			most := 1
			if strings.HasPrefix(name, "a Try") { // it begins to dial before it asks for the session, and may find that over
				most = 2
			}
			require.LessOrEqual(t, dials, most, name)
		}
		require.Zero(t, time.Since(began))
		dials = 0
		time.Sleep(3 * time.Hour)
		require.Zero(t, dials, "none behind its callers' backs")
		require.NoError(t, c.Close())
	})
}
