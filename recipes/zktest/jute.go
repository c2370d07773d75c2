package zktest

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// errMalformed means that a record does not fit its frame. The real server
// answers MarshallingError for it inside a request and cuts the connection
// when the frame's header itself cannot be read.
var errMalformed = errors.New("zktest: record does not fit its frame")

// decoder reads what a client sent.
type decoder struct{ jute.Decoder }

func newDecoder(b []byte) decoder { return decoder{jute.Decoder{B: b}} }

// optString reads a string that may be null on the wire.
func (d *decoder) optString() (string, bool) {
	n := d.Int32()
	if n == -1 || d.Bad {
		return "", false
	}
	// Java decodes invalid UTF-8 to the replacement character, which its path
	// validation then refuses.
	return strings.ToValidUTF8(string(d.Take(int(n))), "\uFFFD"), true
}

// string reads a string that must not be null: the real server hits a null pointer
// there and answers MarshallingError.
func (d *decoder) string() string {
	v, ok := d.optString()
	if !ok {
		d.Fail()
	}
	return v
}

// count is Count, where a negative length means an empty vector: the server reads it as null, which it treats
// as empty.
func (d *decoder) count(size int) int { return max(d.Count(size), 0) }

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
		a := ACL{Perms: d.Int32()}
		a.Scheme, _ = d.optString()
		a.ID, _ = d.optString()
		out = append(out, a)
	}
	return out
}

// encoder appends jute records to a frame whose first four bytes, the length,
// are filled in by frame.
type encoder struct{ jute.Encoder }

func newEncoder() *encoder { return &encoder{jute.Encoder{B: make([]byte, 4, 96)}} }

func (e *encoder) frame() []byte {
	binary.BigEndian.PutUint32(e.B, uint32(len(e.B)-4))
	return e.B
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
	e.Str(v)
}

func (e *encoder) strings(v []string) {
	e.Int32(int32(len(v)))
	for _, s := range v {
		e.string(s)
	}
}

func (e *encoder) acls(v []ACL) {
	e.Int32(int32(len(v)))
	for _, a := range v {
		e.Int32(a.Perms)
		e.string(a.Scheme)
		e.string(a.ID)
	}
}

func (e *encoder) stat(s Stat) {
	e.Int64(s.Czxid)
	e.Int64(s.Mzxid)
	e.Int64(s.Ctime)
	e.Int64(s.Mtime)
	e.Int32(s.Version)
	e.Int32(s.Cversion)
	e.Int32(s.Aversion)
	e.Int64(s.EphemeralOwner)
	e.Int32(s.DataLength)
	e.Int32(s.NumChildren)
	e.Int64(s.Pzxid)
}

// replyFrame starts the frame that answers xid.
func replyFrame(xid int32, zxid int64, code Code) *encoder {
	e := newEncoder()
	e.Int32(xid)
	e.Int64(zxid)
	e.Int32(int32(code))
	return e
}

// eventFrame is a watch event as the server pushes it, with no request's xid.
func eventFrame(typ int32, path string, zxid int64) []byte {
	e := replyFrame(jute.XidEvent, zxid, jute.CodeOK)
	e.Int32(typ)
	e.Int32(stateSyncConnected)
	e.string(path)
	return e.frame()
}

func (e *encoder) multiHeader(typ int32, done bool, code Code) {
	e.Int32(typ)
	e.Bool(done)
	e.Int32(int32(code))
}
