package session

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/jute"
)

const (
	replyHeader = 16 // xid, zxid, error code

	// maxReply bounds a reply unless Config.MaxReply does. Servers do not limit replies: 100,000 children of 70 bytes are 7 MB.
	maxReply = 16 << 20
	// maxRequest is jute.maxbuffer's default: a server that receives a larger frame drops the connection.
	maxRequest = 0xfffff
	// maxConnectReply bounds the reply to a connect request: 20 bytes, a password (16 today), a read-only byte.
	maxConnectReply = 256
)

// cursor reads what a server sent.
type cursor struct{ jute.Decoder }

func newCursor(body []byte) cursor { return cursor{jute.Decoder{B: body}} }

func (c *cursor) str() string { return string(c.Take(int(c.Int32()))) }

// vector reads the number of elements, each of at least size bytes: callers allocate by it.
func (c *cursor) vector(size int) int {
	n := c.Count(size)
	if n < 0 {
		c.Fail()
		return 0
	}
	return n
}

func (c *cursor) acls() []zk.ACL {
	// An entry is at least its permissions and the lengths of two strings.
	all := make([]zk.ACL, c.vector(12))
	for i := range all {
		all[i] = zk.ACL{Perms: c.Int32(), Scheme: c.str(), ID: c.str()}
	}
	return all
}

func (c *cursor) stat() *zk.Stat {
	return &zk.Stat{
		Czxid: c.Int64(), Mzxid: c.Int64(), Ctime: c.Int64(), Mtime: c.Int64(),
		Version: c.Int32(), Cversion: c.Int32(), Aversion: c.Int32(), EphemeralOwner: c.Int64(),
		DataLength: c.Int32(), NumChildren: c.Int32(), Pzxid: c.Int64(),
	}
}

// encoder appends operations.
type encoder struct{ jute.Encoder }

func newEncoder(b []byte) encoder { return encoder{jute.Encoder{B: b}} }

func (e *encoder) paths(keys []watchKey) {
	e.Int32(int32(len(keys)))
	for _, k := range keys {
		e.Str(k.path)
	}
}

func (e *encoder) acls(acl []zk.ACL) {
	e.Int32(int32(len(acl)))
	for _, a := range acl {
		e.Int32(a.Perms)
		e.Str(a.Scheme)
		e.Str(a.ID)
	}
}

// node appends an operation that a transaction may contain, and returns its code.
func (e *encoder) node(request any) int32 {
	switch r := request.(type) {
	case *zk.CreateRequest:
		e.Str(r.Path)
		e.Buffer(r.Data)
		e.acls(r.Acl)
		e.Int32(r.Flags)
		return jute.OpCreate
	case *Container:
		e.Str(r.Path)
		e.Buffer([]byte{})
		e.acls(r.ACL)
		e.Int32(zk.FlagContainer)
		return jute.OpCreateContainer
	case *zk.SetDataRequest:
		e.Str(r.Path)
		e.Buffer(r.Data)
		e.Int32(r.Version)
		return jute.OpSetData
	case *zk.DeleteRequest:
		e.Str(r.Path)
		e.Int32(r.Version)
		return jute.OpDelete
	case *zk.CheckVersionRequest:
		e.Str(r.Path)
		e.Int32(r.Version)
		return jute.OpCheck
	}
	return 0
}

