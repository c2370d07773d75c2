package recipes_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// A client that lost ZooKeeper logged 12 lines a minute and none when it was back.
func TestTheLogSaysOnceThatZooKeeperIsAwayAndOnceThatItIsBack(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		c := l.Client("a", func(cfg *recipes.Config) { cfg.Observer, cfg.Logger = recipes.LogEvents(log), log })
		m := c.Mutex(l.Mutex())
		id := l.SessionID(c)
		x := l.Lock(m.Lock)
		l.Settle()
		require.Empty(t, out.String(), "what goes well is logged at LevelDebug")

		l.CutOff(id)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(out.String(), "session in doubt"), out.String())
		require.Equal(t, 2, strings.Count(out.String(), "no connection"), "once for each reason: it ended, and is refused: %s", out.String())
		l.Srv.RefuseDials(false)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(out.String(), "not in doubt any more"), out.String())
		require.NoError(t, context.Cause(x.Context()))

		l.CutOff(id)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(out.String(), `level=ERROR msg="lock lost" lock=/m token=`), out.String())
		require.Contains(t, out.String(), `level=WARN msg="session lost"`)
		l.Srv.RefuseDials(false)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.LessOrEqual(t, strings.Count(out.String(), "\n"), 10, out.String())
	})
}

func TestDetachedWorkOutlivesTheLeaseAndMayWaitForTheLock(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		type request struct{}
		c := l.Client("a")
		l.Declare("/n", kind.Mutex.New())
		m, n := c.Mutex(l.Mutex()), c.Mutex("/n")
		var again <-chan result[*recipes.Lease]
		var detached context.Context
		ctx := context.WithValue(t.Context(), request{}, 7)
		require.NoError(t, n.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
			return m.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
				_, err := m.Lock(ctx)
				require.ErrorIs(t, err, recipes.ErrWouldDeadlock)
				detached = recipes.Detach(ctx)
				again = async(func() (*recipes.Lease, error) { return m.Lock(detached) })
				l.Settle()
				return nil
			})
		}))
		got := l.Granted(again)
		require.NoError(t, detached.Err())
		require.Equal(t, 7, detached.Value(request{}))
		x, err := n.Lock(detached)
		require.NoError(t, err)
		l.Unlock(x)
		l.Unlock(got.V)
	})
}
