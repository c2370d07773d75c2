package recipes_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// watchesOn is how many watches the server has that c is connected to, of all clients.
func watchesOn(t *testing.T, c *recipes.Client) (n int) {
	t.Helper()
	s, err := c.Live(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Aside(t.Context(), s.At(), []byte("mntr"), func(r io.Reader) error {
		text, err := io.ReadAll(r)
		_, count, _ := strings.Cut(string(text), "zk_watch_count\t")
		n, _ = strconv.Atoi(strings.Fields(count)[0])
		return err
	}))
	return n
}

// useOnce locks many paths once each, and one of them all the time. It returns how many watches the server has afterwards.
func useOnce(t *testing.T, c *recipes.Client, kept int) int {
	t.Helper()
	c.KeepDeclarations(kept)
	m := func(i int) *recipes.Mutex {
		return c.Mutex(fmt.Sprintf("/once/%03d", i), recipes.WithCreate(), recipes.WithParams(kind.Mutex.New()))
	}
	x, err := m(0).Lock(t.Context())
	require.NoError(t, err)
	for i := range 200 {
		y, err := m(1 + i).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, y.Unlock(t.Context()))
	}
	require.NoError(t, x.Verify(t.Context()), "and behind all requests before it")
	require.NoError(t, x.Unlock(t.Context()))
	return watchesOn(t, c)
}

// 100,000 locks that were used once left 100,000 watches on the server, and 13 MB in the client, until the connection ended.
func TestALockThatIsForgottenLeavesNoWatch(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		require.LessOrEqual(t, useOnce(t, c, 10), 11)
		require.LessOrEqual(t, len(c.Newest().Stats().Watches), 10)
	})
}

func TestRealServersForgetTheWatchesOfForgottenLocks(t *testing.T) {
	t.Parallel()
	srv := realzk.Start(t, realzk.Options{Config: map[string]string{"4lw.commands.whitelist": "*", "forceSync": "no"}})
	c, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{srv.Addr}, SessionTimeout: 20 * time.Second})
	require.NoError(t, err)
	defer c.Close()
	require.LessOrEqual(t, useOnce(t, c, 10), 11)
}

// A declaration kept the session in which it was read, and 27 kB with it, until something else pushed it out.
func TestALostSessionIsFreed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		var sessions []weak.Pointer[session.Session]
		for i := range 20 {
			path := fmt.Sprintf("/own/%d", i)
			l.Declare(path, kind.Mutex.New())
			require.NoError(t, c.Mutex(path).Do(t.Context(), func(_ context.Context, x *recipes.Lease) error { return x.Verify(t.Context()) }))
			s, err := c.Live(t.Context())
			require.NoError(t, err)
			sessions = append(sessions, weak.Make(s))
			l.Srv.Expire(s.ID())
			<-s.Done()
			l.Settle()
		}
		require.Zero(t, c.Declarations())
		alive := len(sessions)
		for round := 0; alive > 1 && round < 20; round++ { // timers may refer to it for a moment, and what has ended from its stack
			time.Sleep(time.Second)
			runtime.GC()
			alive = 0
			for _, s := range sessions {
				if s.Value() != nil {
					alive++
				}
			}
		}
		require.LessOrEqual(t, alive, 1, "the newest, until there is another")
	})
}
