//go:build linux

// Package ensemble_test uses locks on servers of Apache ZooKeeper that are stopped, killed, cut off from each other or short of disk.
package ensemble_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// network is an ensemble of three whose members can be cut off from each other and from us.
type network struct {
	ensemble
	net *realzk.Network
}

// alone cuts a server off from the others, or connects it to them again. Its clients reach it in either case.
func (n *network) alone(victim *realzk.Server, parted bool) {
	for _, s := range n.servers {
		if s != victim {
			n.net.Part(victim, s, parted)
		}
	}
}

// lostInTime waits for the end of a lease whose last committed write may have been sent at since. It checks the deadline, because the
// machine decides when the timer runs. The believers notice whether two held at once.
func lostInTime(t *testing.T, x *recipes.Lease, since time.Time, timeout time.Duration) {
	t.Helper()
	<-x.Context().Done()
	require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
	require.False(t, x.Deadline().After(since.Add(timeout/2)), "half a session timeout after the last proof")
}

// Rows 19 to 23, 25, 26 and 29 of the failure matrix (recipes/testdata/failure-cases.md), with a network that loses packets.
func TestRealPartitions(t *testing.T) {
	effort.Proof(t, effort.Raced)
	t.Parallel()
	net := realzk.InNetwork(t)
	if net == nil {
		return
	}
	servers := net.StartEnsemble(3, realzk.Options{TickTime: realTick, Config: map[string]string{
		"maxSessionTimeout": "60000", "syncLimit": "8"}, // a leader that stalls for three ticks stays the leader, even on a busy machine
		Properties: map[string]string{"zookeeper.forceSync": "no"}})
	n := &network{together(t, servers), net}

	for _, timeout := range []time.Duration{4 * time.Second, 6 * time.Second} {
		t.Run("row 19: a follower is cut off with the holder on it, "+timeout.String(), func(t *testing.T) {
			leader, followers := n.roles()
			n.cutOff(t, timeout, followers[0], leader, followers[1])
		})
	}
	t.Run("row 20: the leader is cut off with the holder on it", func(t *testing.T) {
		leader, followers := n.roles()
		n.cutOff(t, 4*time.Second, leader, followers...)
	})

	t.Run("row 21: the leader is cut off with the holder on it, the others crash and come back", func(t *testing.T) {
		leader, followers := n.roles()
		c := n.contest(t, 4*time.Second, []*realzk.Server{leader}, followers)
		n.alone(leader, true)
		parted := time.Now()
		for _, f := range followers {
			f.Kill()
		}
		for _, f := range followers {
			f.RestartWithoutWaiting()
		}
		c.lost(t, parted)
		c.atLeast(t, 5)
		n.alone(leader, false)
		c.stop()
		n.roles()
	})

	for name, cut := range map[string]func(*realzk.Server, bool){
		"to the server":   func(s *realzk.Server, lost bool) { net.Lose(nil, s, lost) },
		"from the server": func(s *realzk.Server, lost bool) { net.Lose(s, nil, lost) },
	} {
		t.Run("row 22: what goes "+name+" is lost", func(t *testing.T) {
			leader, followers := n.roles()
			c := n.contest(t, 4*time.Second, followers[:1], []*realzk.Server{leader, followers[1]})
			cut(followers[0], true)
			defer cut(followers[0], false)
			c.lost(t, time.Now())
			c.atLeast(t, 5)
			c.stop()
		})
	}

	t.Run("row 23: packets are lost in bursts everywhere", func(t *testing.T) {
		_, _ = n.roles()
		c := n.contest(t, 6*time.Second, servers, servers)
		_ = c.unlock(t) // it may be lost
		everybody := append([]*realzk.Server{nil}, servers...)
		for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
			from, to := everybody[rand.IntN(4)], everybody[rand.IntN(4)]
			if from == to {
				continue
			}
			net.Lose(from, to, true)
			require.NoError(t, harness.Pause(t.Context(), time.Duration(rand.IntN(120))*time.Millisecond))
			net.Lose(from, to, false)
		}
		for _, l := range c.lanes {
			during := l.grants()
			l.atLeast(t, during+5)
			t.Logf("%s: %d grants meanwhile", l.name, during)
		}
		c.stop()
	})

	t.Run("row 25: the servers are restarted one after the other", func(t *testing.T) {
		c := holdAll(t, n.client(t, busyTimeout, servers...))
		for _, s := range servers {
			n.roles()
			s.Restart()
		}
		n.roles()
		c.outlasts(t)
		require.NoError(t, c.unlock(t))
	})

	for _, row := range []struct {
		timeout time.Duration
		without float64 // how long there is no quorum, as a part of the session timeout
		kept    bool
	}{{busyTimeout, 0.1, true}, {6 * time.Second, 0.75, false}, {6 * time.Second, 3, false}} {
		t.Run(fmt.Sprintf("row 26: no quorum for %v of a session timeout of %v", row.without, row.timeout), func(t *testing.T) {
			_, followers := n.roles()
			c := n.contest(t, row.timeout, servers, followers)
			// The followers are paused, not the leader. A leader of 3.8.0 that is paused together with a follower goes on in its old
			// epoch: it proposes to expire sessions. When the followers come back, it takes the first acknowledgement of such a
			// proposal for that of NEWLEADER. The ensemble then looks well, but never commits again (ZOOKEEPER-4685; 1 run in 20).
			for _, f := range followers {
				f.Pause()
				defer f.Resume()
			}
			began := time.Now()
			_ = harness.Pause(t.Context(), time.Duration(row.without*float64(c.timeout)))
			for _, f := range followers {
				f.Resume()
			}
			if row.kept {
				c.outlasts(t)
			} else {
				c.lost(t, began)
			}
			_ = c.unlock(t)
			c.atLeast(t, 5)
			c.stop()
		})
	}

	t.Run("row 29: the leader stalls again and again", func(t *testing.T) {
		const timeout = 20 * time.Second // a heartbeat each 3.3 s; the lease is lost after 10 s without a proof
		leader, _ := n.roles()
		c := holdAll(t, n.client(t, timeout, servers...))
		for range 5 {
			leader.Pause()
			_ = harness.Pause(t.Context(), 1500*time.Millisecond) // within syncLimit
			leader.Resume()
			_ = harness.Pause(t.Context(), 500*time.Millisecond)
		}
		c.outlasts(t)
		require.NoError(t, c.unlock(t))
	})
}

