package session

import (
	"context"
	"encoding/binary"
	"io"
	"time"
)

// aside opens a second connection to the server the session is on, and talks; whatever goes wrong, less is known.
func (s *Session) aside(ctx context.Context, say []byte, hear func(io.Reader) error) {
	t, _, _ := s.guard.hosts.current()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := s.guard.open(ctx, "tcp", t)
	if err != nil {
		return
	}
	defer conn.Close()
	by, _ := ctx.Deadline()
	_ = conn.SetDeadline(by)
	if _, err = conn.Write(say); err == nil {
		err = hear(conn)
	}
	if err != nil {
		s.log.Debug("check", "server", t.name, "cause", err)
	}
}

// Word asks a four-letter word; "" when the server does not answer it.
func (s *Session) Word(ctx context.Context, word string) (answer string) {
	s.aside(ctx, []byte(word), func(r io.Reader) error {
		b, err := io.ReadAll(io.LimitReader(r, 64<<10))
		answer = string(b)
		return err
	})
	return answer
}

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
	s.aside(ctx, append(ask, end...), func(r io.Reader) error {
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
