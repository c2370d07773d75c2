package zktest_test

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// client is a go-zookeeper connection that lets a bubble end: closing it waits for its goroutines.
type client struct {
	*zk.Conn
	t      testing.TB
	events <-chan zk.Event
	states chan zk.State
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// hosts is a host provider without shuffling or name resolution. It gives the hosts in turn, and pauses after each pass. So a test in fake
// time is the same every time.
type hosts struct {
	fixed []string // in this order, whatever Init is told
	i     int
}

func (h *hosts) Init([]string) error { return nil }
func (h *hosts) Len() int            { return len(h.fixed) }
func (h *hosts) Connected()          {}

func (h *hosts) Next() (string, bool) {
	host, pause := h.fixed[h.i%len(h.fixed)], h.i > 0 && h.i%len(h.fixed) == 0
	h.i++
	return host, pause
}

type dialer = func(network, address string, timeout time.Duration) (net.Conn, error)

// dial connects and waits for the session.
func dial(t testing.TB, s *zktest.Server, timeout time.Duration) *client {
	t.Helper()
	return dialVia(t, timeout, map[string]dialer{"zk:2181": s.Dialer()}, "zk:2181")
}

// dialVia connects through one dialer per host name, in the given order.
func dialVia(t testing.TB, timeout time.Duration, dialers map[string]dialer, order ...string) *client {
	t.Helper()
	c := &client{t: t, states: make(chan zk.State, 1000)}
	var err error
	c.Conn, c.events, err = zk.Connect(order, timeout, zk.WithHostProvider(&hosts{fixed: order}),
		zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			return dialers[address](network, address, timeout)
		}), zk.WithLogger(quiet{}), zk.WithLogInfo(false), zk.WithEventCallback(func(e zk.Event) {
			if e.Type == zk.EventSession {
				c.states <- e.State
			}
		}))
	require.NoError(t, err)
	c.await(zk.StateHasSession)
	return c
}

func (c *client) mustCreate(path string, flags int32) {
	c.t.Helper()
	require.NoError(c.t, <-c.creating(path, flags))
}

// creating starts a create, and returns a channel with the outcome.
func (c *client) creating(path string, flags int32) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := c.Create(path, nil, flags, open)
		done <- err
	}()
	return done
}

func (c *client) data(path string) string {
	c.t.Helper()
	data, _, err := c.Get(path)
	require.NoError(c.t, err)
	return string(data)
}

func (c *client) there(path string) bool {
	c.t.Helper()
	ok, _, err := c.Exists(path)
	require.NoError(c.t, err)
	return ok
}

func (c *client) watch(path string) <-chan zk.Event {
	c.t.Helper()
	_, _, events, err := c.GetW(path)
	require.NoError(c.t, err)
	return events
}

// exists asks the server itself.
func exists(s *zktest.Server, path string) bool {
	_, ok := s.Get(path)
	return ok
}

// await waits for the client to reach a state.
func (c *client) await(want zk.State) {
	c.t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case got := <-c.states:
			if got == want {
				synctest.Wait() // until go-zookeeper has set its watches again: it reads lastZxid without a lock, and each reply writes it
				return
			}
		case <-deadline:
			c.t.Fatalf("the client did not reach %v within a minute", want)
		}
	}
}

// end closes the session and joins the client.
func (c *client) end() {
	c.Close()
	for range c.events {
	}
}

// abandon drops the connection for good without closing the session.
func (c *client) abandon(s *zktest.Server) {
	s.RefuseDials(true)
	s.Disconnect(c.SessionID())
	c.end()
	s.RefuseDials(false)
}

var open = zk.WorldACL(zk.PermAll)

// bubble runs a test in fake time with a server and a client.
func bubble(t *testing.T, opts []zktest.Option, f func(t *testing.T, s *zktest.Server, c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(opts...)
		defer s.Close()
		c := dial(t, s, 10*time.Second)
		defer c.end()
		f(t, s, c)
	})
}
