package zktest

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// errMalformed means that a record does not fit its frame. The real server
// answers MarshallingError for it inside a request and cuts the connection
// when the frame's header itself cannot be read.
var errMalformed = errors.New("zktest: record does not fit its frame")

// decoder reads ZooKeeper's jute encoding: big-endian integers, strings and
// buffers with a 32-bit length, vectors with a 32-bit count. The first misfit
// sets err, and every later read returns zero, so callers check once. Whatever
// length or count the input claims, no allocation is larger than the bytes that
// are there.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.b) {
		d.err = errMalformed
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) int32() int32 {
	if v := d.take(4); v != nil {
		return int32(binary.BigEndian.Uint32(v))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if v := d.take(8); v != nil {
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

func (d *decoder) bool() bool {
	v := d.take(1)
	return v != nil && v[0] != 0
}

// buffer distinguishes nil (length -1) from empty, as ZooKeeper stores both.
func (d *decoder) buffer() []byte {
	n := d.int32()
	if n == -1 || d.err != nil {
		return nil
	}
	return append([]byte{}, d.take(int(n))...)
}

// optString reads a string that may be null on the wire.
func (d *decoder) optString() (string, bool) {
	n := d.int32()
	if n == -1 || d.err != nil {
		return "", false
	}
	// Java decodes invalid UTF-8 to the replacement character, which its path
	// validation then refuses.
	return strings.ToValidUTF8(string(d.take(int(n))), "\uFFFD"), true
}

// string reads a string that must not be null: the real server hits a null pointer
// there and answers MarshallingError.
func (d *decoder) string() string {
	v, ok := d.optString()
	if !ok {
		d.err = errMalformed
	}
	return v
}

// count reads the length of a vector whose elements take at least size bytes each. A
// negative length means an empty vector: the server reads it as null, which it treats
// as empty.
func (d *decoder) count(size int) int {
	n := int(d.int32())
	if n > len(d.b)/size {
		d.err = errMalformed
	}
	if d.err != nil || n < 0 {
		return 0
	}
	return n
}

func (d *decoder) strings() []string {
	n := d.count(4)
	out := make([]string, 0, n)
	for range n {
		out = append(out, d.string())
	}
	return out
}

// acls reads a list whose entries may have null strings; fixACL refuses those.
func (d *decoder) acls() []ACL {
	n := d.count(12)
	out := make([]ACL, 0, n)
	for range n {
		a := ACL{Perms: d.int32()}
		a.Scheme, _ = d.optString()
		a.ID, _ = d.optString()
		out = append(out, a)
	}
	return out
}

// encoder appends jute records to a frame whose first four bytes, the length,
// are filled in by frame.
type encoder struct{ b []byte }

func newEncoder() *encoder { return &encoder{b: make([]byte, 4, 96)} }

func (e *encoder) frame() []byte {
	binary.BigEndian.PutUint32(e.b, uint32(len(e.b)-4))
	return e.b
}

func (e *encoder) int32(v int32) { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }
func (e *encoder) int64(v int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }

func (e *encoder) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

// buffer writes nil as null, which ZooKeeper distinguishes from empty data.
func (e *encoder) buffer(v []byte) {
	if v == nil {
		e.int32(-1)
		return
	}
	e.int32(int32(len(v)))
	e.b = append(e.b, v...)
}

// string writes characters beyond the basic plane as Java's encoder does: each
// surrogate by itself, six bytes where UTF-8 has four.
func (e *encoder) string(v string) {
	if strings.IndexFunc(v, func(r rune) bool { return r > 0xffff }) >= 0 {
		var b []byte
		for _, r := range v {
			if hi, lo := utf16.EncodeRune(r); r > 0xffff {
				b = append(b, 0xe0|byte(hi>>12), 0x80|byte(hi>>6)&0x3f, 0x80|byte(hi)&0x3f)
				b = append(b, 0xe0|byte(lo>>12), 0x80|byte(lo>>6)&0x3f, 0x80|byte(lo)&0x3f)
			} else {
				b = utf8.AppendRune(b, r)
			}
		}
		v = string(b)
	}
	e.int32(int32(len(v)))
	e.b = append(e.b, v...)
}

func (e *encoder) strings(v []string) {
	e.int32(int32(len(v)))
	for _, s := range v {
		e.string(s)
	}
}

func (e *encoder) acls(v []ACL) {
	e.int32(int32(len(v)))
	for _, a := range v {
		e.int32(a.Perms)
		e.string(a.Scheme)
		e.string(a.ID)
	}
}

func (e *encoder) stat(s Stat) {
	e.int64(s.Czxid)
	e.int64(s.Mzxid)
	e.int64(s.Ctime)
	e.int64(s.Mtime)
	e.int32(s.Version)
	e.int32(s.Cversion)
	e.int32(s.Aversion)
	e.int64(s.EphemeralOwner)
	e.int32(s.DataLength)
	e.int32(s.NumChildren)
	e.int64(s.Pzxid)
}

// replyFrame starts the frame that answers xid.
func replyFrame(xid int32, zxid int64, code Code) *encoder {
	e := newEncoder()
	e.int32(xid)
	e.int64(zxid)
	e.int32(int32(code))
	return e
}

// eventFrame is a watch event as the server pushes it, with no request's xid and no
// zxid.
func eventFrame(typ int32, path string) []byte {
	e := replyFrame(xidNotification, -1, codeOK)
	e.int32(typ)
	e.int32(stateSyncConnected)
	e.string(path)
	return e.frame()
}

func (e *encoder) multiHeader(typ int32, done bool, code Code) {
	e.int32(typ)
	e.bool(done)
	e.int32(int32(code))
}
