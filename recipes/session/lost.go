package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Gone reports whether the servers have said that a session that is lost does not exist any more.
func (s *Session) Gone() bool {
	select {
	case <-s.ended:
		return true
	default:
		return errors.Is(s.Err(), ErrExpired)
	}
}

// CloseLost closes, on the servers, a session of the same client that is lost here: on a connection of its own to the server
// of s. It returns nil when that session is gone, closed or expired; it ends with ctx, or with s.
//
// To close a session is to resume it first, and if the closeSession does not arrive it lives for another timeout. So the two are
// sent together, the timeout asked for is the shortest there is, and who is told of a failure may try again, but not for long.
func (s *Session) CloseLost(ctx context.Context, lost *Session) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout()/3)
	defer cancel()
	defer context.AfterFunc(s.guard.live, cancel)()
	lost.mu.Lock()
	say := connectFrame(s.Zxid(), time.Millisecond, lost.id, []byte(lost.password))
	lost.mu.Unlock()
	xid := int32(1)
	for _, a := range s.client.cfg.Auth { // servers that insist on an identity take no closeSession without it
		frame, err := s.encode(nil, a.op())
		if err != nil {
			return err
		}
		binary.BigEndian.PutUint32(frame[4:], uint32(xid))
		say, xid = append(say, frame...), xid+1
	}
	here, _, _ := s.guard.hosts.current()
	return s.aside(ctx, here, closing(say, xid), func(r io.Reader) error {
		g, err := readGrant(r)
		if err != nil || g.id == 0 { // it has expired
			return err
		}
		for {
			body, err := readSmall(r)
			if err != nil {
				return fmt.Errorf("it was resumed, and may not be closed: %w", err)
			}
			b := cursor{b: body}
			if answered, _, code := b.int32(), b.int64(), b.int32(); answered == xid && code == 0 {
				return nil
			}
		}
	})
}
