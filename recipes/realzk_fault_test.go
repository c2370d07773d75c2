//go:build linux

package recipes

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

func TestRealHolderStoppedForAQuarterOfItsSessionKeepsItsLock(t *testing.T) { // matrix 16
	srv, c := realServer(t)
	v := startVictim(t, srv.Addr, longTimeout)
	got := async(func() (*Lease, error) { return c.Mutex("/m").Lock(context.Background()) })
	queued(t, c, "/m", 2)
	for range 2 {
		require.NoError(t, v.cmd.Process.Signal(syscall.SIGSTOP))
		require.NoError(t, pauseFor(t.Context(), longTimeout/4)) // its last write may have been a sixth before
		require.NoError(t, v.cmd.Process.Signal(syscall.SIGCONT))
		require.NoError(t, pauseFor(t.Context(), longTimeout/8))
	}
	require.Empty(t, got, "the lock was lost to the waiter")
	require.NoError(t, v.cmd.Process.Kill())
	r := <-got
	require.NoError(t, r.err)
	require.NoError(t, r.v.Unlock(t.Context()))
}

// robbed is a client whose session the thief can end.
func robbed(t *testing.T, addr string) (*Client, *thief) {
	t.Helper()
	th := &thief{dial: (&net.Dialer{}).DialContext}
	c, err := Dial(t.Context(), Config{Servers: []string{addr}, SessionTimeout: 8 * time.Second, Dialer: th.dialer})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c, th
}

func TestRealSessionEndedInItsOwnersNameIsLost(t *testing.T) { // matrix 11 and 12
	srv, c := realServer(t)
	holder, a := robbed(t, srv.Addr)
	x, err := holder.Mutex("/m").Lock(t.Context())
	require.NoError(t, err)
	waiter, b := robbed(t, srv.Addr)
	w := async(func() (*Lease, error) { return waiter.Mutex("/m").Lock(context.Background()) })
	queued(t, c, "/m", 2)
	last := async(func() (*Lease, error) { return c.Mutex("/m").Lock(context.Background()) })
	queued(t, c, "/m", 3)
	b.end(t, waiter.session)
	require.ErrorIs(t, (<-w).err, ErrSessionLost)
	require.NoError(t, x.Verify(t.Context()))
	a.end(t, holder.session)
	<-x.Context().Done()
	require.ErrorIs(t, context.Cause(x.Context()), ErrLost)
	r := <-last
	require.NoError(t, r.err)
	require.Greater(t, r.v.Token(), x.Token())
	require.NoError(t, r.v.Unlock(t.Context()))
}

func TestRealRestartKeepsHolderQueueAndTokens(t *testing.T) { // matrix 25, with one server; case 33
	// A busy machine took nine seconds to start a server: the session must outlive that.
	srv := realzk.Start(t, realzk.Options{TickTime: 3 * realTick})
	open := func() *Client {
		c, err := Dial(t.Context(), Config{Servers: []string{srv.Addr}, SessionTimeout: 30 * time.Second, ConnectTimeout: 40 * time.Second})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	a, b := open(), open()
	declareReal(t, a, "/m", kind.Mutex.New())
	var held believers
	x, err := a.Mutex("/m").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, held.granted(x))
	w := async(func() (*Lease, error) { return b.Mutex("/m").Lock(context.Background()) })
	queued(t, a, "/m", 2)
	srv.Kill()
	killed := time.Now()
	srv.Restart()
	if back := time.Since(killed); back < 12*time.Second { // else half a session timeout has passed, and the lease with it
		require.NoError(t, x.Verify(t.Context()))
		require.Empty(t, w)
	}
	_ = x.Unlock(t.Context())
	r := <-w
	require.NoError(t, r.err)
	require.NoError(t, held.granted(r.v))
	require.NoError(t, r.v.Unlock(t.Context()))
}

// Matrix 41: whatever else answers on the port. What each peer costs alone is TestHostilePeerDuringHandshake's.
func TestRealServerIsFoundAmongHostilePorts(t *testing.T) {
	srv, first := realServer(t)
	certificate, _ := authority(t).issue(t, "zk1")
	noise := make([]byte, 1<<16)
	for i := range noise {
		noise[i] = byte(i*7919 ^ i>>3)
	}
	servers := []string{srv.Addr}
	for _, s := range []script{
		saying([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")),
		saying(frameOf(0, 0, 0, 0)), saying(noise), saying(frameOf(noise...)), silence,
		func(c net.Conn) {
			_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}}).Handshake()
		},
		func(net.Conn) {},
	} {
		servers = append(servers, listen(t, s))
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 3 {
		c, err := Dial(t.Context(), Config{Servers: servers, SessionTimeout: 8 * time.Second, ConnectTimeout: 10 * time.Second})
		require.NoError(t, err)
		x, err := c.Mutex("/m").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, x.Unlock(t.Context()))
		require.NoError(t, c.Close())
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
	require.NoError(t, first.Close())
}
