package session

import (
	"context"
	"encoding/binary"
	"io"
	"time"
)

// Server is one address of the ensemble, as this session would dial it.
type Server struct {
	Name string // as configured
	Here bool   // the session is connected to it
	t    target
}

// String is the address, and the name where it is another one.
func (s Server) String() string {
	if s.Name == s.t.addr {
		return s.Name
	}
	return s.Name + " (" + s.t.addr + ")"
}

// Servers lists the addresses of the ensemble: a name may stand for several.
func (s *Session) Servers() []Server {
	here, _, _ := s.guard.hosts.current()
	var out []Server
	for _, t := range s.guard.hosts.all() {
		out = append(out, Server{Name: t.name, Here: t == here, t: t})
	}
	return out
}

// aside opens a second connection to a server, and talks for as long as ctx allows.
func (s *Session) aside(ctx context.Context, t target, say []byte, hear func(io.Reader) error) error {
	conn, err := s.guard.open(ctx, "tcp", t)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })() // which has passed
	if _, err = conn.Write(say); err == nil {
		err = hear(conn)
	}
	if err != nil {
		s.log.Debug("check", "server", t.name, "cause", err)
	}
	return err
}

// asideFor bounds what is asked by the way.
const asideFor = 2 * time.Second

// Ask asks a four-letter word of a server and hands over the answer as it comes. Its length has no bound but ctx.
func (s *Session) Ask(ctx context.Context, server Server, word string, hear func(io.Reader) error) error {
	return s.aside(ctx, server.t, []byte(word), hear)
}

// Word asks a four-letter word of the server the session is on; "" when the server does not answer it.
func (s *Session) Word(ctx context.Context, word string) (answer string) {
	ctx, cancel := context.WithTimeout(ctx, asideFor)
	defer cancel()
	here, _, _ := s.guard.hosts.current()
	_ = s.aside(ctx, here, []byte(word), func(r io.Reader) error { // whatever goes wrong, less is known
		b, err := io.ReadAll(io.LimitReader(r, 64<<10))
		answer = string(b)
		return err
	})
	return answer
}

// ReadOnly reports whether every write is refused before it is sent.
func (s *Session) ReadOnly() bool { return s.client.cfg.ReadOnly }

// Zxid is the newest transaction that a server has told this session of.
func (s *Session) Zxid() int64 { return s.guard.lastZxid() }

// ShortestTimeout is what a server grants, in milliseconds, to a session that asks for one; 0 when it does not say. Asked
// by hand, because go-zookeeper keeps what was negotiated to itself, and with the closeSession right behind.
func (s *Session) ShortestTimeout(ctx context.Context) (ms int) {
	ask := make([]byte, 4, 64)
	ask = append(ask, make([]byte, 12)...)                             // protocol version, last zxid
	ask = append(ask, 0, 0, 0, 1)                                      // one millisecond
	ask = append(ask, make([]byte, 8)...)                              // a new session
	ask = append(append(ask, 0, 0, 0, 16), make([]byte, 16+1)...)      // without a password, not read-only
	binary.BigEndian.PutUint32(ask, uint32(len(ask)-4))                //nolint:gosec // 45
	end := []byte{0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff - 10} // closeSession
	ctx, cancel := context.WithTimeout(ctx, asideFor)
	defer cancel()
	here, _, _ := s.guard.hosts.current()
	_ = s.aside(ctx, here, append(ask, end...), func(r io.Reader) error {
		head := make([]byte, 4)
		if _, err := io.ReadFull(r, head); err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(head)
		if n > maxConnectReply {
			return explainLength([4]byte(head), maxConnectReply)
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		g, err := parseGrant(body)
		ms = int(g.timeout)
		_, _ = io.Copy(io.Discard, r) // until it is closed
		return err
	})
	return ms
}
