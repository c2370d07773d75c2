package session

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/session/sasl"
	"github.com/locktree/locktree/recipes/internal/session/servers"
	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// stayConnected connects the session to one server after another until it is over. This goroutine alone makes, reads and forgets
// a link, each before the next.
func (s *Session) stayConnected() {
	defer close(s.joined)
	defer s.running.Wait()
	for s.live.Err() == nil {
		most, _ := s.hurry()
		t, pass, first := s.hosts.Next(most)
		// After a failure the next server is tried at once; a pause comes only when all have failed.
		if first && pass > 0 && (s.turnedAway() || !s.pause(pass)) {
			return
		}
		if l := s.connect(t, pass); l != nil {
			began := time.Now()
			l.serve()
			if time.Since(began) < settled {
				continue
			}
			s.hosts.Restart()
			if !wait(s.live, s.client.jitter(s.respite())) {
				return
			}
		}
	}
}

// settled is how long a connection must have lasted to reset the count of passes. Without it a server that grants sessions
// and drops them would be dialled in a tight loop.
const settled = time.Second

// connect makes one attempt at a server: dialling, TLS and the connect request. It returns nil if the session is not granted.
func (s *Session) connect(t servers.Server, pass int) *link {
	ctx, cancel := context.WithTimeout(s.live, s.budget(pass))
	defer cancel()
	s.hosts.Trying(t, "still connecting")
	login, err := sasl.NewLogin(ctx, s.client.cfg.SASL, t.Name, t.Addr)
	if err != nil {
		s.blame(t, explain(err))
		s.loginFailed(err)
		return nil
	}
	conn, ours, err := s.open(ctx, t)
	if err != nil {
		s.blame(t, explain(err))
		return nil
	}
	s.hosts.Trying(t, "it accepted the connection, but has not answered the connect request yet")
	l, err := s.handshake(ctx, conn, t, ours, login)
	if err != nil {
		hangUp(conn)
		s.blame(t, explainSilence(ownFault(ours, err)))
		s.loginFailed(err)
		s.metKeeper(t, err)
		return nil
	}
	return l
}

// handshake asks a server for the session, a new one at first, then always the same, and logs in.
func (s *Session) handshake(ctx context.Context, conn net.Conn, t servers.Server, ours shown, login *sasl.Login) (*link, error) {
	s.mu.Lock()
	say := wire.ConnectFrame(s.Zxid(), s.timeout, s.ID(), []byte(s.password))
	s.mu.Unlock()
	var answer wire.Grant
	asked := s.clock.Now()
	err := talk(ctx, conn, say, func(r io.ReadWriter) (err error) {
		if answer, err = wire.ReadGrant(r); err == nil && answer.ID != 0 {
			err = login.Run(r)
		}
		return err
	})
	if err != nil {
		return nil, login.Explain(err)
	}
	l := newLink(s, conn, t, asked, time.Duration(answer.Timeout)*time.Millisecond)
	l.shown = ours
	return l, s.granted(answer, l)
}

// talk writes say and lets hear read the answer. When ctx ends it hangs up.
func talk(ctx context.Context, conn net.Conn, say []byte, hear func(io.ReadWriter) error) error {
	stop := context.AfterFunc(ctx, func() { hangUp(conn) })
	_, _ = conn.Write(say) // if that fails, hear finds out. If the peer sent garbage before it hung up, that explains more
	err := hear(conn)
	if !stop() {
		return context.Cause(ctx)
	}
	return err
}

// hangUp closes the socket. tls.Conn.Close would first send an alert, and wait up to five seconds for a peer that does not read.
// The goroutine that found the connection dead would wait with it.
func hangUp(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}

// blame notes why there is no connection to a server, unless the session is over.
func (s *Session) blame(t servers.Server, cause string) {
	if s.Err() == nil {
		s.hosts.Blame(t, cause)
	}
}

// pause waits between two passes over the servers. Its jitter grows from pass to pass, so that the clients of a restarted
// ensemble do not come back in step. Before there is a session it takes a second and up to T/6. Later it grows to the longest
// that the session can spare. It returns false when the session ends meanwhile.
func (s *Session) pause(pass int) bool {
	var d time.Duration
	if most, _ := s.hurry(); most > 0 {
		most = min(s.Timeout()/32<<min(pass-1, 6), most)
		d = most/2 + s.client.jitter(most/2)
	} else {
		d = time.Second + s.client.jitter(min(250*time.Millisecond<<min(pass, 6), s.Timeout()/6))
	}
	return wait(s.live, d)
}

// wait waits for d. It returns false when live ends meanwhile.
func wait(live context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-live.Done():
		return false
	}
}

