package session

import (
	"encoding/binary"
	"fmt"
)

// Operation codes of ZooKeeper's protocol (ZooDefs.OpCode) that go-zookeeper puts on the wire for us.
const (
	opCreate       int32 = 1
	opDelete       int32 = 2
	opExists       int32 = 3
	opGetData      int32 = 4
	opSetData      int32 = 5
	opGetACL       int32 = 6
	opSetACL       int32 = 7
	opSync         int32 = 9
	opPing         int32 = 11
	opGetChildren2 int32 = 12
	opCheck        int32 = 13
	opMulti        int32 = 14
	opSetAuth      int32 = 100
	opSetWatches   int32 = 101
	opClose        int32 = -11
	opError        int32 = -1 // in a multi's results: the operation failed, or was rolled back
)

const (
	xidEvent int32 = -1 // a watch event: nobody asked
	xidPing  int32 = -2

	replyHeader = 16 // xid, zxid, error code: go-zookeeper slices this much of any frame without looking
	statSize    = 68 // six 64-bit numbers and five of 32 bits

	// maxReply bounds a reply. Servers do not limit replies: 100,000 children of 70 bytes are 7 MB.
	maxReply = 16 << 20
	// maxRequest is jute.maxbuffer's default: a server drops the connection at a larger frame.
	maxRequest = 0xfffff
	// maxConnectReply bounds the reply to a connect request: 20 bytes, a password (16 today), a read-only byte.
	maxConnectReply = 256
)

// cursor reads jute, ZooKeeper's encoding. After a read beyond the end bad is set and everything reads as zero: one
// look at the end is enough.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	// Lengths are signed on the wire. What is left is dropped with a bad one, so that every later read that wants a byte
	// fails too, and no loop finds anything more.
	if n < 0 || n > len(c.b) {
		c.bad, c.b = true, nil
		return nil
	}
	head := c.b[:n]
	c.b = c.b[n:]
	return head
}

