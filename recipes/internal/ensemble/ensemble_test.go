//go:build linux

// Package ensemble_test uses locks on servers of Apache ZooKeeper that are stopped, killed, cut off from each other or short of disk.
package ensemble_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// busyTimeout is for a lease that must outlast what the servers of a busy machine take for an election or a restart; the
// servers have to allow it.
const busyTimeout = 60 * time.Second

var longSessions = map[string]string{"maxSessionTimeout": "60000"}

// ensemble is three real servers with the lanes declared.
type ensemble struct {
	t       *testing.T
	servers []*realzk.Server
}

// together declares the lanes, and watches whether a server loses a commit: such a run is void.
func together(t *testing.T, servers []*realzk.Server) ensemble {
	t.Helper()
	e := ensemble{t, servers}
	c := e.client(t, busyTimeout, servers...)
	declareLanes(t, c)
	for i, s := range servers { // through each of them: some may be cut off
		path, own := fmt.Sprint("/commits-", i), e.client(t, busyTimeout, s)
		_, err := live(t, c).Create(t.Context(), path, nil, 0, openACL)
		require.NoError(t, err)
		(&harness.Commits{Set: func(ctx context.Context) (int32, error) {
			s, err := own.Session(ctx)
			if err != nil {
				return 0, err
			}
			stat, err := s.Set(ctx, path, nil, -1)
			if err != nil {
				return 0, err
			}
			return stat.Version, nil
		}}).Keep(t, 50*time.Millisecond)
	}
	return e
}

// roles finds the leader and the followers.
func (e *ensemble) roles() (leader *realzk.Server, followers []*realzk.Server) {
	e.t.Helper()
	for began := time.Now(); ; {
		leader, followers = nil, nil
		for _, s := range e.servers {
			switch mode := s.Word("srvr"); {
			case strings.Contains(mode, "Mode: leader"):
				leader = s
			case strings.Contains(mode, "Mode: follower"):
				followers = append(followers, s)
			}
		}
		if leader != nil && len(followers) == len(e.servers)-1 {
			return leader, followers
		}
		require.Less(e.t, time.Since(began), hostile.Patience, "the ensemble does not come together")
		require.NoError(e.t, harness.Pause(e.t.Context(), 50*time.Millisecond))
	}
}

func (e *ensemble) client(t *testing.T, timeout time.Duration, servers ...*realzk.Server) *recipes.Client {
	t.Helper()
	cfg := recipes.Config{SessionTimeout: timeout}
	for _, s := range servers {
		cfg.Servers = append(cfg.Servers, s.Addr)
	}
	return dial(t, cfg)
}

// stopped pauses a server under a holder that knows no other, and lets rivals on the rest contend.
func (e *ensemble) stopped(t *testing.T, victim *realzk.Server, rest ...*realzk.Server) {
	c := e.contest(t, 4*time.Second, []*realzk.Server{victim}, rest) // eight ticks
	victim.Pause()
	defer victim.Resume()
	paused := time.Now()
	c.lost(t, paused)
	c.atLeast(t, 4)
	t.Logf("lost after %v; four grants after %v", c.timeout/2, time.Since(paused).Round(10*time.Millisecond))
	victim.Resume()
	c.atLeast(t, 10)
	c.stop()
}

// moved pauses the server of a holder that knows another one, and says whether the session went there. It does not where the
// machine stopped for longer than the session had time.
func (e *ensemble) moved(t *testing.T, timeout time.Duration) bool {
	_, followers := e.roles()
	client := e.client(t, timeout, followers...)
	c := holdAll(t, client)
	s := live(t, client)
	on := s.Stats().Server
	for _, f := range followers {
		if f.Addr == on {
			f.Pause()
			defer f.Resume()
		}
	}
	began := time.Now()
	for s.Stats().Connections < 2 && s.State() != session.StateLost {
		require.NoError(t, harness.Pause(t.Context(), 20*time.Millisecond))
	}
	var err error
	for _, l := range c.lanes {
		err = errors.Join(err, proven(t, l.x))
	}
	t.Logf("on another server after %v of a session timeout of %v: %v", time.Since(began).Round(10*time.Millisecond), timeout, err)
	if err != nil {
		require.NoError(t, client.Close())
		return false
	}
	require.NoError(t, c.unlock(t))
	return true
}

// proven verifies a lease until it is proven, or lost: the error says how.
func proven(t *testing.T, x *recipes.Lease) error {
	err := x.Verify(t.Context())
	for err != nil && x.Context().Err() == nil {
		err = x.Verify(t.Context())
	}
	return err
}

// Rows 18 to 20, 24 and 26 of the failure matrix, as far as signals make them.
func TestRealEnsembleHasOneBelieverAtATime(t *testing.T) {
	effort.Proof(t, effort.Raced)
	t.Parallel()
	servers := realzk.StartEnsemble(t, 3, realzk.Options{TickTime: realTick, Config: longSessions,
		Properties: map[string]string{"zookeeper.forceSync": "no"}})
	e := together(t, servers)

	t.Run("the holder's follower stops", func(t *testing.T) {
		leader, followers := e.roles()
		e.stopped(t, followers[0], leader, followers[1])
	})

	t.Run("the leader, with the holder on it, stops and comes back", func(t *testing.T) {
		leader, followers := e.roles()
		e.stopped(t, leader, followers...)
	})

	t.Run("the holder's server stops and another one is known", func(t *testing.T) {
		timeout := 20 * time.Second
		for !e.moved(t, timeout) {
			timeout += 20 * time.Second
			require.LessOrEqual(t, timeout, busyTimeout, "the lease is lost though there is another server")
		}
	})

	t.Run("the leader is killed while a lock is held", func(t *testing.T) {
		leader, followers := e.roles()
		client := e.client(t, busyTimeout, followers...)
		c := holdAll(t, client)
		rivals := c.waiting(e.client(t, busyTimeout, followers...))
		c.queued(t, client, 1)
		leader.Kill()
		killed := time.Now()
		c.outlasts(t)
		t.Logf("proven under a new leader after %v", time.Since(killed).Round(10*time.Millisecond))
		require.NoError(t, c.unlock(t))
		c.granted(t, rivals)
		for i, y := range c.granted(t, c.waiting(client)) {
			require.Greater(t, y.Token()>>32, c.lanes[i].x.Token()>>32, "a token of the next epoch")
		}
	})
}