// Row 40 of the failure matrix. Read-only servers have an ensemble of their own, because ZooKeeper 3.8.0 with this mode did not always
// commit again after it had lost its quorum for 24 s.
func TestRealReadOnlyServerIsNotUsed(t *testing.T) {
	effort.Proof(t, effort.Raced)
	t.Parallel()
	servers := realzk.StartEnsemble(t, 3, realzk.Options{TickTime: realTick, Config: longSessions,
		Properties: map[string]string{"zookeeper.forceSync": "no", "readonlymode.enabled": "true"}})
	e := together(t, servers)
	c := e.contest(t, 4*time.Second, servers[:1], nil)
	servers[1].Kill()
	servers[2].Kill()
	lost := time.Now()
	for !strings.Contains(servers[0].Word("srvr"), "read-only") {
		require.Less(t, time.Since(lost), hostile.Patience)
		require.NoError(t, harness.Pause(t.Context(), 50*time.Millisecond))
	}
	c.lost(t, lost)
	refused(t, recipes.Config{Servers: []string{servers[0].Addr}, SessionTimeout: c.timeout}, "quorum")
	servers[1].RestartWithoutWaiting()
	c.granted(t, c.waiting(e.client(t, busyTimeout, servers[0], servers[1]))) // a waiter is granted once there are two servers
}

// cutOff cuts a server off from the others while it serves the holder, and lets rivals on the rest contend. In this case a heartbeat of
// pings left two believers for 5.82 s, and a heartbeat of sync requests for 2.17 s.
func (n *network) cutOff(t *testing.T, timeout time.Duration, victim *realzk.Server, rest ...*realzk.Server) {
	c := n.contest(t, timeout, []*realzk.Server{victim}, rest)
	n.alone(victim, true)
	parted := time.Now()
	c.lost(t, parted)
	lost := time.Since(parted)
	c.atLeast(t, 2)
	t.Logf("lost after %v, a rival granted after %v", lost.Round(10*time.Millisecond), time.Since(parted).Round(10*time.Millisecond))
	c.atLeast(t, 5)
	n.alone(victim, false)
	c.atLeast(t, 10)
	c.stop()
	n.roles()
}

// busyTimeout is for a lease that must outlast an election or a restart of the servers on a busy machine. The servers have to allow such
// a timeout.
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

// moved pauses the server of a holder that knows another one, and says whether the session moved there. The session does not move if the
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

// proven verifies a lease until it is proven or lost. If it is lost, the error says how.
func proven(t *testing.T, x *recipes.Lease) error {
	err := x.Verify(t.Context())
	for err != nil && x.Context().Err() == nil {
		err = x.Verify(t.Context())
	}
	return err
}

// Rows 19, 20 and 26 of the failure matrix, as far as signals can cause them.
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
