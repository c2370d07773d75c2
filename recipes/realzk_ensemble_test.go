//go:build linux

package recipes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// believers checks, at each grant, that nobody granted before still believes to hold.
type believers struct {
	mu     sync.Mutex
	leases []*Lease
}

// granted is to be called as soon as Lock has returned. Who looks at the clock knows that a lease is over; that its context
// says so, too, takes a timer, which a machine that has just stopped may run later than the goroutine that calls this.
func (b *believers) granted(x *Lease) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, other := range b.leases {
		if other.Context().Err() == nil && time.Now().Before(other.Deadline()) {
			return fmt.Errorf("%s is granted while %s is believed to be held", x.Node(), other.Node())
		}
		if other.Token() >= x.Token() && other.Token() != 0 {
			return fmt.Errorf("token %d after %d", x.Token(), other.Token())
		}
	}
	b.leases = append(b.leases, x)
	return nil
}

// contend locks, holds for a moment and unlocks, over and over, until ctx ends. What a broken ensemble costs is not an
// error; two believers are.
func (b *believers) contend(ctx context.Context, m *Mutex) error {
	for ctx.Err() == nil {
		x, err := m.Lock(ctx)
		if errors.Is(err, ErrClosed) {
			return nil
		}
		if err != nil {
			_ = pauseFor(ctx, 50*time.Millisecond)
			continue
		}
		if err := b.granted(x); err != nil {
			return err
		}
		_ = pauseFor(x.Context(), 30*time.Millisecond)
		unlock, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = x.Unlock(unlock)
		cancel()
	}
	return nil
}

// busyTimeout is for a lease that must outlast what the servers of a busy machine take for an election or a restart; the
// servers have to allow it.
const busyTimeout = 60 * time.Second

var longSessions = map[string]string{"maxSessionTimeout": "60000"}

// ensemble is three real servers with a mutex at /m.
type ensemble struct {
	t       *testing.T
	servers []*realzk.Server
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
		require.Less(e.t, time.Since(began), patience, "the ensemble does not come together")
		require.NoError(e.t, pauseFor(e.t.Context(), 50*time.Millisecond))
	}
}

