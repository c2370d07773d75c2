package recipes

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

var openACL = zk.WorldACL(zk.PermAll)

// pipeTo dials a server through net.Pipe, so that the client runs in fake time.
func pipeTo(srv *zktest.Server) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		by, _ := ctx.Deadline()
		return srv.Dialer()(network, address, time.Until(by))
	}
}

// open dials a client with a session timeout of 12 s and returns it with its session. It is closed with the test.
func open(t *testing.T, srv *zktest.Server, change ...func(*Config)) (*Client, *Session) {
	t.Helper()
	cfg := Config{Servers: []string{"zk"}, Dialer: pipeTo(srv), SessionTimeout: 12 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	c, err := Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	return c, s
}

// create makes a node and fails the test when it cannot.
func (s *Session) mustCreate(t *testing.T, path string, flags int32) string {
	t.Helper()
	created, err := s.Create(t.Context(), path, nil, flags, openACL)
	require.NoError(t, err)
	return created
}

// script is one hostile or broken server: it is given each connection.
type script func(net.Conn)

// peers dials scripts by name, over net.Pipe; an unknown name is refused. Its wait joins their goroutines.
type peers struct {
	scripts map[string]script
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

// frameOf puts a length in front of a body.
func frameOf(body ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func be32(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
func be64(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func cat(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// readFrame reads one frame's body; nil at the end of the connection.
func readFrame(c net.Conn) []byte {
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		return nil
	}
	return body
}

// grantOf is the answer to a connect request.
func grantOf(id int64, timeoutMS int32) []byte {
	return frameOf(cat(be32(0), be32(timeoutMS), be64(id), be32(16), make([]byte, 16))...)
}

// answering grants a session, answers pings, auth and closeSession, and leaves the rest to reply, which returns whole
// frames to send, or nil to hang up.
func answering(id int64, timeoutMS int32, reply func(r request) []byte) script {
	return func(c net.Conn) {
		if readFrame(c) == nil {
			return
		}
		if _, err := c.Write(grantOf(id, timeoutMS)); err != nil {
			return
		}
		for body := readFrame(c); body != nil; body = readFrame(c) {
			r := parseRequest(body)
			answer := frameOf(cat(be32(r.xid), be64(1), be32(0))...)
			if r.op != opPing && r.op != opSetAuth && r.op != opClose {
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

// silence reads and says nothing until the connection ends.
func silence(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// saying reads the connect request, says something and then nothing more.
func saying(b []byte) script {
	return func(c net.Conn) {
		if readFrame(c) == nil {
			return
		}
		if _, err := c.Write(b); err == nil {
			silence(c)
		}
	}
}

func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// spy remembers the session id and password a server granted, which is all it takes to end somebody's session.
type spy struct {
	net.Conn
	mu   *sync.Mutex
	seen *[]byte
}

func (s spy) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.seen = append(*s.seen, p[:n]...)
	return n, err
}

// thief makes connections that remember what the server granted on them: enough to end the session in its owner's name.
type thief struct {
	dial func(context.Context, string, string) (net.Conn, error)
	mu   sync.Mutex
	seen []byte
}

func (th *thief) dialer(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := th.dial(ctx, network, address)
	th.mu.Lock()
	defer th.mu.Unlock()
	th.seen = nil
	return spy{c, &th.mu, &th.seen}, err
}

// end closes s over other connections, with its id and password. Its owner, cut off, takes it back: so until it is over.
func (th *thief) end(t *testing.T, s *Session) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); s.State() != Lost; {
		require.True(t, time.Now().Before(deadline), "the session does not end")
		th.mu.Lock()
		grant := append([]byte(nil), th.seen...)
		th.mu.Unlock()
		if len(grant) > 40 {
			th.endOnce(t.Context(), s, grant[4:])
		}
		require.NoError(t, pauseFor(t.Context(), 20*time.Millisecond))
	}
}

func (th *thief) endOnce(ctx context.Context, s *Session, grant []byte) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := th.dial(ctx, "tcp", s.client.servers[0])
	if err != nil { // a busy machine
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	g := cursor{b: grant}
	g.take(8)
	id := g.take(8)
	password := g.take(20) // with its length
	attach := frameOf(cat(be32(0), be64(0), be32(20_000), id, password, []byte{0})...)
	if _, err = c.Write(append(attach, frameOf(cat(be32(1), be32(opClose))...)...)); err == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}