// multi appends a transaction. A header (type, done, error) precedes each operation; one more, the only one with done set,
// follows the last.
func (e *encoder) multi(ops []any) {
	for _, each := range ops {
		at := len(e.B)
		e.B = append(e.B, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff)
		code := e.node(each) // may reallocate e.B
		binary.BigEndian.PutUint32(e.B[at:], uint32(code))
	}
	e.B = append(e.B, 0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff)
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
	c := newCursor(body)
	switch op {
	case jute.OpCreate, jute.OpSync:
		r.path = c.str()
	case jute.OpExists, jute.OpSetData, jute.OpSetACL:
		r.stat = c.stat()
	case jute.OpGetData:
		r.data = c.Buffer()
		r.stat = c.stat()
	case jute.OpGetACL:
		r.acl = c.acls()
		r.stat = c.stat()
	case jute.OpGetChildren2:
		r.names = make([]string, c.vector(4))
		for i := range r.names {
			r.names[i] = c.str()
		}
		r.stat = c.stat()
	case jute.OpMulti:
		err = r.multi(&c, ops)
	}
	if c.Bad {
		err = fmt.Errorf("%w: malformed reply of %d bytes to operation %d", ErrProtocol, len(body), op)
	}
	return err
}

// multi reads the results of a transaction of want operations; callers index them by operation. In one that was rolled back
// every result is an error: 0 before the operation that failed, -2 after it (DataTree.processTxn). So all of them are read.
func (r *reply) multi(c *cursor, want int) error {
	for !c.Bad {
		op, done := c.Int32(), c.Bool()
		c.Int32()
		if done || c.Bad {
			break
		}
		var result zk.MultiResponse
		switch op {
		case jute.OpError:
			if code := c.Int32(); code != 0 {
				if result.Error = errRolledBack; code != jute.CodeRuntimeInconsistency {
					_, result.Error = answer(code)
				}
				if r.code == 0 || r.code == jute.CodeRuntimeInconsistency {
					r.code, r.failed = code, int32(len(r.results))
				}
			}
		case jute.OpCreate:
			result.String = c.str()
		case jute.OpCreate2: // of a container
			result.String = c.str()
			c.stat()
		case jute.OpSetData:
			result.Stat = c.stat()
		case jute.OpCheck, jute.OpDelete:
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

// grant is a server's answer to a connect request.
type grant struct {
	version  int32 // of the protocol; see keeperRejects
	id       int64
	timeout  int32 // ms
	password Secret
}

// connectFrame is a connect request, for a new session if id is 0.
func connectFrame(zxid int64, timeout time.Duration, id int64, password []byte) []byte {
	e := newEncoder(make([]byte, 4, 64))
	e.Int32(0) // protocol version
	e.Int64(zxid)
	e.Int32(int32(timeout / time.Millisecond))
	e.Int64(id)
	e.Buffer(password)
	e.Bool(false)                                       // not read-only
	binary.BigEndian.PutUint32(e.B, uint32(len(e.B)-4)) //nolint:gosec // 45
	return e.B
}

// newPassword is sent for a session that has none yet.
var newPassword = make([]byte, 16)

// closing appends a closeSession to frames.
func closing(frames []byte, xid int32) []byte {
	e := newEncoder(append(frames, 0, 0, 0, 8))
	e.Int32(xid)
	e.Int32(jute.OpCloseSession)
	return e.B
}

// readGrant reads the answer to a connect request.
func readGrant(r io.Reader) (grant, error) {
	body, err := readSmall(r)
	if err != nil {
		return grant{}, err
	}
	c := newCursor(body)
	g := grant{version: c.Int32(), timeout: c.Int32(), id: c.Int64()}
	g.password = Secret(c.Buffer())
	if c.Bad {
		return grant{}, fmt.Errorf("%w: malformed answer of %d bytes to the connect request", ErrProtocol, len(body))
	}
	if g.byKeeper() {
		return grant{}, errKeeper
	}
	return g, nil
}

// readSmall reads a frame as short as the answer to a connect request.
func readSmall(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if n < replyHeader || n > maxConnectReply {
		return nil, explainLength([4]byte(head), maxConnectReply)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r, body)
	return body, err
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
		return fmt.Errorf("%w: a reply of %d bytes; this client reads up to %d (Config.MaxReply)", ErrTooLarge, n, max)
	default:
		return fmt.Errorf("%w: it sent a frame length of %d (% x), allowed are %d to %d", ErrProtocol, n, head, replyHeader, max)
	}
}
