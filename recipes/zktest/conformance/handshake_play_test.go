package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// handshakes plays what happens below requests: how sessions are granted,
// taken up again and refused, and which packets cost the connection.
func handshakes(t *testing.T, dial Dial) []string {
	t.Helper()
	h := &shaker{t: t, dial: dial}
	defer h.endSessions()
	first := h.greet("a new session", hello{timeout: 30_000}, true)
	h.greet("a client that sends no readOnly byte", hello{timeout: 30_000, old: true}, true)
	h.greet("too short a timeout", hello{timeout: 1}, true)
	h.greet("too long a timeout", hello{timeout: 1 << 30}, true)
	h.greet("a negative timeout", hello{timeout: -5}, true)
	h.greet("a session nobody knows", hello{timeout: 30_000, id: 0x1234, passwd: make([]byte, 16)}, false)
	h.greet("a client that has seen the future", hello{timeout: 30_000, last: 1 << 60}, false)
	again := h.greet("the first session from another connection", hello{timeout: 20_000, id: first.id, passwd: first.passwd}, true)
	h.say("same id: %v, same password: %v", again.id == first.id, string(again.passwd) == string(first.passwd))
	h.expectEnd("its older connection", first)
	h.greet("a wrong password", hello{timeout: 30_000, id: first.id, passwd: make([]byte, 16)}, false)
	h.expectEnd("the connection of the session whose password was guessed", again)

	h.afterwards("a packet of the greatest length", binary.BigEndian.AppendUint32(nil, 0xfffff), nil)
	h.afterwards("a packet one byte longer", binary.BigEndian.AppendUint32(nil, 0x100000), errClosed)
	h.afterwards("a negative length", binary.BigEndian.AppendUint32(nil, 1<<31), errClosed)
	h.afterwards("a packet without a header", []byte{0, 0, 0, 3, 1, 2, 3}, errClosed)
	h.afterwards("an operation nobody knows", []byte{0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 3, 0xe7}, errReplied)
	h.raw("a first packet of three bytes", []byte{0, 0, 0, 3, 1, 2, 3})
	h.raw("a first packet of the wrong length", binary.BigEndian.AppendUint32(nil, 0x7fffffff))
	h.raw("HTTP", []byte("GET / HTTP/1.1\r\n\r\n"))
	return h.lines
}

var (
	errClosed  = errors.New("connection closed")
	errReplied = errors.New("reply, then connection closed")
)

type shaker struct {
	t       *testing.T
	dial    Dial
	lines   []string
	granted []*session
}

// endSessions leaves no session behind that would expire, as a transaction of its own, while something else is being compared.
func (h *shaker) endSessions() {
	for _, s := range h.granted {
		s.conn.Close()
		if again, err := open(h.dial, s.id, s.passwd, 0); err == nil {
			again.call(wire.OpCloseSession, nil)
			again.conn.Close()
		}
	}
}

func (h *shaker) say(format string, args ...any) {
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

func (h *shaker) connect() *session {
	h.t.Helper()
	c, err := h.dial()
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	return &session{conn: c}
}

// greet sends a handshake and writes down the answer, without the parts that differ from server to server.
func (h *shaker) greet(what string, hi hello, granted bool) *session {
	h.t.Helper()
	s := h.connect()
	body, err := hi.say(s)
	if err != nil {
		h.say("%s: %s", what, ending(err))
		return s
	}
	i := wire.Decoder{B: body}
	version, timeout := i.Int32(), i.Int32()
	s.id, s.passwd = i.Int64(), append([]byte{}, i.Buffer()...)
	h.say("%s: version %d timeout %d session %v password of %d bytes, %x", what, version, timeout, s.id != 0, len(s.passwd), i.B)
	if !granted {
		h.expectEnd(what, s)
	} else {
		h.granted = append(h.granted, s)
	}
	return s
}

// expectEnd waits for the server to end a connection.
func (h *shaker) expectEnd(what string, s *session) {
	_, err := s.read()
	h.say("%s: %s", what, ending(err))
}

// ending tells a silence from an end, and makes no difference between ends: a reset or a closed pipe is the network's business.
func ending(err error) string {
	var timeout net.Error
	switch {
	case err == nil:
		return "answered"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer"
	}
	return "connection closed"
}

// afterwards sends raw bytes on an established session. A nil outcome means that the server waits for more.
func (h *shaker) afterwards(what string, raw []byte, outcome error) {
	h.t.Helper()
	s := h.greet("a session for "+what, hello{timeout: 30_000}, true)
	s.conn.Write(raw)
	if outcome == nil {
		// A server that is slower than this passes for one that waits: no false alarm.
		s.conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		_, err := io.ReadFull(s.conn, make([]byte, 1))
		h.say("%s: %s", what, ending(err))
		return
	}
	if outcome == errReplied {
		f, err := s.next()
		h.say("%s: xid %d code %d, %s", what, f.xid, f.code, ending(err))
	}
	h.expectEnd(what, s)
}

// raw sends bytes on a fresh connection.
func (h *shaker) raw(what string, raw []byte) {
	h.t.Helper()
	s := h.connect()
	go s.conn.Write(raw)
	h.expectEnd(what, s)
}
