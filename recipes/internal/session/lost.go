package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// Gone reports whether the servers have confirmed that a lost session has ended.
func (s *Session) Gone() bool {
	select {
	case <-s.ended:
		return true
	default:
		return errors.Is(s.Err(), errExpired)
	}
}

// CloseLost closes a lost session of the same client on the servers. It uses a connection of its own to the server of s. It
// returns nil when the lost session is closed or expired; the attempt ends with ctx, or with s.
//
// CloseLost must resume the session before it closes it. If the closeSession does not arrive, the resumed session lives for
// another timeout. So the two requests are sent together, with the shortest timeout that a server grants. (With SASL, the
// closeSession is sent after the login.) The caller tries again for a session timeout at most, because a failed try may have
// resumed the session.
func (s *Session) CloseLost(ctx context.Context, lost *Session) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout()/3)
	defer cancel()
	defer context.AfterFunc(s.live, cancel)()
	lost.mu.Lock()
	request := wire.ConnectFrame(s.Zxid(), time.Millisecond, lost.ID(), []byte(lost.password))
	lost.mu.Unlock()
	at := s.At()
	login, err := s.login(ctx, at)
	if err != nil {
		return err
	}
	goodbye, last, err := s.goodbye()
	if err != nil {
		return err
	}
	if login == nil {
		request = append(request, goodbye...)
	}
	return s.aside(ctx, at, request, func(c io.ReadWriter) error {
		g, err := wire.ReadGrant(c)
		if err != nil || g.ID == 0 { // the lost session has expired
			return err
		}
		if login != nil {
			if err := login.Run(c); err != nil {
				return fmt.Errorf("it was resumed, and not closed: %w", login.Explain(err))
			}
			_, _ = c.Write(goodbye)
		}
		return awaitClosed(c, last)
	})
}

// goodbye returns the frames that end a session: the identities, which a server may require first, and a closeSession. It also
// returns the xid of the closeSession (closing).
func (s *Session) goodbye() (frames []byte, closing int32, err error) {
	closing = 1
	for _, a := range s.client.cfg.Auth {
		frame, err := s.encode(nil, a.op())
		if err != nil {
			return nil, 0, err
		}
		binary.BigEndian.PutUint32(frame[4:], uint32(closing))
		frames, closing = append(frames, frame...), closing+1
	}
	return wire.Closing(frames, closing), closing, nil
}

// awaitClosed reads the answers to goodbye.
func awaitClosed(c io.Reader, last int32) error {
	for {
		body, err := wire.ReadSmall(c)
		if err != nil {
			return fmt.Errorf("it was resumed, and is perhaps not closed: %w", err)
		}
		b := wire.Decoder{B: body}
		xid, _, code := b.Int32(), b.Int64(), b.Int32()
		switch {
		case xid != last: // the answer to an identity
		case code != 0 && code != wire.CodeSessionExpired:
			_, err := wire.Answer(code)
			return fmt.Errorf("it was resumed, and not closed: %w", err)
		default:
			return nil
		}
	}
}
