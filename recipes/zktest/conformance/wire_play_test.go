package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locktree/locktree/recipes/internal/session/wire"
	"github.com/locktree/locktree/recipes/zktest"
)

// patience limits every wait for the server. Its passing proves nothing.
const patience = 5 * time.Minute

// The codec is the client's, which shares no line with zktest's: a mistake in one cannot hide behind the same mistake in the other.

func strs(w *wire.Encoder, v []string) {
	w.Int32(int32(len(v)))
	for _, s := range v {
		w.Str(s)
	}
}

func acls(w *wire.Encoder, v []ACL) {
	w.Int32(int32(len(v)))
	for _, a := range v {
		w.Int32(a.Perms)
		w.Str(a.Scheme)
		w.Str(a.ID)
	}
}

func all(i *wire.Decoder) []string {
	v := make([]string, max(0, i.Count(4)))
	for n := range v {
		v[n] = i.Str()
	}
	return v
}

var errShort = errors.New("the server's answer is shorter than its record")

// frame is one packet from the server after the handshake.
type frame struct {
	xid  int32
	zxid int64
	code int32
	body wire.Decoder
}

// session is one raw client session.
type session struct {
	conn   net.Conn
	id     int64
	passwd []byte
	xid    int32
	last   int64 // newest zxid seen
}

// open connects, with id 0 for a new session, and says whether the server accepted it.
func open(dial Dial, id int64, passwd []byte, last int64) (*session, error) {
	return greet(dial, hello{last: last, timeout: 600_000, id: id, passwd: passwd}) // longer than any sequence is silent
}

// hello is a connect request.
type hello struct {
	last     int64
	timeout  int32 // ms
	id       int64
	passwd   []byte
	readOnly bool
	old      bool // without the readOnly byte
}

// say sends a connect request, and returns the answer.
func (h hello) say(s *session) ([]byte, error) {
	var o wire.Encoder
	o.Int32(0)
	o.Int64(h.last)
	o.Int32(h.timeout)
	o.Int64(h.id)
	if h.passwd == nil {
		h.passwd = wire.NewPassword
	}
	o.Buffer(h.passwd)
	if !h.old {
		o.Bool(h.readOnly)
	}
	return s.exchange(o.B)
}

// greet is open with a given connect request.
func greet(dial Dial, h hello) (*session, error) {
	c, err := dial()
	if err != nil {
		return nil, err
	}
	s := &session{conn: c, last: h.last}
	body, err := h.say(s)
	i := wire.Decoder{B: body}
	i.Int64() // protocol version, timeout
	s.id, s.passwd = i.Int64(), i.Buffer()
	switch {
	case err != nil:
	case i.Bad:
		err = fmt.Errorf("handshake answered with %x: %w", body, errShort)
	case s.id == 0:
		err = errors.New("session expired")
	default:
		return s, nil
	}
	c.Close()
	return nil, err
}

// exchange is for the handshake: one packet there, one back, without headers.
func (s *session) exchange(body []byte) ([]byte, error) {
	if err := s.write(body); err != nil {
		return nil, err
	}
	return s.read()
}

func (s *session) write(body []byte) error {
	s.conn.SetWriteDeadline(time.Now().Add(patience))
	_, err := s.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

func (s *session) read() ([]byte, error) {
	s.conn.SetReadDeadline(time.Now().Add(patience))
	var head [4]byte
	if _, err := io.ReadFull(s.conn, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > 64<<20 { // the other end may not be ZooKeeper
		return nil, fmt.Errorf("the server announces a packet of %d bytes", n)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(s.conn, body)
	return body, err
}

// next reads one frame.
func (s *session) next() (f frame, err error) {
	b, err := s.read()
	if err != nil {
		return frame{}, err
	}
	i := wire.Decoder{B: b}
	f = frame{xid: i.Int32(), zxid: i.Int64(), code: i.Int32()}
	if i.Bad {
		return frame{}, errShort
	}
	f.body = i
	s.last = max(s.last, f.zxid) // events carry -1
	return f, nil
}

// send writes a request without waiting and returns the xid of its reply.
func (s *session) send(op int32, body []byte) (int32, error) {
	xid := int32(-2)
	if op != wire.OpPing {
		s.xid++
		xid = s.xid
	}
	var o wire.Encoder
	o.Int32(xid)
	o.Int32(op)
	return xid, s.write(append(o.B, body...))
}

// await reads up to the reply to xid. Frames before it are events.
func (s *session) await(xid int32) (reply frame, events []frame, err error) {
	for {
		f, err := s.next()
		if err != nil {
			return frame{}, events, err
		}
		if f.xid == xid {
			return f, events, nil
		}
		events = append(events, f)
	}
}

// call is send and await, for most steps.
func (s *session) call(op int32, body []byte) (reply frame, events []frame, err error) {
	xid, err := s.send(op, body)
	if err != nil {
		return frame{}, nil, err
	}
	return s.await(xid)
}

// goldenVersion begins the version of the recorded servers, which is also zktest's default.
const goldenVersion = "3.8."

var saysVersion = regexp.MustCompile(`Zookeeper version: (\d+\.\d+\.\d+)`)

// newReference returns the server whose answers another must give.
func newReference(opts ...zktest.Option) *zktest.Server {
	return zktest.New(append(opts, zktest.WithReapInterval(24*time.Hour))...)
}

// sequences numbers the roots of sequences within the process, so that one server can play many. The number has a fixed width: no answer
// may depend on it.
var sequences atomic.Int64

// Compare plays one sequence against two servers. It returns how many replies and events were the same, and an error that shows the first
// difference.
func Compare(got, want Dial, ops []Op) (int, error) {
	root := fmt.Sprintf("/q%08d", sequences.Add(1))
	a, errA := play(got, root, ops)
	b, errB := play(want, root, ops)
	n, diff := firstDifference(a, b)
	switch {
	case errA != nil:
		return n, fmt.Errorf("the server under test: %w; it had said:\n%s", errA, strings.Join(a, "\n"))
	case errB != nil:
		return n, fmt.Errorf("the reference: %w; it had said:\n%s", errB, strings.Join(b, "\n"))
	case diff != "":
		return n, fmt.Errorf("%s", diff)
	}
	return n, nil
}

// firstDifference compares two transcripts and shows where they part, with the lines before it.
func firstDifference(got, want []string) (same int, diff string) {
	for i := range max(len(got), len(want)) {
		g, w := "(nothing more)", "(nothing more)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return i, fmt.Sprintf("after\n%s\nthe server said\n   %s\nand the reference\n   %s",
				strings.Join(got[max(0, i-12):min(i, len(got))], "\n"), g, w)
		}
	}
	return len(got), ""
}

func pipe(s *zktest.Server) Dial {
	return func() (net.Conn, error) { return s.Dialer()("tcp", "zktest", time.Second) }
}

// TCP dials an address.
func TCP(addr string) Dial {
	return func() (net.Conn, error) { return net.DialTimeout("tcp", addr, patience) }
}

// handshakes plays the protocol below requests: how sessions are granted, taken up again and refused, and which packets end the connection.
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

// endSessions ends every session: one that expired later would be a transaction amid another comparison.
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

// greet sends a handshake and records the answer, without the parts that differ from server to server.
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

// ending tells a silence from an end. All ends are alike: a reset or a closed pipe is the network's business.
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
		// A server that is slower than this seems to wait: no false alarm.
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
