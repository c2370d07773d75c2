package sasl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// Mechanism is one way to log in to servers with SASL. Many goroutines call its methods.
type Mechanism interface {
	// Identity is the name that servers give to this login, as in an access list's entry sasl:NAME; "" if it is not known yet.
	Identity() string
	// Start prepares the login of one connection: server is the server's name as in Config.Servers, address is what is dialled;
	// both have a port. It must obey ctx. After an error that wraps ErrAuth, another attempt is of no use before a person has
	// done something. After other errors the session tries again.
	Start(ctx context.Context, server, address string) (Exchange, error)
}

// Exchange is the login of one connection.
type Exchange struct {
	// Next answers a server's challenge, which is nil at first. If done is true, the login has ended: nothing more is sent or
	// expected.
	Next func(challenge []byte) (token []byte, done bool, err error)
	// Refused is a clause: it says what a person should look at when the server refuses the login. Servers do not say why.
	Refused string
}

const (
	// maxRounds bounds a login. DIGEST-MD5 takes two answers of the server, Kerberos three.
	maxRounds = 8
	// maxToken bounds one answer of a server. A Kerberos answer takes some hundred bytes.
	maxToken = 64 << 10
)

// Error is the error of a login that failed.
type Error struct {
	err  error
	next string // what to do, a clause; may be empty
}

func (e *Error) Error() string {
	if e.next == "" {
		return "SASL login: " + e.err.Error()
	}
	return "SASL login: " + e.err.Error() + "; " + e.next
}

func (e *Error) Unwrap() error { return e.err }

// Login is the login of one connection.
type Login struct {
	Exchange
	begun bool
}

// NewLogin prepares the login of a connection before it is dialled: once a server has granted a session, server and session wait
// for the login.
func NewLogin(ctx context.Context, m Mechanism, server, address string) (*Login, error) {
	x, err := m.Start(ctx, server, address)
	if err != nil {
		return nil, &Error{err: err}
	}
	return &Login{Exchange: x}, nil
}

// Run logs in on a connection after the grant of the session and before any other request. A server that insists on SASL refuses
// requests that come before the login. Any other server would run them without the identity.
func (l *Login) Run(conn io.ReadWriter) error {
	l.begun = true
	var challenge []byte
	for range maxRounds {
		token, done, err := l.Next(challenge)
		if err != nil {
			return &Error{err: err}
		}
		if done {
			return nil
		}
		_, _ = conn.Write(tokenFrame(token)) // if the write fails, the read below fails too
		if challenge, err = l.challenge(conn); err != nil {
			return err
		}
	}
	return &Error{err: fmt.Errorf("%w: the server goes on after %d answers", wire.ErrProtocol, maxRounds)}
}

// challenge reads the server's answer to a token. It returns nil if the answer has no challenge.
func (l *Login) challenge(conn io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(head))
	if n < wire.ReplyHeader || n > maxToken {
		return nil, &Error{err: fmt.Errorf("%w: an answer of %d bytes, allowed are %d to %d", wire.ErrProtocol, n, wire.ReplyHeader, maxToken)}
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil, err
	}
	b := wire.Decoder{B: body}
	xid, _, code := b.Int32(), b.Int64(), b.Int32()
	switch {
	case xid != 0 || b.Bad:
		return nil, &Error{err: fmt.Errorf("%w: an answer to something else (xid %d)", wire.ErrProtocol, xid)}
	case code != wire.CodeOK:
		return nil, &Error{fmt.Errorf("%w (code %d)", wire.ErrAuth, code), l.Refused}
	case len(b.B) == 0: // a server that refuses may answer without a body, and without a code
		return nil, nil
	}
	challenge := b.Buffer()
	if b.Bad {
		return nil, &Error{err: fmt.Errorf("%w: malformed token of %d bytes", wire.ErrProtocol, len(body))}
	}
	return challenge, nil
}

// Explain returns a handshake's error as an error of the login, if the login had begun.
func (l *Login) Explain(err error) error {
	if !l.begun {
		return err
	}
	if errors.As(err, new(*Error)) {
		return err
	}
	switch {
	case wire.TimedOut(err):
		return &Error{err, "the server granted a session, but did not finish the login in the time allowed"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed):
		return &Error{errors.New("the server closed the connection"), l.Refused}
	}
	return &Error{err: err}
}

// tokenFrame is a request that carries a token. Servers repeat its xid in the answer.
func tokenFrame(token []byte) []byte {
	if token == nil {
		token = []byte{} // servers fail on a missing token
	}
	e := wire.Encoder{B: make([]byte, 4, 32+len(token))}
	e.Int32(0)
	e.Int32(wire.OpSASL)
	e.Buffer(token)
	binary.BigEndian.PutUint32(e.B, uint32(len(e.B)-4)) //nolint:gosec // a token is short
	return e.B
}
