package session

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net/netip"
	"time"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// Server is one address of the ensemble, as this session would dial it.
type Server struct {
	Name string // as configured
	Here bool   // the session is connected to it
	t    target
}

// Elsewhere is the server at addr, host:port, which Config.Servers does not name: somebody else said that it is there. It can
// only be asked, and gets no client certificate.
func Elsewhere(addr string) Server {
	return Server{Name: addr, t: target{name: addr, addr: addr, told: true}}
}

// Address is what is dialled: a name from Config.Servers may stand for several.
func (s Server) Address() string { return s.t.addr }

// Addresses are those of a host, as the session itself would find them; only the host if that takes longer than ctx allows.
func (s *Session) Addresses(ctx context.Context, host string) []string {
	book := s.hosts.book
	if _, err := netip.ParseAddr(host); err != nil && book.resolve != nil {
		if ips, err := book.resolve(ctx, host); err == nil {
			return append(ips, host)
		}
	}
	return []string{host}
}

// TLS reports whether the session's connections are encrypted.
func (s *Session) TLS() bool { return s.client.tls.get != nil }

// String returns the name, followed by the address where that differs.
func (s Server) String() string {
	if s.Name == s.t.addr {
		return s.Name
	}
	return s.Name + " (" + s.t.addr + ")"
}

// Servers lists the addresses of the ensemble: a name may resolve to several.
func (s *Session) Servers() []Server {
	here := s.hosts.current()
	var out []Server
	for _, t := range s.hosts.all() {
		out = append(out, Server{Name: t.name, Here: t == here, t: t})
	}
	return out
}

// aside opens a second connection to a server, writes say and lets hear read the answer, for as long as ctx allows.
func (s *Session) aside(ctx context.Context, t target, say []byte, hear func(io.Reader) error) error {
	conn, shown, err := s.open(ctx, t)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	if err = ownFault(shown, talk(ctx, conn, say, hear)); err != nil {
		s.log.write(slog.LevelDebug, "check", "server", t.name, "cause", err)
	}
	return err
}

// Ask sends a four-letter word to a server and streams the answer to hear. Only ctx bounds its length.
func (s *Session) Ask(ctx context.Context, server Server, word string, hear func(io.Reader) error) error {
	return s.aside(ctx, server.t, []byte(word), hear)
}

// ReadOnly reports whether the session refuses every write before sending it.
func (s *Session) ReadOnly() bool { return s.client.cfg.ReadOnly }

// Zxid returns the newest transaction that a server has reported to this session.
func (s *Session) Zxid() int64 { return s.zxid.Load() }

// ShortestTimeout returns the shortest session timeout the server grants, in milliseconds; 0 when it does not answer. It
// opens a session that asks for one millisecond, and closes it with a closeSession right behind the connect request.
func (s *Session) ShortestTimeout(ctx context.Context) (ms int) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_ = s.aside(ctx, s.hosts.current(), closing(connectFrame(0, time.Millisecond, 0, newPassword), 1), func(r io.Reader) error {
		g, err := readGrant(r)
		ms = int(g.timeout)
		_, _ = io.Copy(io.Discard, r) // until it is closed
		return err
	})
	return ms
}

// connectFrame is a connect request, for a new session if id is 0.
func connectFrame(zxid int64, timeout time.Duration, id int64, password []byte) []byte {
	e := newEncoder(make([]byte, 4, 64))
	e.Int32(0) // protocol version
	e.Int64(zxid)
	e.Int32(int32(timeout / time.Millisecond))
	e.Int64(id)
	e.Buffer(password)
	e.Bool(false)                                       // not read-only
	binary.BigEndian.PutUint32(e.B, uint32(len(e.B)-4)) //nolint:gosec // 45
	return e.B
}

// newPassword is sent for a session that has none yet.
var newPassword = make([]byte, 16)

// closing appends a closeSession to frames.
func closing(frames []byte, xid int32) []byte {
	e := newEncoder(append(frames, 0, 0, 0, 8))
	e.Int32(xid)
	e.Int32(jute.OpCloseSession)
	return e.B
}

// readGrant reads the answer to a connect request.
func readGrant(r io.Reader) (grant, error) {
	body, err := readSmall(r)
	if err != nil {
		return grant{}, err
	}
	return parseGrant(body)
}

// readSmall reads a frame as short as the answer to a connect request.
func readSmall(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if n < replyHeader || n > maxConnectReply {
		return nil, explainLength([4]byte(head), maxConnectReply)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r, body)
	return body, err
}
