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

// String returns the name, followed by the address where that differs.
func (s Server) String() string {
	if s.Name == s.t.addr {
		return s.Name
	}
	return s.Name + " (" + s.t.addr + ")"
}

// Servers lists the addresses of the ensemble: a name may resolve to several.
func (s *Session) Servers() []Server {
	here, _, _ := s.guard.hosts.current()
	var out []Server
	for _, t := range s.guard.hosts.all() {
		out = append(out, Server{Name: t.name, Here: t == here, t: t})
	}
	return out
}

// aside opens a second connection to a server, writes say and lets hear read the answer, for as long as ctx allows.
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

// Ask sends a four-letter word to a server and streams the answer to hear. Only ctx bounds its length.
func (s *Session) Ask(ctx context.Context, server Server, word string, hear func(io.Reader) error) error {
	return s.aside(ctx, server.t, []byte(word), hear)
}

// ReadOnly reports whether the session refuses every write before sending it.
func (s *Session) ReadOnly() bool { return s.client.cfg.ReadOnly }

// Zxid returns the newest transaction that a server has reported to this session.
func (s *Session) Zxid() int64 { return s.guard.lastZxid() }

// ShortestTimeout returns the shortest session timeout the server grants, in milliseconds; 0 when it does not answer. It
// opens a session that asks for one millisecond, by hand because go-zookeeper does not export what was negotiated, and
// closes it with a closeSession right behind the connect request.
func (s *Session) ShortestTimeout(ctx context.Context) (ms int) {
	ask := make([]byte, 4, 64)
	ask = append(ask, make([]byte, 12)...)                             // protocol version, last zxid
	ask = append(ask, 0, 0, 0, 1)                                      // one millisecond
	ask = append(ask, make([]byte, 8)...)                              // a new session
	ask = append(append(ask, 0, 0, 0, 16), make([]byte, 16+1)...)      // without a password, not read-only
	binary.BigEndian.PutUint32(ask, uint32(len(ask)-4))                //nolint:gosec // 45
	end := []byte{0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff - 10} // closeSession
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
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
