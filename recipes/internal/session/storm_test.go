package session

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// crowd is many clients of one server; each holds a node. It notes when they dial.
type crowd struct {
	t      *testing.T
	srv    *zktest.Server
	admits func() bool // whether the server accepts one more connection; it ends the others without a word

	mu    sync.Mutex
	dials []time.Time
}

func (c *crowd) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	c.dials = append(c.dials, time.Now())
	admitted := c.admits == nil || c.admits()
	c.mu.Unlock()
	conn, err := c.srv.DialContext(ctx, network, address)
	if err == nil && !admitted {
		_ = conn.Close()
	}
	return conn, err
}

// gather dials n clients one after another, so that their heartbeats and pings are due at different times.
func (c *crowd) gather(n int, timeout time.Duration) (all []*Session) {
	for i := range n {
		client, err := Dial(c.t.Context(), Config{Servers: []string{"zk"}, Dialer: c.dial, SessionTimeout: timeout})
		require.NoError(c.t, err)
		c.t.Cleanup(func() { _ = client.Close() })
		s, err := client.Session(c.t.Context())
		require.NoError(c.t, err)
		mine := s.mustCreate(c.t, fmt.Sprintf("/mine%d", i), zk.FlagEphemeral)
		release, err := s.Hold(c.t.Context(), func(err error) { c.t.Errorf("client %d lost its node: %v", i, err) }, mine)
		require.NoError(c.t, err)
		c.t.Cleanup(release)
		all = append(all, s)
		time.Sleep(timeout / time.Duration(n))
	}
	time.Sleep(timeout)
	c.mu.Lock()
	c.dials = nil
	c.mu.Unlock()
	return all
}

// most is the largest number of dials in any span of time.
func (c *crowd) most(span time.Duration) (most int) {
	first := 0
	for i, at := range c.dials {
		for at.Sub(c.dials[first]) >= span {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// A restarted server, or one told to shed its clients (ZOOKEEPER-5015), had all of them back in one moment. Holders wait no
// longer than their next heartbeat. They come back within T/12, at most half of them in any T/60. In steady state no client
// dials.
func TestAThousandClientsComeBackOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 30 * time.Second
		n := effort.Of(1000, 200)
		c := &crowd{t: t, srv: zktest.Start(t)}
		all := c.gather(n, timeout)
		began := time.Now()
		c.srv.ResetCounts()
		c.srv.Disconnect(0)
		time.Sleep(time.Minute)
		require.Len(t, c.dials, n, "one connection each, and no second attempt")
		last := c.dials[len(c.dials)-1].Sub(began)
		require.LessOrEqual(t, last, timeout/12)
		peak := c.most(timeout / 60)
		require.LessOrEqual(t, peak, n/2, "of %d in half a second", n)
		require.Equal(t, n, c.srv.Counts().Connections)
		for _, s := range all {
			require.NoError(t, s.Err())
		}
		t.Logf("%d clients with a timeout of %v came back within %v: at most %d in %v, %d in 100 ms", n, timeout, last, peak, timeout/60, c.most(100*time.Millisecond))
	})
}

// Connection throttling (connection_throttle_tokens) ends a connection without an answer when there are too many at a time.
func TestAThousandClientsComeBackToAServerThatAdmitsAHundredASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 40 * time.Second
		n := effort.Of(1000, 200)
		c := &crowd{t: t, srv: zktest.Start(t)}
		all := c.gather(n, timeout)
		rate, tokens, filled := n/10, 0.0, time.Now()
		c.admits = func() bool { // the clients' lock is held
			tokens = min(float64(rate), tokens+time.Since(filled).Seconds()*float64(rate))
			filled = time.Now()
			if tokens < 1 {
				return false
			}
			tokens--
			return true
		}
		began := time.Now()
		c.srv.Disconnect(0)
		time.Sleep(2 * time.Minute)
		for _, s := range all {
			require.NoError(t, s.Err())
			require.Equal(t, StateActive, s.State())
		}
		last := c.dials[len(c.dials)-1].Sub(began)
		require.LessOrEqual(t, last, timeout/2, "no lease lasts longer")
		second := c.most(time.Second)
		require.LessOrEqual(t, second, 2*n, "between two attempts a client waits for half a T/32 at least")
		t.Logf("%d clients came back within %v with %d attempts, at most %d in a second", n, last, len(c.dials), second)
	})
}
