package harness

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/session"
)

// spy remembers the session id and the password that a server granted. They suffice to end the session.
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

// A Thief makes connections that remember what the server granted on them: enough to end the session in its owner's name.
type Thief struct {
	Next func(ctx context.Context, network, address string) (net.Conn, error)

	mu   sync.Mutex
	addr string // the address that was dialled last
	seen []byte
}

// Dial is a Config.Dialer.
func (th *Thief) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := th.Next(ctx, network, address)
	th.mu.Lock()
	defer th.mu.Unlock()
	th.seen, th.addr = nil, address
	return spy{c, &th.mu, &th.seen}, err
}

// End closes s over other connections, with its id and password. The owner is cut off, and takes the session back when it
// reconnects. So End repeats until the session is over.
func (th *Thief) End(t *testing.T, s *session.Session) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); s.State() != session.StateLost; {
		require.True(t, time.Now().Before(deadline), "the session does not end")
		th.mu.Lock()
		grant, addr := append([]byte(nil), th.seen...), th.addr
		th.mu.Unlock()
		if len(grant) > 40 {
			th.endOnce(t.Context(), addr, grant[4:])
		}
		require.NoError(t, Pause(t.Context(), 20*time.Millisecond))
	}
}

func (th *Thief) endOnce(ctx context.Context, addr string, grant []byte) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := th.Next(ctx, "tcp", addr)
	if err != nil { // the machine is busy; End tries again
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	const closeSession = -11
	id, password := grant[8:16], grant[16:36] // after protocol version and timeout; the password includes its length
	attach := hostile.Frame(hostile.Cat(hostile.Be32(0), hostile.Be64(0), hostile.Be32(20_000), id, password, []byte{0})...)
	if _, err = c.Write(append(attach, hostile.Frame(hostile.Cat(hostile.Be32(1), hostile.Be32(closeSession))...)...)); err == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}