func (e *ensemble) client(t *testing.T, timeout time.Duration, servers ...*realzk.Server) *Client {
	t.Helper()
	cfg := Config{SessionTimeout: timeout, ConnectTimeout: patience}
	for _, s := range servers {
		cfg.Servers = append(cfg.Servers, s.Addr)
	}
	c, err := Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// contest is a holder, and rivals that want the lock again and again.
type contest struct {
	believers
	x    *Lease
	stop func() // waits for the rivals, and fails if they saw two believers
}

// contest begins one: the holder knows the servers in on, each rival one of at. Where the machine stops for so long that the
// lease is over before all of them queue, it begins again.
func (e *ensemble) contest(t *testing.T, timeout time.Duration, on, at []*realzk.Server) *contest {
	t.Helper()
	watcher := e.client(t, busyTimeout, e.servers...)
	for tries := 1; ; tries++ {
		c := &contest{}
		var err error
		c.x, err = e.client(t, timeout, on...).Mutex("/m").Lock(t.Context())
		if err == nil {
			require.NoError(t, c.granted(c.x))
			c.rival(t, e, timeout, at)
			if queuedUnless(t, watcher, "/m", 1+len(at), c.x.Context().Done()) {
				return c
			}
			c.stop()
			err = context.Cause(c.x.Context())
		}
		require.True(t, errors.Is(err, ErrLost) || errors.Is(err, ErrSessionLost), "%v", err)
		require.Less(t, tries, 20, "no lease lasts until its rivals queue: %v", err)
	}
}

// rival lets one client for each of the servers contend until the end.
func (c *contest) rival(t *testing.T, e *ensemble, timeout time.Duration, at []*realzk.Server) {
	ctx, end := context.WithCancel(t.Context())
	failed := make(chan error, len(at))
	for _, s := range at {
		client := e.client(t, timeout, s)
		go func() { failed <- c.contend(ctx, client.Mutex("/m")) }()
	}
	c.stop = func() {
		end()
		for range at {
			require.NoError(t, <-failed)
		}
	}
}

// stopped pauses a server under a holder that knows no other, and lets rivals on the rest contend.
func (e *ensemble) stopped(t *testing.T, victim *realzk.Server, rest ...*realzk.Server) {
	const timeout = 4 * time.Second // eight ticks
	c := e.contest(t, timeout, []*realzk.Server{victim}, rest)
	victim.Pause()
	defer victim.Resume()
	paused := time.Now()
	lostInTime(t, c.x, paused, timeout)
	c.atLeast(t, 4)
	t.Logf("lost after %v; four grants after %v", timeout/2, time.Since(paused).Round(10*time.Millisecond))
	victim.Resume()
	c.atLeast(t, 10)
	c.stop()
}

// moved pauses the server of a holder that knows another one, and says whether the session went there. It does not where the
// machine stopped for longer than the session had time.
func (e *ensemble) moved(t *testing.T, timeout time.Duration) bool {
	_, followers := e.roles()
	c := e.client(t, timeout, followers...)
	x, err := c.Mutex("/m").Lock(t.Context())
	require.NoError(t, err)
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	on, _, _ := s.guard.hosts.current()
	for _, f := range followers {
		if f.Addr == on.addr {
			f.Pause()
			defer f.Resume()
		}
	}
	began := time.Now()
	for s.linkNumber() < 2 && x.Context().Err() == nil {
		require.NoError(t, pauseFor(t.Context(), 20*time.Millisecond))
	}
	err = proven(t, x)
	t.Logf("on another server after %v of a session timeout of %v: %v", time.Since(began).Round(10*time.Millisecond), timeout, err)
	if err != nil {
		return false
	}
	require.NoError(t, x.Unlock(t.Context()))
	return true
}

// proven verifies a lease until it is proven, or lost: the error says how.
func proven(t *testing.T, x *Lease) error {
	err := x.Verify(t.Context())
	for err != nil && x.Context().Err() == nil {
		err = x.Verify(t.Context())
	}
	return err
}

// outlasts requires that what has happened to the servers has not cost a lease.
func outlasts(t *testing.T, x *Lease) {
	t.Helper()
	require.NoError(t, proven(t, x), "%v", context.Cause(x.Context()))
	require.NoError(t, x.Context().Err())
}

// atLeast waits for that many grants. When there are none at all for so long, the servers' logs, which a failed test prints,
// say more than a run that times out.
func (b *believers) atLeast(t *testing.T, n int) {
	t.Helper()
	for last, since := -1, time.Now(); ; {
		b.mu.Lock()
		got := len(b.leases)
		b.mu.Unlock()
		if got >= n {
			return
		}
		if got != last {
			last, since = got, time.Now()
		}
		require.Less(t, time.Since(since), patience, "nobody is granted the lock any more, after %d of %d", got, n)
		require.NoError(t, pauseFor(t.Context(), 20*time.Millisecond))
	}
}

// Rows 18 to 20, 24 and 26 of the failure matrix, as far as signals make them.
func TestRealEnsembleHasOneBelieverAtATime(t *testing.T) {
	t.Parallel()
	servers := realzk.StartEnsemble(t, 3, realzk.Options{TickTime: realTick, Config: longSessions,
		Properties: map[string]string{"zookeeper.forceSync": "no"}})
	e := &ensemble{t, servers}
	declareReal(t, e.client(t, busyTimeout, servers...), "/m", kind.Mutex.New())

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
		var b believers
		c := e.client(t, busyTimeout, followers...)
		x, err := c.Mutex("/m").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, b.granted(x))
		rival := async(func() (*Lease, error) {
			return e.client(t, busyTimeout, followers...).Mutex("/m").Lock(context.Background())
		})
		queued(t, c, "/m", 2)
		leader.Kill()
		killed := time.Now()
		outlasts(t, x)
		t.Logf("proven under a new leader after %v", time.Since(killed).Round(10*time.Millisecond))
		require.NoError(t, x.Unlock(t.Context()))
		r := <-rival
		require.NoError(t, r.err)
		require.NoError(t, b.granted(r.v))
		require.NoError(t, r.v.Unlock(t.Context()))
		y, err := c.Mutex("/m").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, b.granted(y))
		require.Greater(t, y.Token()>>32, x.Token()>>32, "a token of the next epoch")
		require.NoError(t, y.Unlock(t.Context()))
	})
}
