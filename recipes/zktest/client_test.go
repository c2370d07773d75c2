package zktest_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// client is a go-zookeeper connection that a bubble can end with: closing it waits for its goroutines.
type client struct {
	*zk.Conn
	events <-chan zk.Event
	states chan zk.State
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// hosts is a host provider without shuffling or name resolution, so that a test in fake time is the same every time: the hosts in turn, a
// pause after each pass.
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

// dial connects and waits for the session.
func dial(t testing.TB, s *zktest.Server, timeout time.Duration) *client {
	t.Helper()
	c := &client{states: make(chan zk.State, 1000)}
	var err error
	c.Conn, c.events, err = zk.Connect([]string{"zk:2181"}, timeout, zk.WithDialer(s.Dialer()),
		zk.WithHostProvider(&hosts{fixed: []string{"zk:2181"}}), zk.WithLogger(quiet{}), zk.WithLogInfo(false),
		zk.WithEventCallback(func(e zk.Event) {
			if e.Type == zk.EventSession {
				c.states <- e.State
			}
		}))
	require.NoError(t, err)
	c.await(t, zk.StateHasSession)
	return c
}

// await waits for the client to go through a state.
func (c *client) await(t testing.TB, want zk.State) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case got := <-c.states:
			if got == want {
				return
			}
		case <-deadline:
			t.Fatalf("the client did not reach %v within a minute", want)
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
