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
	"time"

	"github.com/locktree/locktree/recipes/internal/session/wire"
	"github.com/locktree/locktree/recipes/zktest"
)

// patience bounds every wait for the server; nothing is proven by its passing.
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
	return greet(dial, hello{last: last, timeout: 30_000, id: id, passwd: passwd}) // longer than any sequence is silent
}

// hello is a connect request.
type hello struct {
	last     int64
	timeout  int32 // ms
	id       int64
	passwd   []byte
	readOnly bool
	old      bool // without the byte for that
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

// greet is open for a client with wishes of its own.
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

// exchange is the handshake's: one packet there, one back, without headers.
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
	if n > 64<<20 { // what is on the other end may be no ZooKeeper at all
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

// await reads up to the reply to xid; what comes before it are events.
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

// call is send and await: what most steps do.
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

// newReference is the server whose answers are expected of another.
func newReference(opts ...zktest.Option) *zktest.Server {
	return zktest.New(append(opts, zktest.WithReapInterval(24*time.Hour))...)
}

// sequences numbers the roots of sequences within the process, so that one server can be given many. The number has a fixed width: nothing
// a server answers may depend on it.
var sequences atomic.Int64

// Compare plays one sequence against two servers. It returns how many replies
// and events were the same and an error that shows the first that was not.
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