// budget bounds one attempt: dialling, TLS and the answer to the connect request. A silent server is noticed 2T/3 after its
// last answer, so all servers together get the remaining T/3: one that accepts and says nothing must not cost the session.
// After a failed pass the budget doubles, for slow networks, but not while something is held: no lease could be kept there.
// With many servers each still gets half a second, or T/6 of a short session.
func (s *Session) budget(pass int) time.Duration {
	if _, held := s.hurry(); held {
		pass = 0
	}
	t, n := s.Timeout(), time.Duration(s.hosts.Size())
	each := max(t/3/n, min(t/6, 500*time.Millisecond))
	each = min(each<<min(pass, 3), 2*t/3, 10*time.Second)
	if s.ID() == 0 { // Dial waits for this one
		each = min(each, s.client.cfg.ConnectTimeout*4/5)
	}
	return each
}

// dialGrace is how long the end of a session waits for a Dialer to obey its context.
const dialGrace = time.Second

// dial runs the Dialer within ctx. Config.Dialer may not obey ctx: then its goroutine is left behind, and closes the
// connection if one comes after all. When the session is over dial waits a little first, so that a Dialer that is only slow
// leaves nothing behind after Close.
func (s *Session) dial(ctx context.Context, addr string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	dialled, ended := make(chan result), make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := s.client.cfg.Dialer(ctx, "tcp", addr)
		select {
		case dialled <- result{conn, err}:
		case <-ctx.Done(): // the caller has left
			if err == nil {
				_ = conn.Close()
			}
		}
	}()
	select {
	case r := <-dialled:
		return r.conn, r.err
	case <-ctx.Done():
	}
	if s.live.Err() != nil {
		select {
		case <-ended:
		case <-time.After(dialGrace):
		}
	}
	return nil, context.Cause(ctx)
}

// explain turns an attempt's error into a text that a person can act on.
func explain(err error) string {
	var record tls.RecordHeaderError
	var op *net.OpError
	var dns *net.DNSError
	var expired *expiredError
	var login *sasl.Error
	switch {
	case errors.As(err, &expired):
		return expired.Error()
	case errors.As(err, &login):
		return login.Error()
	case errors.As(err, &record):
		return "it does not speak TLS: use its TLS port (secureClientPort), or connect without TLS"
	case errors.As(err, &dns):
		return dns.Error()
	case wire.TimedOut(err):
		return "no connection in the time allowed for one attempt"
	case errors.As(err, &op) && op.Err != nil:
		return op.Err.Error()
	}
	return err.Error()
}

// explainSilence is explain for a connection that was accepted and ended before a session was granted.
func explainSilence(err error) string {
	switch {
	case errors.As(err, new(*expiredError)), errors.As(err, new(*sasl.Error)): // which say it themselves
	case wire.TimedOut(err):
		return "it accepted the connection, but did not answer the connect request in the time allowed (a hung server, or an ensemble that commits nothing? a TLS port?)"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe):
		return "it closed the connection instead of answering the connect request (a TLS port? a server without a quorum, or at a limit of connections?)"
	}
	return explain(err)
}

// explainLoss is explain for a connection that carried the session.
func explainLoss(err error) string {
	if wire.TimedOut(err) {
		return "it stopped answering"
	}
	return "the connection ended: " + explain(err) // no matter which side ended it
}

// turnedAway ends a session that no server has granted, if one has refused its login for good in the pass just made over all of
// them. A session that was granted goes on as long as it may live: while a password or a key is replaced, servers learn of it one
// after the other.
func (s *Session) turnedAway() bool {
	s.mu.Lock()
	why := s.refusal
	s.mu.Unlock()
	if why == nil || s.ID() != 0 {
		return false
	}
	s.lose(why)
	return true
}

// loginFailed notes why an attempt failed, if a login was refused.
func (s *Session) loginFailed(err error) {
	if !errors.As(err, new(*sasl.Error)) || !errors.Is(err, ErrAuth) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = fmt.Errorf("%w: %s", ErrAuth, s.hosts.Report())
}

// denied is why a session that was never granted is over.
func (s *Session) denied() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal != nil {
		return s.refusal
	}
	return s.err
}

// metKeeper ends a session that no server has granted, if an attempt failed because the server is a ClickHouse Keeper. A session
// that was granted may still live on the other servers, and goes on to them.
func (s *Session) metKeeper(t servers.Server, err error) {
	if !errors.Is(err, wire.ErrKeeper) {
		return
	}
	s.mu.Lock()
	s.refusal = errs.Errorf("recipes: %s is %w: name its servers instead", t.Name, wire.ErrKeeper)
	s.mu.Unlock()
	s.turnedAway()
}
