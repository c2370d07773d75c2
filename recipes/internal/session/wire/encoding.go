package wire

import (
	"encoding/binary"
)

// Operation codes (ZooDefs.OpCode).
const (
	OpCreate               int32 = 1
	OpDelete               int32 = 2
	OpExists               int32 = 3
	OpGetData              int32 = 4
	OpSetData              int32 = 5
	OpGetACL               int32 = 6
	OpSetACL               int32 = 7
	OpGetChildren          int32 = 8
	OpSync                 int32 = 9
	OpPing                 int32 = 11
	OpGetChildren2         int32 = 12
	OpCheck                int32 = 13
	OpMulti                int32 = 14
	OpCreate2              int32 = 15
	OpReconfig             int32 = 16
	OpCheckWatches         int32 = 17
	OpRemoveWatches        int32 = 18
	OpCreateContainer      int32 = 19
	OpDeleteContainer      int32 = 20
	OpCreateTTL            int32 = 21
	OpMultiRead            int32 = 22
	OpAuth                 int32 = 100
	OpSetWatches           int32 = 101
	OpSASL                 int32 = 102
	OpGetEphemerals        int32 = 103
	OpGetAllChildrenNumber int32 = 104
	OpSetWatches2          int32 = 105
	OpAddWatch             int32 = 106
	OpWhoAmI               int32 = 107
	OpCloseSession         int32 = -11
	OpError                int32 = -1 // in a multi's results: the operation failed, or was rolled back
)

// Xids that are not a request's own number.
const (
	XidEvent int32 = -1 // a watch event
	XidPing  int32 = -2
)

// Decoder reads big-endian integers, strings and buffers with a 32-bit length, and vectors with a 32-bit count. A read beyond the
// end sets Bad, and from then on everything reads as zero, so checking Bad once, after the last read, is enough. It allocates no
// more than the bytes that are there, whatever a length or a count claims.
type Decoder struct {
	B   []byte // what has not been read yet
	Bad bool
}

// Fail sets Bad and drops the rest, so that no loop finds anything more.
func (d *Decoder) Fail() { d.Bad, d.B = true, nil }

// Take reads n bytes. Lengths are signed on the wire.
func (d *Decoder) Take(n int) []byte {
	if n < 0 || n > len(d.B) {
		d.Fail()
		return nil
	}
	head := d.B[:n]
	d.B = d.B[n:]
	return head
}

// Int32 reads 4 bytes.
func (d *Decoder) Int32() int32 {
	if b := d.Take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Int64 reads 8 bytes.
func (d *Decoder) Int64() int64 {
	if b := d.Take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// Bool reads a byte.
func (d *Decoder) Bool() bool {
	b := d.Take(1)
	return b != nil && b[0] != 0
}

// Buffer reads a byte array, a copy. A length of -1 is legal and means null, which ZooKeeper distinguishes from an empty array.
func (d *Decoder) Buffer() []byte {
	n := d.Int32()
	if n == -1 || d.Bad {
		return nil
	}
	return append([]byte{}, d.Take(int(n))...)
}

// Count reads the length of a vector whose elements take at least size bytes each. It may be negative.
func (d *Decoder) Count(size int) int {
	n := int(d.Int32())
	if n > len(d.B)/size {
		d.Fail()
		return 0
	}
	return n
}

// Encoder appends to B.
type Encoder struct{ B []byte }

// Int32 appends 4 bytes.
func (e *Encoder) Int32(v int32) { e.B = binary.BigEndian.AppendUint32(e.B, uint32(v)) }

// Int64 appends 8 bytes.
func (e *Encoder) Int64(v int64) { e.B = binary.BigEndian.AppendUint64(e.B, uint64(v)) }

// Bool appends a byte.
func (e *Encoder) Bool(v bool) {
	if v {
		e.B = append(e.B, 1)
	} else {
		e.B = append(e.B, 0)
	}
}

// Str appends a string, byte by byte.
func (e *Encoder) Str(s string) {
	e.Int32(int32(len(s)))
	e.B = append(e.B, s...)
}

// Buffer appends a byte array; nil becomes null.
func (e *Encoder) Buffer(data []byte) {
	if data == nil {
		e.Int32(-1)
		return
	}
	e.Int32(int32(len(data)))
	e.B = append(e.B, data...)
}
