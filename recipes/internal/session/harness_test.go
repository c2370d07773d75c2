package session

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/session/wire"
	"github.com/locktree/locktree/recipes/zktest"
)

var openACL = zk.WorldACL(zk.PermAll)

// open dials a client with a session timeout of 12 s, and returns it with its session. The client is closed at the test's end.
func open(t *testing.T, srv *zktest.Server, change ...func(*Config)) (*Client, *Session) {
	t.Helper()
	cfg := Config{Servers: []string{"zk"}, Dialer: srv.DialContext, SessionTimeout: 12 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	c, err := Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c, c.mustSession(t)
}

// inSession runs f in a bubble, with a server, a client and its session.
func inSession(t *testing.T, f scene) { inSessionWith(t, func(*Config) {}, f) }

// scene is what a test does in a session.
type scene = func(t *testing.T, srv *zktest.Server, c *Client, s *Session)

func inSessionWith(t *testing.T, change func(*Config), f scene) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		c, s := open(t, srv, change)
		f(t, srv, c, s)
	})
}

// inSlowSession is inSession over a network with this latency each way.
func inSlowSession(t *testing.T, latency time.Duration, f scene) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.WithLatency(latency))
		c, s := open(t, srv)
		f(t, srv, c, s)
	})
}

func runInSession(t *testing.T, name string, f scene) {
	t.Run(name, func(t *testing.T) { inSession(t, f) })
}

func runInBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// writer is a connection with a Write of its own.
type writer struct {
	net.Conn
	write func([]byte) (int, error)
}

func (w writer) Write(b []byte) (int, error) { return w.write(b) }

// through dials srv, and lets a test change the n-th connection, from 1.
func through(srv *zktest.Server, change func(n int, c net.Conn) net.Conn) func(*Config) {
	var n atomic.Int32
	return func(cfg *Config) {
		cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := srv.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return change(int(n.Add(1)), conn), nil
		}
	}
}

// cutOff ends the connections, and makes the server refuse new ones.
func cutOff(srv *zktest.Server) {
	srv.RefuseDials(true)
	srv.Disconnect(0)
	synctest.Wait()
}

// going calls f in a goroutine, and returns a channel for its result.
func going(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// dialled connects a client that newClient made.
func (c *Client) dialled(t *testing.T) {
	t.Helper()
	c.session = newSession(c)
	require.NoError(t, c.connect(t.Context(), c.session))
}

func (c *Client) mustSession(t *testing.T) *Session {
	t.Helper()
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	return s
}

func (s *Session) mustHold(t *testing.T, lost func(error), paths ...string) (release func()) {
	t.Helper()
	release, err := s.Hold(t.Context(), lost, paths...)
	require.NoError(t, err)
	return release
}

func (s *Session) mustRead(t *testing.T, path string) {
	t.Helper()
	_, _, err := s.Get(t.Context(), path)
	require.NoError(t, err)
}

// watch reads and watches a node, watchList its children.
func (s *Session) watch(t *testing.T, path string) *Watch {
	t.Helper()
	_, _, w, err := s.GetW(t.Context(), path)
	require.NoError(t, err)
	return w
}

func (s *Session) watchList(t *testing.T, path string) *Watch {
	t.Helper()
	_, _, w, err := s.ChildrenW(t.Context(), path)
	require.NoError(t, err)
	return w
}

// holding makes an ephemeral node, and holds it until the test ends.
func (s *Session) holding(t *testing.T, path string) {
	t.Helper()
	s.mustCreate(t, path, zk.FlagEphemeral)
	release, err := s.hold(nil, path)
	require.NoError(t, err)
	t.Cleanup(release)
}

// mustCreate makes a node, and fails the test if it cannot.
func (s *Session) mustCreate(t *testing.T, path string, flags int32) string {
	t.Helper()
	created, err := s.Create(t.Context(), path, nil, flags, openACL)
	require.NoError(t, err)
	return created
}

// GetW is GetCalled with a channel.
func (s *Session) GetW(ctx context.Context, path string) ([]byte, *zk.Stat, *Watch, error) {
	return s.GetCalled(ctx, path, nil)
}

// ChildrenW is ChildrenCalled with a channel.
func (s *Session) ChildrenW(ctx context.Context, path string) ([]string, *zk.Stat, *Watch, error) {
	return s.ChildrenCalled(ctx, path, nil)
}

// present returns the present connection.
func (s *Session) present() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link
}

// peers dials scripts by name, over net.Pipe; an unknown name is refused. Its wg waits for their goroutines.
type peers struct {
	scripts map[string]hostile.Script
	wg      sync.WaitGroup
	mu      sync.Mutex
	dials   int
}

func (p *peers) dial(_ context.Context, _, address string) (net.Conn, error) {
	p.mu.Lock()
	p.dials++
	p.mu.Unlock()
	serve, ok := p.scripts[address]
	if !ok {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	p.wg.Go(func() {
		defer theirs.Close()
		serve(theirs)
	})
	return ours, nil
}

// meet dials a server that follows a script, and returns the session that it grants.
func meet(t *testing.T, script hostile.Script) (*peers, *Session) {
	t.Helper()
	p := &peers{scripts: map[string]hostile.Script{"bad:2181": script}}
	c, err := Dial(t.Context(), Config{Servers: []string{"bad"}, Dialer: p.dial})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.Close() // an error when the peer is not back yet
		p.wg.Wait()
	})
	return p, c.mustSession(t)
}

// grantOf is the answer to a connect request.
func grantOf(id int64, timeoutMS int32) []byte {
	return hostile.Frame(hostile.Cat(hostile.Be32(0), hostile.Be32(timeoutMS), hostile.Be64(id), hostile.Be32(16), []byte("sixteen bytes .."))...)
}

// answering grants a session, and answers pings, auth and closeSession. It leaves the rest to reply, which returns whole frames to send,
// or nil to hang up.
func answering(id int64, timeoutMS int32, reply func(r request) []byte) hostile.Script {
	return func(c net.Conn) {
		if hostile.ReadFrame(c) == nil {
			return
		}
		if _, err := c.Write(grantOf(id, timeoutMS)); err != nil {
			return
		}
		for body := hostile.ReadFrame(c); body != nil; body = hostile.ReadFrame(c) {
			r := parseRequest(body)
			answer := hostile.Frame(hostile.Cat(hostile.Be32(r.xid), hostile.Be64(1), hostile.Be32(0))...)
			if r.op != wire.OpPing && r.op != wire.OpAuth && r.op != wire.OpCloseSession {
				answer = reply(r)
			}
			if answer == nil {
				return
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	}
}

// request is the part of a frame that a server reads.
type request struct{ xid, op int32 }

func parseRequest(body []byte) request {
	c := wire.Decoder{B: body}
	return request{xid: c.Int32(), op: c.Int32()}
}

// statSize is the length of a stat: six 64-bit numbers and five of 32 bits.
const statSize = 68

func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// refused requires that Dial gets no session, and says why.
func refused(t *testing.T, cfg Config, why string) {
	t.Helper()
	hostile.Refused(t, func(connectTimeout time.Duration) error {
		cfg.ConnectTimeout = connectTimeout
		c, err := Dial(t.Context(), cfg)
		if err == nil {
			_ = c.Close()
		}
		require.ErrorIs(t, err, ErrUnreachable)
		return err
	}, why)
}
