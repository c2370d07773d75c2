package session

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"time"
)

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

// Servers lists the addresses of the ensemble: a name may resolve to several.
func (s *Session) Servers() []Server { return s.hosts.all() }

// At is the one that the session is connected to, or was last.
func (s *Session) At() Server { return s.hosts.current() }

// Aside opens a second connection to a server, writes say and lets hear read the answer, for as long as ctx allows.
func (s *Session) Aside(ctx context.Context, t Server, say []byte, hear func(io.Reader) error) error {
	return s.aside(ctx, t, say, func(c io.ReadWriter) error { return hear(c) })
}

func (s *Session) aside(ctx context.Context, t Server, say []byte, hear func(io.ReadWriter) error) error {
	conn, ours, err := s.open(ctx, t)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	if err = ownFault(ours, talk(ctx, conn, say, hear)); err != nil {
		s.log.write(slog.LevelDebug, "check", "server", t.Name, "cause", err)
	}
	return err
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
	_ = s.Aside(ctx, s.At(), closing(connectFrame(0, time.Millisecond, 0, newPassword), 1), func(r io.Reader) error {
		g, err := readGrant(r)
		ms = int(g.timeout)
		_, _ = io.Copy(io.Discard, r) // until it is closed
		return err
	})
	return ms
}