func (c *cursor) int32() int32 {
	if b := c.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (c *cursor) int64() int64 {
	if b := c.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (c *cursor) bool() bool {
	b := c.take(1)
	return b != nil && b[0] != 0
}

func (c *cursor) str() string { return string(c.take(int(c.int32()))) }

// buffer skips a byte array; -1 is a null one and legal, as it is for go-zookeeper.
func (c *cursor) buffer() {
	if n := c.int32(); n != -1 {
		c.take(int(n))
	}
}

// vector reads an element count and refuses one that the rest of the frame cannot hold: go-zookeeper allocates by
// the count alone, 2^32-1 elements for a -1.
func (c *cursor) vector(minElement int) int {
	n := int(c.int32())
	if n < 0 || n > len(c.b)/minElement {
		c.bad, c.b = true, nil
		return 0
	}
	return n
}

func (c *cursor) acls() {
	// An entry is at least its permissions and the lengths of two strings.
	for range c.vector(12) {
		c.int32()
		c.str()
		c.str()
	}
}

// request is what the guard reads in a frame go-zookeeper writes.
type request struct {
	xid, op int32
	path    string // of a multi: the first operation's
	watch   bool   // a read that arms a watch
	ops     int    // of a multi: its operations
	watches int    // of a setWatches: the paths in it
}

// parseRequest reads an outgoing frame's body. It never fails: what it does not know it leaves zero, and the frames
// come from go-zookeeper's own encoder.
func parseRequest(body []byte) request {
	c := cursor{b: body}
	r := request{xid: c.int32(), op: c.int32()}
	switch r.op {
	case opCreate, opDelete, opExists, opSetData, opGetACL, opSetACL, opSync:
		r.path = c.str()
	case opGetData, opGetChildren2:
		r.path = c.str()
		r.watch = c.bool()
	case opMulti:
		r.path, r.ops = parseMulti(&c)
	case opSetWatches:
		c.int64()
		// Watches for data, for nodes that are missing, and for children: each a vector of paths.
		for range 3 {
			n := c.vector(4)
			r.watches += n
			for range n {
				c.str()
			}
		}
	}
	return r
}

// parseMulti reads a transaction. A header (type, done, error) stands before each operation and behind the last one; only
// that one says done. Operations other than these four do not pass Session.checkMulti.
func parseMulti(c *cursor) (first string, ops int) {
	for !c.bad {
		op, done := c.int32(), c.bool()
		c.int32()
		if done {
			break
		}
		path := c.str()
		if ops++; ops == 1 {
			first = path
		}
		switch op {
		case opCreate:
			c.buffer()
			c.acls()
			c.int32()
		case opSetData:
			c.buffer()
			c.int32()
		case opDelete, opCheck:
			c.int32()
		}
	}
	return first, ops
}

// checkReply says whether go-zookeeper can decode the body of a successful reply to r without a panic, an allocation
// beyond the frame's own size, or a result of another shape than the caller expects. failed reports a multi that was
// rolled back. Bytes after what we know are allowed: newer servers may add some. Operations without a case are answered
// by the header alone.
//
// go-zookeeper turns a slice out of range into an error, but lets every other panic of its decoder through, on a
// goroutine of its own, where nobody can recover it (decodePacket). And it makes a vector before it reads an element.
func checkReply(r request, body []byte) (failed bool, err error) {
	c := cursor{b: body}
	switch r.op {
	// A path: taken, not copied into a string, because it is only looked at.
	case opCreate, opSync:
		c.take(int(c.int32()))
	case opExists, opSetData, opSetACL:
		c.take(statSize)
	case opGetData:
		c.buffer()
		c.take(statSize)
	case opGetACL:
		c.acls()
		c.take(statSize)
	case opGetChildren2:
		for range c.vector(4) {
			c.take(int(c.int32()))
		}
		c.take(statSize)
	case opMulti:
		failed, err = checkMulti(r.ops, &c)
	}
	if c.bad {
		err = fmt.Errorf("%w: malformed reply of %d bytes to operation %d", ErrProtocol, len(body), r.op)
	}
	return failed, err
}

// checkMulti walks the results of a transaction of want operations. Callers index the results by operation, so
// another number of them is a violation, not a curiosity. In a transaction that was rolled back each operation has an
// error for its result: 0 before the one that failed, -2 behind it (DataTree.processTxn). So all are looked at.
func checkMulti(want int, c *cursor) (failed bool, err error) {
	got := 0
	for !c.bad {
		op, done := c.int32(), c.bool()
		c.int32()
		if done || c.bad {
			break
		}
		got++
		switch op {
		case opError:
			failed = c.int32() != 0 || failed
		case opCreate:
			c.take(int(c.int32()))
		case opSetData:
			c.take(statSize)
		case opCheck, opDelete:
		default:
			return failed, fmt.Errorf("%w: result of unknown type %d in a transaction", ErrProtocol, op)
		}
	}
	if got != want {
		return failed, fmt.Errorf("%w: %d results for a transaction of %d operations", ErrProtocol, got, want)
	}
	return failed, nil
}

// checkEvent reads a watch event's body.
func checkEvent(body []byte) (kind int32, path string, err error) {
	c := cursor{b: body}
	kind = c.int32()
	c.int32()
	path = c.str()
	if c.bad {
		return 0, "", fmt.Errorf("%w: malformed watch event of %d bytes", ErrProtocol, len(body))
	}
	return kind, path, nil
}

// grant is a server's answer to a connect request. The session password in the frame stays there: nobody but
// go-zookeeper needs it, and with it anybody can end the session.
type grant struct {
	id      int64
	timeout int32 // ms
}

func parseGrant(body []byte) (grant, error) {
	c := cursor{b: body}
	c.int32() // protocol version
	g := grant{timeout: c.int32(), id: c.int64()}
	c.buffer()
	if c.bad {
		return grant{}, fmt.Errorf("%w: malformed answer of %d bytes to the connect request", ErrProtocol, len(body))
	}
	return g, nil
}

// explainLength turns four bytes that are no frame length into what is probably listening there.
func explainLength(head [4]byte, max int) error {
	n := int64(int32(binary.BigEndian.Uint32(head[:])))
	switch {
	case string(head[:]) == "HTTP":
		return fmt.Errorf("%w: it answers in HTTP: this is a web port (an AdminServer?), not ZooKeeper's client port", ErrProtocol)
	case head[0] == 0x15 && head[1] == 0x03:
		return fmt.Errorf("%w: it answers with a TLS alert: this is a TLS port; connect with TLS", ErrProtocol)
	default:
		return fmt.Errorf("%w: it sent a frame length of %d (% x), allowed are %d to %d", ErrProtocol, n, head, replyHeader, max)
	}
}
