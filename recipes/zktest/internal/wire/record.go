package wire

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ACL is one entry of a node's access control list.
type ACL struct {
	Perms  int32
	Scheme string
	ID     string
}

// Stat is a node's metadata. Times are milliseconds since the epoch. EphemeralOwner is zero for container and TTL nodes.
type Stat struct {
	Czxid          int64
	Mzxid          int64
	Ctime          int64
	Mtime          int64
	Version        int32
	Cversion       int32
	Aversion       int32
	EphemeralOwner int64
	DataLength     int32
	NumChildren    int32
	Pzxid          int64
}

// Decoder reads big-endian integers, strings and buffers with a 32-bit length, and vectors with a 32-bit count. A read beyond the end sets
// Bad, and from then on everything reads as zero, so checking Bad once, after the last read, is enough. The Decoder allocates no more than
// the bytes that are there, even if a length or a count claims more.
type Decoder struct {
	b   []byte // what has not been read yet
	Bad bool
}

// NewDecoder reads a frame without its length.
func NewDecoder(frame []byte) Decoder { return Decoder{b: frame} }

// fail drops the rest, so that no loop finds anything more.
func (d *Decoder) fail() { d.Bad, d.b = true, nil }

// take reads n bytes. Lengths are signed on the wire.
func (d *Decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.fail()
		return nil
	}
	head := d.b[:n]
	d.b = d.b[n:]
	return head
}

// Int32 reads 4 bytes.
func (d *Decoder) Int32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Int64 reads 8 bytes.
func (d *Decoder) Int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// Bool reads a byte.
func (d *Decoder) Bool() bool {
	b := d.take(1)
	return b != nil && b[0] != 0
}

// Buffer reads a byte array, a copy. A length of -1 is legal and means null, which ZooKeeper distinguishes from an empty array.
func (d *Decoder) Buffer() []byte {
	n := d.Int32()
	if n == -1 || d.Bad {
		return nil
	}
	return append([]byte{}, d.take(int(n))...)
}

// optString reads a string that may be null on the wire.
func (d *Decoder) optString() (string, bool) {
	n := d.Int32()
	if n == -1 || d.Bad {
		return "", false
	}
	// Java decodes invalid UTF-8 to the replacement character, which its path validation then refuses.
	return strings.ToValidUTF8(string(d.take(int(n))), "\uFFFD"), true
}

// string reads a string that must not be null: the real server hits a null pointer there and answers MarshallingError.
func (d *Decoder) string() string {
	v, ok := d.optString()
	if !ok {
		d.fail()
	}
	return v
}

// count reads the length of a vector whose elements take at least size bytes each. A negative length means an empty vector: the server
// reads the vector as null, and treats null as empty.
func (d *Decoder) count(size int) int {
	n := int(d.Int32())
	if n > len(d.b)/size {
		d.fail()
		return 0
	}
	return max(n, 0)
}

func (d *Decoder) strings() []string {
	n := d.count(4)
	out := make([]string, 0, n)
	for range n {
		out = append(out, d.string())
	}
	return out
}

// acls reads a list whose entries may have null strings; the store refuses those.
func (d *Decoder) acls() []ACL {
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

// Encoder appends records to a frame whose first four bytes, the length, are filled in by Frame.
type Encoder struct{ b []byte }

// NewEncoder begins a frame, or the body of one (see Append).
func NewEncoder() *Encoder { return &Encoder{make([]byte, 4, 96)} }

// Frame is the frame, ready to be sent.
func (e *Encoder) Frame() []byte {
	binary.BigEndian.PutUint32(e.b, uint32(len(e.b)-4))
	return e.b
}

// Append adds what another encoder holds, without a length.
func (e *Encoder) Append(body *Encoder) { e.b = append(e.b, body.b[4:]...) }

// Int32 appends 4 bytes.
func (e *Encoder) Int32(v int32) { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }

// Int64 appends 8 bytes.
func (e *Encoder) Int64(v int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }

// Bool appends a byte.
func (e *Encoder) Bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

// Buffer appends a byte array; nil becomes null.
func (e *Encoder) Buffer(data []byte) {
	if data == nil {
		e.Int32(-1)
		return
	}
	e.Int32(int32(len(data)))
	e.b = append(e.b, data...)
}

// String writes characters beyond the basic plane as Java's encoder does: each surrogate by itself, six bytes where UTF-8 has four.
func (e *Encoder) String(v string) {
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
	e.Int32(int32(len(v)))
	e.b = append(e.b, v...)
}

// Strings appends a vector of strings.
func (e *Encoder) Strings(v []string) {
	e.Int32(int32(len(v)))
	for _, s := range v {
		e.String(s)
	}
}

// ACLs appends an access list.
func (e *Encoder) ACLs(v []ACL) {
	e.Int32(int32(len(v)))
	for _, a := range v {
		e.Int32(a.Perms)
		e.String(a.Scheme)
		e.String(a.ID)
	}
}

// Stat appends a node's metadata.
func (e *Encoder) Stat(s Stat) {
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
