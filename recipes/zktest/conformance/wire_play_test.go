package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// patience bounds every wait for the server; nothing is proven by its passing.
const patience = 5 * time.Minute

// out and in are jute, written a second time and independently of zktest, so
// that a mistake in its codec cannot hide behind the same mistake here.
type out struct{ b []byte }

func (o *out) i32(v int32) { o.b = binary.BigEndian.AppendUint32(o.b, uint32(v)) }
func (o *out) i64(v int64) { o.b = binary.BigEndian.AppendUint64(o.b, uint64(v)) }
func (o *out) str(v string) {
	o.i32(int32(len(v)))
	o.b = append(o.b, v...)
}

func (o *out) buf(v []byte) {
	if v == nil {
		o.i32(-1)
		return
	}
	o.str(string(v))
}

func (o *out) flag(v bool) {
	o.b = append(o.b, 0)
	if v {
		o.b[len(o.b)-1] = 1
	}
}

func (o *out) strs(v []string) {
	o.i32(int32(len(v)))
	for _, s := range v {
		o.str(s)
	}
}

func (o *out) acls(v []ACL) {
	o.i32(int32(len(v)))
	for _, a := range v {
		o.i32(a.Perms)
		o.str(a.Scheme)
		o.str(a.ID)
	}
}

type in struct{ b []byte }

var errShort = errors.New("the server's answer is shorter than its record")

// next panics with errShort, so that records read without a check after each field. greet, session.next and player.reply recover it.
func (i *in) next(n int) []byte {
	if n < 0 || n > len(i.b) {
		panic(errShort)
	}
	v := i.b[:n]
	i.b = i.b[n:]
	return v
}

func (i *in) i32() int32  { return int32(binary.BigEndian.Uint32(i.next(4))) }
func (i *in) i64() int64  { return int64(binary.BigEndian.Uint64(i.next(8))) }
func (i *in) str() string { return string(i.next(int(i.i32()))) }
func (i *in) flag() bool  { return i.next(1)[0] != 0 }

func (i *in) buf() []byte {
	if n := i.i32(); n >= 0 {
		return i.next(int(n))
	}
	return nil
}

func (i *in) strs() []string {
	var v []string
	for range i.i32() {
		v = append(v, i.str())
	}
	return v
}

// frame is one packet from the server after the handshake.
type frame struct {
	xid  int32
	zxid int64
	code int32
	body in
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
	return greet(dial, id, passwd, last, false)
}

// greet is open for a client that may also want read-only service.
func greet(dial Dial, id int64, passwd []byte, last int64, readOnly bool) (granted *session, err error) {
	c, err := dial()
	if err != nil {
		return nil, err
	}
	s := &session{conn: c, last: last}
	var o out
	o.i32(0)
	o.i64(last)
	o.i32(30_000) // longer than any sequence is silent
	o.i64(id)
	o.buf(passwd)
	o.flag(readOnly)
	body, err := s.exchange(o.b)
	if err != nil {
		c.Close()
		return nil, err
	}
	defer func() {
		if recover() != nil {
			c.Close()
			granted, err = nil, fmt.Errorf("handshake answered with %x: %w", body, errShort)
		}
	}()
	i := in{body}
	i.i32() // protocol version
	i.i32()
	s.id, s.passwd = i.i64(), i.buf()
	if s.id == 0 {
		c.Close()
		return nil, errors.New("session expired")
	}
	return s, nil
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
	defer func() {
		if recover() != nil {
			err = errShort
		}
	}()
	i := in{b}
	f = frame{xid: i.i32(), zxid: i.i64(), code: i.i32()}
	f.body = i
	s.last = max(s.last, f.zxid) // events carry -1
	return f, nil
}

// send writes a request without waiting and returns the xid of its reply.
func (s *session) send(op int32, body []byte) (int32, error) {
	xid := int32(-2)
	if op != opPing {
		s.xid++
		xid = s.xid
	}
	var o out
	o.i32(xid)
	o.i32(op)
	return xid, s.write(append(o.b, body...))
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
