package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
)

// lazy is a client that was made while ZooKeeper was away.
func (l *lab) lazy(change ...func(*recipes.Config)) *recipes.Client {
	l.T.Helper()
	l.Srv.RefuseDials(true)
	return l.Client("a", append(change, func(cfg *recipes.Config) { cfg.Lazy = true })...)
}

func TestALazyClientConnectsWhenItIsFirstUsed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		seen := newTally()
		start := time.Now()
		c := l.lazy(func(cfg *recipes.Config) { cfg.Observer = seen.Observe })
		require.Zero(t, time.Since(start))
		require.Equal(t, "world:anyone:", c.Identities().String())
		require.NoError(t, c.SetServers([]string{"zk"}))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, seen.told, "there was no session to tell of")
		for name, try := range tries(c) {
			start := time.Now()
			err := l.Refused(try, recipes.ErrUnreachable, name)
			require.ErrorContains(t, err, "zk:2181: connection refused", name)
			require.Equal(t, sixth, time.Since(start), name)
			time.Sleep(time.Minute)
		}
		ctx := l.Within(time.Second)
		_, err := c.Mutex("/m").Lock(ctx)
		require.ErrorIs(t, err, recipes.ErrUnreachable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		waits := l.Waiting(c.Mutex("/m").Lock)
		time.Sleep(time.Minute)
		notYet(t, waits, "nobody is there")
		l.Srv.RefuseDials(false)
		l.Unlock(l.Got(waits))
	})
}

func TestALazyClientThatWasNeverUsedIsClosed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.lazy()
		require.NoError(t, c.Close())
		l.Refused(c.Mutex("/m").TryLock, recipes.ErrClosed)
	})
}

func TestDialOfALazyClientChecksItsConfiguration(t *testing.T) {
	_, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{"zk/chroot"}, Lazy: true})
	require.ErrorContains(t, err, "chroot")
}

// A call whose context had ended before said "unreachable", and nothing had tried to reach a server.
func TestALazyClientSaysNothingOfTheServersToACallThatHasEnded(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("a", func(cfg *recipes.Config) { cfg.Lazy = true })
		ctx, stop := context.WithCancel(t.Context())
		stop()
		calls := tries(c)
		calls["lock"], calls["set, waits"] = c.Mutex("/m").Lock, mixed(c).Lock
		for name, call := range calls {
			_, err := call(ctx)
			require.ErrorIs(t, err, context.Canceled, name)
			require.NotErrorIs(t, err, recipes.ErrUnreachable, name)
			require.Equal(t, "cancelled", recipes.ResultOf(err), name)
		}
		_, _, err := c.Election("/e").Leader(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, recipes.ErrUnreachable)
	})
}
