package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// SASL is one way to log in to servers with SASL; recipes.SASL says more. Its methods are called by many goroutines.
type SASL interface {
	Identity() string
	Start(ctx context.Context, server, address string) (SASLExchange, error)
}

// SASLExchange is the login of one connection; recipes.SASLExchange says more.
type SASLExchange struct {
	Next    func(challenge []byte) (token []byte, done bool, err error)
	Refused string
}

const (
	// maxRounds bounds a login. DIGEST-MD5 takes two answers of the server, Kerberos three.
	maxRounds = 8
	// maxToken bounds what a server sends in one of them. A Kerberos answer takes some hundred bytes.
	maxToken = 64 << 10
)

// loginError is that of an attempt that failed in the login.
type loginError struct {
	err  error
	next string // what to do, a clause; may be empty
}

func (e *loginError) Error() string {
	if e.next == "" {
		return "SASL login: " + e.err.Error()
	}
	return "SASL login: " + e.err.Error() + "; " + e.next
}

func (e *loginError) Unwrap() error { return e.err }

// login is the login of one connection. A nil login is none.
type login struct {
	SASLExchange
	begun bool
}

// startLogin prepares the login of a connection to t, before it is dialled: once a server has granted a session it waits for the
// login, and so does the session.
func (c *Client) startLogin(ctx context.Context, t Server) (*login, error) {
	if c.cfg.SASL == nil {
		return nil, nil
	}
	x, err := c.cfg.SASL.Start(ctx, t.Name, t.Addr)
	if err != nil {
		return nil, &loginError{err: err}
	}
	return &login{SASLExchange: x}, nil
}

// run logs in on a connection whose server has granted a session, before any other request: a server that insists on SASL takes
// no other, and one that does not would run it without the identity.
func (l *login) run(conn io.ReadWriter) error {
	if l == nil {
		return nil
	}
	l.begun = true
	var challenge []byte
	for range maxRounds {
		token, done, err := l.Next(challenge)
		if err != nil {
			return &loginError{err: err}
		}
		if done {
			return nil
		}
		_, _ = conn.Write(tokenFrame(token)) // if that fails, reading finds out
		if challenge, err = l.challenge(conn); err != nil {
			return err
		}
	}
	return &loginError{err: fmt.Errorf("%w: the server goes on after %d answers", ErrProtocol, maxRounds)}
}

// challenge reads the server's answer to a token; nil if it has none.
func (l *login) challenge(conn io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(head))
	if n < replyHeader || n > maxToken {
		return nil, &loginError{err: fmt.Errorf("%w: an answer of %d bytes, allowed are %d to %d", ErrProtocol, n, replyHeader, maxToken)}
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil, err
	}
	b := newCursor(body)
	xid, _, code := b.Int32(), b.Int64(), b.Int32()
	switch {
	case xid != 0 || b.Bad:
		return nil, &loginError{err: fmt.Errorf("%w: an answer to something else (xid %d)", ErrProtocol, xid)}
	case code != jute.CodeOK:
		return nil, &loginError{fmt.Errorf("%w (code %d)", ErrAuth, code), l.Refused}
	case len(b.B) == 0: // a server that refuses may answer without a body, and without a code
		return nil, nil
	}
	challenge := b.Buffer()
	if b.Bad {
		return nil, &loginError{err: fmt.Errorf("%w: malformed token of %d bytes", ErrProtocol, len(body))}
	}
	return challenge, nil
}

// explain returns the error of a handshake as that of the login, if that had begun.
func (l *login) explain(err error) error {
	if l == nil || !l.begun {
		return err
	}
	if errors.As(err, new(*loginError)) {
		return err
	}
	switch {
	case timedOut(err):
		return &loginError{err, "the server granted a session, but did not finish the login in the time allowed"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed):
		return &loginError{errors.New("the server closed the connection"), l.Refused}
	}
	return &loginError{err: err}
}

// tokenFrame is a request that carries a token. Servers give its xid back.
func tokenFrame(token []byte) []byte {
	if token == nil {
		token = []byte{} // they fail on a missing one
	}
	e := newEncoder(make([]byte, 4, 32+len(token)))
	e.Int32(0)
	e.Int32(jute.OpSASL)
	e.Buffer(token)
	binary.BigEndian.PutUint32(e.B, uint32(len(e.B)-4)) //nolint:gosec // a token is short
	return e.B
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
	if !errors.As(err, new(*loginError)) || !errors.Is(err, ErrAuth) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = fmt.Errorf("%w: %s", ErrAuth, s.hosts.report())
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
