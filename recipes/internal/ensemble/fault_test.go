//go:build linux

package ensemble_test

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

func TestRealHolderStoppedForAQuarterOfItsSessionKeepsItsLock(t *testing.T) {
	effort.Proof(t, effort.Raced)
	t.Parallel()
	srv, c := realServer(t)
	timeout := realTimeout / 2
	for !stoppedForAQuarter(t, srv, c, timeout) {
		t.Logf("this machine is too slow for a session timeout of %v", timeout)
		timeout = min(2*timeout, busyTimeout)
	}
}

// stoppedForAQuarter stops a holder twice, and says whether its session's timeout gave the machine the time for it.
func stoppedForAQuarter(t *testing.T, srv *realzk.Server, c *recipes.Client, timeout time.Duration) (inTime bool) {
	t.Helper()
	v := startVictim(t, srv.Addr, timeout)
	all := &contest{lanes: lanes()}
	got := all.waiting(c)
	all.queued(t, c, 1)
	inTime = true
	for i := 0; i < 2 && inTime; i++ {
		began := time.Now()
		before := v.proves()
		require.NoError(t, v.cmd.Process.Signal(syscall.SIGSTOP))
		require.NoError(t, harness.Pause(t.Context(), timeout/4))
		require.NoError(t, v.cmd.Process.Signal(syscall.SIGCONT))
		after := v.proves()
		if inTime = time.Since(began) < timeout*3/8; inTime { // what began proved lasts for half of it
			require.Equal(t, "<nil>", before)
			require.Equal(t, "<nil>", after)
			for i, l := range all.lanes {
				require.Empty(t, got[i], "%s: lost to the waiter", l.name)
			}
		}
	}
	require.NoError(t, v.cmd.Process.Kill())
	all.granted(t, got)
	return inTime
}

// robbed is a client whose session the thief can end.
func robbed(t *testing.T, addr string) (*recipes.Client, *harness.Thief) {
	t.Helper()
	th := &harness.Thief{Next: (&net.Dialer{}).DialContext}
	return dial(t, recipes.Config{Servers: []string{addr}, SessionTimeout: realTimeout, Dialer: th.Dial}), th
}

func TestRealSessionEndedInItsOwnersNameIsLost(t *testing.T) { // failure matrix, rows 11 and 12
	t.Parallel()
	srv, c := realServer(t)
	holder, a := robbed(t, srv.Addr)
	all := holdAll(t, holder)
	waiter, b := robbed(t, srv.Addr)
	w := all.waiting(waiter)
	all.queued(t, c, 1)
	last := all.waiting(c)
	all.queued(t, c, 2)
	b.End(t, live(t, waiter))
	for i, l := range all.lanes {
		require.ErrorIs(t, (<-w[i]).Err, recipes.ErrSessionLost, l.name)
		require.NoError(t, l.x.Verify(t.Context()), l.name)
	}
	a.End(t, live(t, holder))
	for _, l := range all.lanes {
		<-l.x.Context().Done()
		require.ErrorIs(t, context.Cause(l.x.Context()), recipes.ErrLost, l.name)
	}
	for i, x := range all.granted(t, last) {
		require.Greater(t, x.Token(), all.lanes[i].x.Token(), all.lanes[i].name)
	}
}

func TestRealRestartKeepsHolderQueueAndTokens(t *testing.T) { // failure matrix, row 25, with one server; case 33
	t.Parallel()
	// A busy machine took nine seconds to start a server: the session must outlive that.
	srv := realzk.Start(t, realzk.Options{TickTime: realTick, Config: longSessions})
	a, b := realClient(t, srv, "a"), realClient(t, srv, "b")
	declareLanes(t, a)
	all := holdAll(t, a)
	w := all.waiting(b)
	all.queued(t, a, 1)
	srv.Kill()
	deadline := all.lanes[0].x.Deadline() // without a server nothing is proven any more
	srv.Restart()
	for i, l := range all.lanes {
		err := proven(t, l.x)
		if time.Now().Before(deadline) { // else the server was away for longer than the lease lasts
			require.NoError(t, err, l.name)
			require.Empty(t, w[i], l.name)
		}
	}
	_ = all.unlock(t)
	all.granted(t, w)
}

// Row 41 of the failure matrix: whatever else answers on the port. What each peer costs alone is TestHostilePeerDuringHandshake's.
func TestRealServerIsFoundAmongHostilePorts(t *testing.T) {
	t.Parallel()
	srv, first := realServer(t)
	certificate, _ := hostile.Authority(t).Issue(t, "zk1")
	noise := make([]byte, 1<<16)
	for i := range noise {
		noise[i] = byte(i*7919 ^ i>>3)
	}
	servers := []string{srv.Addr}
	for _, s := range []hostile.Script{
		hostile.Saying([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")),
		hostile.Saying(hostile.Frame(0, 0, 0, 0)), hostile.Saying(noise), hostile.Saying(hostile.Frame(noise...)), hostile.Silence,
		func(c net.Conn) {
			_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}}).Handshake()
		},
		func(net.Conn) {},
	} {
		servers = append(servers, hostile.Listen(t, s))
	}
	for range 3 {
		c, err := recipes.Dial(t.Context(), recipes.Config{Servers: servers, SessionTimeout: realTimeout, ConnectTimeout: hostile.Patience})
		require.NoError(t, err)
		x := held(t, c.Mutex("/m").Lock)
		require.NoError(t, x.Unlock(t.Context()))
		hostile.Closed(t, c)
	}
	hostile.Closed(t, first)
}
