package session

import (
	"encoding/binary"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// Operation codes of ZooKeeper's protocol (ZooDefs.OpCode).
const (
	opCreate       int32 = 1
	opDelete       int32 = 2
	opExists       int32 = 3
	opGetData      int32 = 4
	opSetData      int32 = 5
	opGetACL       int32 = 6
	opSetACL       int32 = 7
	opSync         int32 = 9
	opGetChildren2 int32 = 12
	opCheck        int32 = 13
	opMulti        int32 = 14
	opRemoveWatch  int32 = 18
	opSetAuth      int32 = 100
	opSetWatches   int32 = 101
	opClose        int32 = -11
	opError        int32 = -1 // in a multi's results: the operation failed, or was rolled back
)

const (
	xidEvent int32 = -1 // a watch event: no request's answer
	xidPing  int32 = -2

	replyHeader = 16 // xid, zxid, error code

	// maxReply bounds a reply unless Config.MaxReply does. Servers do not limit replies: 100,000 children of 70 bytes are 7 MB.
	maxReply = 16 << 20
	// maxRequest is jute.maxbuffer's default: a server that receives a larger frame drops the connection.
	maxRequest = 0xfffff
	// maxConnectReply bounds the reply to a connect request: 20 bytes, a password (16 today), a read-only byte.
	maxConnectReply = 256
)

// cursor reads jute, ZooKeeper's encoding. A read beyond the end sets bad, and from then on everything reads as zero, so
// checking bad once, after the last read, is enough.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	// Lengths are signed on the wire. A bad one drops the rest of the frame, so that no loop finds anything more.
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

// buffer reads a byte array; a length of -1 is legal and means null.
func (c *cursor) buffer() []byte {
	n := c.int32()
	if n == -1 {
		return nil
	}
	return append([]byte{}, c.take(int(n))...)
}

// vector reads an element count and refuses one that the rest of the frame cannot hold: callers allocate by the count.
func (c *cursor) vector(minElement int) int {
	n := int(c.int32())
	if n < 0 || n > len(c.b)/minElement {
		c.bad, c.b = true, nil
		return 0
	}
	return n
}

func (c *cursor) acls() []zk.ACL {
	// An entry is at least its permissions and the lengths of two strings.
	all := make([]zk.ACL, c.vector(12))
	for i := range all {
		all[i] = zk.ACL{Perms: c.int32(), Scheme: c.str(), ID: c.str()}
	}
	return all
}

func (c *cursor) stat() *zk.Stat {
	return &zk.Stat{
		Czxid: c.int64(), Mzxid: c.int64(), Ctime: c.int64(), Mtime: c.int64(),
		Version: c.int32(), Cversion: c.int32(), Aversion: c.int32(), EphemeralOwner: c.int64(),
		DataLength: c.int32(), NumChildren: c.int32(), Pzxid: c.int64(),
	}
}

// encoder appends operations in jute.
type encoder struct{ b []byte }

func (e *encoder) int32(v int32) { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }

func (e *encoder) int64(v int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }

func (e *encoder) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) str(s string) {
	e.int32(int32(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) paths(keys []watchKey) {
	e.int32(int32(len(keys)))
	for _, k := range keys {
		e.str(k.path)
	}
}

// buffer appends a byte array; nil becomes null, which servers distinguish from an empty one.
func (e *encoder) buffer(data []byte) {
	if data == nil {
		e.int32(-1)
		return
	}
	e.int32(int32(len(data)))
	e.b = append(e.b, data...)
}

func (e *encoder) acls(acl []zk.ACL) {
	e.int32(int32(len(acl)))
	for _, a := range acl {
		e.int32(a.Perms)
		e.str(a.Scheme)
		e.str(a.ID)
	}
}

// node appends an operation that a transaction may contain, and returns its code.
func (e *encoder) node(request any) int32 {
	switch r := request.(type) {
	case *zk.CreateRequest:
		e.str(r.Path)
		e.buffer(r.Data)
		e.acls(r.Acl)
		e.int32(r.Flags)
		return opCreate
	case *zk.SetDataRequest:
		e.str(r.Path)
		e.buffer(r.Data)
		e.int32(r.Version)
		return opSetData
	case *zk.DeleteRequest:
		e.str(r.Path)
		e.int32(r.Version)
		return opDelete
	case *zk.CheckVersionRequest:
		e.str(r.Path)
		e.int32(r.Version)
		return opCheck
	}
	return 0
}

// multi appends a transaction. A header (type, done, error) precedes each operation; one more, the only one with done set,
// follows the last.
func (e *encoder) multi(ops []any) {
	for _, each := range ops {
		at := len(e.b)
		e.b = append(e.b, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff)
		code := e.node(each) // may reallocate e.b
		binary.BigEndian.PutUint32(e.b[at:], uint32(code))
	}
	e.b = append(e.b, 0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff)
}

// reply is a server's answer: the header, and the fields of the body that the operation has.
type reply struct {
	zxid    int64 // a committed write's own; otherwise that of the newest transaction the server knew
	code    int32 // why it failed; of a transaction, why the first operation that failed did
	failed  int32 // of a transaction that failed: the index of that operation
	path    string
	data    []byte
	names   []string
	acl     []zk.ACL
	stat    *zk.Stat
	results []zk.MultiResponse
}

// decode reads the body of a successful reply; ops is the number of operations of a transaction. What it allocates is bounded
// by the frame's size. Newer servers may add fields at the end. Operations without a case here have no body.
func (r *reply) decode(op int32, ops int, body []byte) (err error) {
	c := cursor{b: body}
	switch op {
	case opCreate, opSync:
		r.path = c.str()
	case opExists, opSetData, opSetACL:
		r.stat = c.stat()
	case opGetData:
		r.data = c.buffer()
		r.stat = c.stat()
	case opGetACL:
		r.acl = c.acls()
		r.stat = c.stat()
	case opGetChildren2:
		r.names = make([]string, c.vector(4))
		for i := range r.names {
			r.names[i] = c.str()
		}
		r.stat = c.stat()
	case opMulti:
		err = r.multi(&c, ops)
	}
	if c.bad {
		err = fmt.Errorf("%w: malformed reply of %d bytes to operation %d", ErrProtocol, len(body), op)
	}
	return err
}

// multi reads the results of a transaction of want operations; callers index them by operation. In one that was rolled back
// every result is an error: 0 before the operation that failed, -2 after it (DataTree.processTxn). So all of them are read.
func (r *reply) multi(c *cursor, want int) error {
	for !c.bad {
		op, done := c.int32(), c.bool()
		c.int32()
		if done || c.bad {
			break
		}
		var result zk.MultiResponse
		switch op {
		case opError:
			if code := c.int32(); code != 0 {
				if result.Error = errRolledBack; code != codeRolledBack {
					_, result.Error = answer(code)
				}
				if r.code == 0 || r.code == codeRolledBack {
					r.code, r.failed = code, int32(len(r.results))
				}
			}
		case opCreate:
			result.String = c.str()
		case opSetData:
			result.Stat = c.stat()
		case opCheck, opDelete:
		default:
			return fmt.Errorf("%w: result of unknown type %d in a transaction", ErrProtocol, op)
		}
		r.results = append(r.results, result)
	}
	if len(r.results) != want {
		return fmt.Errorf("%w: %d results for a transaction of %d operations", ErrProtocol, len(r.results), want)
	}
	return nil
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

// grant is a server's answer to a connect request, without the session's password: whoever has that can end the session.
type grant struct {
	id      int64
	timeout int32 // ms

	password Secret
}

func parseGrant(body []byte) (grant, error) {
	c := cursor{b: body}
	c.int32() // protocol version
	g := grant{timeout: c.int32(), id: c.int64()}
	g.password = Secret(c.buffer())
	if c.bad {
		return grant{}, fmt.Errorf("%w: malformed answer of %d bytes to the connect request", ErrProtocol, len(body))
	}
	return g, nil
}

// explainLength turns four bytes that are not a frame length into an error that names what is probably listening there.
func explainLength(head [4]byte, max int) error {
	n := int64(int32(binary.BigEndian.Uint32(head[:])))
	switch {
	case string(head[:]) == "HTTP":
		return fmt.Errorf("%w: it answers in HTTP: this is a web port (an AdminServer?), not ZooKeeper's client port", ErrProtocol)
	case head[0] == 0x15 && head[1] == 0x03:
		return fmt.Errorf("%w: it answers with a TLS alert: this is a TLS port; connect with TLS", ErrProtocol)
	case n > int64(max) && max != maxConnectReply:
		return fmt.Errorf("%w: it is %d bytes long, and this client reads up to %d (Config.MaxReply)", ErrReplyTooLarge, n, max)
	default:
		return fmt.Errorf("%w: it sent a frame length of %d (% x), allowed are %d to %d", ErrProtocol, n, head, replyHeader, max)
	}
}
