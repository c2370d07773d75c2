package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	// ReplyHeader is the length of a reply without a body.
	ReplyHeader = 16 // xid, zxid, error code

	// MaxReply bounds a reply unless Config.MaxReply does. Servers do not limit replies: 100,000 children of 70 bytes are 7 MB.
	MaxReply = 16 << 20
	// MaxRequest is jute.maxbuffer's default: a server that receives a larger frame drops the connection.
	MaxRequest = 0xfffff
	// maxConnectReply bounds the reply to a connect request: 20 bytes, a password (16 today), a read-only byte.
	maxConnectReply = 256
)

// Str reads a string.
func (d *Decoder) Str() string { return string(d.Take(int(d.Int32()))) }

// vector is Count for a server's answer, where the length of a vector is never negative.
func (d *Decoder) vector(size int) int {
	n := d.Count(size)
	if n < 0 {
		d.Fail()
		return 0
	}
	return n
}

// ACLs reads an access list.
func (d *Decoder) ACLs() []zk.ACL {
	// An entry is at least its permissions and the lengths of two strings.
	all := make([]zk.ACL, d.vector(12))
	for i := range all {
		all[i] = zk.ACL{Perms: d.Int32(), Scheme: d.Str(), ID: d.Str()}
	}
	return all
}

// Stat reads the metadata of a node.
func (d *Decoder) Stat() *zk.Stat {
	return &zk.Stat{
		Czxid: d.Int64(), Mzxid: d.Int64(), Ctime: d.Int64(), Mtime: d.Int64(),
		Version: d.Int32(), Cversion: d.Int32(), Aversion: d.Int32(), EphemeralOwner: d.Int64(),
		DataLength: d.Int32(), NumChildren: d.Int32(), Pzxid: d.Int64(),
	}
}

// ACLs appends an access list.
func (e *Encoder) ACLs(acl []zk.ACL) {
	e.Int32(int32(len(acl)))
	for _, a := range acl {
		e.Int32(a.Perms)
		e.Str(a.Scheme)
		e.Str(a.ID)
	}
}

// Node appends an operation that a transaction may contain, and returns its code.
func (e *Encoder) Node(request any) int32 {
	switch r := request.(type) {
	case *zk.CreateRequest:
		e.Str(r.Path)
		e.Buffer(r.Data)
		e.ACLs(r.Acl)
		e.Int32(r.Flags)
		return OpCreate
	case *Container:
		e.Str(r.Path)
		e.Buffer([]byte{})
		e.ACLs(r.ACL)
		e.Int32(zk.FlagContainer)
		return OpCreateContainer
	case *zk.SetDataRequest:
		e.Str(r.Path)
		e.Buffer(r.Data)
		e.Int32(r.Version)
		return OpSetData
	case *zk.DeleteRequest:
		e.Str(r.Path)
		e.Int32(r.Version)
		return OpDelete
	case *zk.CheckVersionRequest:
		e.Str(r.Path)
		e.Int32(r.Version)
		return OpCheck
	}
	return 0
}

// Container is an operation of a transaction that creates a container node, without data. The servers delete it some time after
// its last child has gone. Servers before 3.5.3 have no container nodes. Programs cannot use this internal type: they must not
// put locks on a node that the servers delete.
type Container struct {
	Path string
	ACL  []zk.ACL
}

// Multi appends a transaction. A header (type, done, error) precedes each operation; one more header, the only one with done set,
// follows the last operation.
func (e *Encoder) Multi(ops []any) {
	for _, each := range ops {
		at := len(e.B)
		e.B = append(e.B, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff)
		code := e.Node(each) // may reallocate e.B
		binary.BigEndian.PutUint32(e.B[at:], uint32(code))
	}
	e.B = append(e.B, 0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff)
}

// Reply is a server's answer: the header, and the fields of the body that the operation has.
type Reply struct {
	Zxid    int64 // the zxid of a committed write; otherwise that of the newest transaction that the server knew
	Code    int32 // the error code; for a transaction, that of the first operation that failed
	Failed  int32 // for a transaction that failed: the index of the first operation that failed
	Path    string
	Data    []byte
	Names   []string
	ACL     []zk.ACL
	Stat    *zk.Stat
	Results []zk.MultiResponse
}

// Decode reads the body of a successful reply; ops is the number of operations of a transaction. The frame's size bounds its
// allocations. Newer servers may add fields at the end. Operations without a case here have no body.
func (r *Reply) Decode(op int32, ops int, body []byte) (err error) {
	c := Decoder{B: body}
	switch op {
	case OpCreate, OpSync:
		r.Path = c.Str()
	case OpExists, OpSetData, OpSetACL:
		r.Stat = c.Stat()
	case OpGetData:
		r.Data = c.Buffer()
		r.Stat = c.Stat()
	case OpGetACL:
		r.ACL = c.ACLs()
		r.Stat = c.Stat()
	case OpGetChildren2:
		r.Names = make([]string, c.vector(4))
		for i := range r.Names {
			r.Names[i] = c.Str()
		}
		r.Stat = c.Stat()
	case OpMulti:
		err = r.multi(&c, ops)
	}
	if c.Bad {
		err = fmt.Errorf("%w: malformed reply of %d bytes to operation %d", ErrProtocol, len(body), op)
	}
	return err
}

// multi reads the results of a transaction; want is the number of its operations, and callers index them by operation. In a
// transaction that was rolled back every result is an error: 0 before the operation that failed, -2 after it
// (DataTree.processTxn). So multi reads all results.
func (r *Reply) multi(c *Decoder, want int) error {
	for !c.Bad {
		op, done := c.Int32(), c.Bool()
		c.Int32()
		if done || c.Bad {
			break
		}
		var result zk.MultiResponse
		switch op {
		case OpError:
			if code := c.Int32(); code != 0 {
				if result.Error = errRolledBack; code != CodeRuntimeInconsistency {
					_, result.Error = Answer(code)
				}
				if r.Code == 0 || r.Code == CodeRuntimeInconsistency {
					r.Code, r.Failed = code, int32(len(r.Results))
				}
			}
		case OpCreate:
			result.String = c.Str()
		case OpCreate2: // only a container is created with this code
			result.String = c.Str()
			c.Stat()
		case OpSetData:
			result.Stat = c.Stat()
		case OpCheck, OpDelete:
		default:
			return fmt.Errorf("%w: result of unknown type %d in a transaction", ErrProtocol, op)
		}
		r.Results = append(r.Results, result)
	}
	if len(r.Results) != want {
		return fmt.Errorf("%w: %d results for a transaction of %d operations", ErrProtocol, len(r.Results), want)
	}
	return nil
}

// Grant is a server's answer to a connect request.
type Grant struct {
	version  int32 // the version of the protocol; see keeperRejects
	ID       int64
	Timeout  int32 // ms
	Password []byte
}

// keeperRejects is the protocol version of the refusal that a ClickHouse Keeper without a leader sends. The session id beside it
// means nothing.
const keeperRejects = 42

// ErrKeeper: the peer is a ClickHouse Keeper. It opens another session for each connection, whichever session a client asks for.
var ErrKeeper = errors.New("a ClickHouse Keeper, whose sessions end with their connection, so a lock there cannot survive a reconnect; locktree needs Apache ZooKeeper")

// ConnectFrame is a connect request, for a new session if id is 0.
func ConnectFrame(zxid int64, timeout time.Duration, id int64, password []byte) []byte {
	e := Encoder{B: make([]byte, 4, 64)}
	e.Int32(0) // protocol version
	e.Int64(zxid)
	e.Int32(int32(timeout / time.Millisecond))
	e.Int64(id)
	e.Buffer(password)
	e.Bool(false)                                       // not read-only
	binary.BigEndian.PutUint32(e.B, uint32(len(e.B)-4)) //nolint:gosec // 45
	return e.B
}

// NewPassword is sent for a session that has no password yet.
var NewPassword = make([]byte, 16)

// Closing appends a closeSession to frames.
func Closing(frames []byte, xid int32) []byte {
	e := Encoder{B: append(frames, 0, 0, 0, 8)}
	e.Int32(xid)
	e.Int32(OpCloseSession)
	return e.B
}

// ReadGrant reads the answer to a connect request.
func ReadGrant(r io.Reader) (Grant, error) {
	body, err := ReadSmall(r)
	if err != nil {
		return Grant{}, err
	}
	c := Decoder{B: body}
	g := Grant{version: c.Int32(), Timeout: c.Int32(), ID: c.Int64()}
	g.Password = c.Buffer()
	if c.Bad {
		return Grant{}, fmt.Errorf("%w: malformed answer of %d bytes to the connect request", ErrProtocol, len(body))
	}
	// A Keeper's sessions have a password of zeros. ZooKeeper also sends such a password for a session that has expired, but with
	// a timeout of 0.
	if g.version == keeperRejects || g.Timeout > 0 && bytes.Equal(g.Password, NewPassword) {
		return Grant{}, ErrKeeper
	}
	return g, nil
}

// ReadSmall reads a frame as short as the answer to a connect request.
func ReadSmall(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if n < ReplyHeader || n > maxConnectReply {
		return nil, ExplainLength([4]byte(head), maxConnectReply)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r, body)
	return body, err
}

// ExplainLength turns four bytes that are not a frame length into an error that names what is probably listening there.
func ExplainLength(head [4]byte, max int) error {
	n := int64(int32(binary.BigEndian.Uint32(head[:])))
	switch {
	case string(head[:]) == "HTTP":
		return fmt.Errorf("%w: it answers in HTTP: this is a web port (an AdminServer?), not ZooKeeper's client port", ErrProtocol)
	case head[0] == 0x15 && head[1] == 0x03:
		return fmt.Errorf("%w: it answers with a TLS alert: this is a TLS port; connect with TLS", ErrProtocol)
	case n > int64(max) && max != maxConnectReply:
		return fmt.Errorf("%w: a reply of %d bytes; this client reads up to %d (Config.MaxReply)", ErrTooLarge, n, max)
	default:
		return fmt.Errorf("%w: it sent a frame length of %d (% x), allowed are %d to %d", ErrProtocol, n, head, ReplyHeader, max)
	}
}

// TimedOut reports whether err means that a deadline has passed. A Config.Dialer's connections may have their own error for that.
func TimedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// The errors of a server's answer, or of bytes that are no answer. They always arrive wrapped in a text.
var (
	ErrAuth = errors.New("recipes: authentication refused")
	// A request too large is not sent: the server would close the connection, which all other requests share.
	ErrTooLarge      = errors.New("recipes: too large")
	ErrQuotaExceeded = errors.New("recipes: quota exceeded")
	ErrThrottled     = errors.New("recipes: throttled by the server")
	ErrServer        = errors.New("recipes: server error")
	// ErrProtocol: the peer sent bytes that are not ZooKeeper's protocol. The connection was dropped.
	ErrProtocol = errors.New("recipes: protocol violation")
)

// Outcome says what is known about a failed operation's effect on the servers.
type Outcome int

const (
	// OutcomeUnknown: the operation may have been applied, may still be applied, or may never be. It is the zero value
	// because it must be assumed when nothing is known.
	OutcomeUnknown Outcome = iota
	// OutcomeDefinite: a server answered. The operation was refused and had no effect.
	OutcomeDefinite
	// OutcomeNotSent: the operation never left this process.
	OutcomeNotSent
)

// String returns "unknown", "definite" or "not sent".
func (o Outcome) String() string {
	switch o {
	case OutcomeDefinite:
		return "definite"
	case OutcomeNotSent:
		return "not sent"
	default:
		return "unknown"
	}
}

// definiteCodes are the error codes of a server that did not apply the operation. A moved or expired session is among them: the
// server checks that the session is its own before it processes a request (SessionTrackerImpl.checkSession).
var definiteCodes = map[int32]error{
	CodeBadArguments: zk.ErrBadArguments, CodeNoNode: zk.ErrNoNode, CodeNoAuth: zk.ErrNoAuth,
	CodeBadVersion: zk.ErrBadVersion, CodeNoChildrenForEphemerals: zk.ErrNoChildrenForEphemerals,
	CodeNodeExists: zk.ErrNodeExists, CodeNotEmpty: zk.ErrNotEmpty, CodeSessionExpired: zk.ErrSessionExpired,
	CodeInvalidACL: zk.ErrInvalidACL, CodeAuthFailed: zk.ErrAuthFailed, CodeSessionMoved: zk.ErrSessionMoved,
	CodeReconfigDisabled: zk.ErrReconfigDisabled,
}

// unnamedCodes has the codes that go-zookeeper has no error for, with their meaning for a write. Codes that a server returns
// before it proposes anything are definite; for internal failures of a server nothing is assumed.
var unnamedCodes = map[int32]struct {
	outcome Outcome
	err     error
	text    string
}{
	CodeSystemError:             {OutcomeUnknown, ErrServer, "system error"},
	CodeRuntimeInconsistency:    {OutcomeUnknown, ErrServer, "runtime inconsistency"},
	CodeDataInconsistency:       {OutcomeUnknown, ErrServer, "data inconsistency"},
	CodeConnectionLoss:          {OutcomeUnknown, ErrServer, "the server lost its leader"},
	CodeMarshallingError:        {OutcomeUnknown, ErrServer, "it could not read the request"},
	CodeUnimplemented:           {OutcomeDefinite, ErrServer, "it does not implement the operation"},
	CodeOperationTimeout:        {OutcomeUnknown, ErrServer, "operation timeout"},
	CodeInvalidState:            {OutcomeUnknown, ErrServer, "invalid state"},
	CodeNewConfigNoQuorum:       {OutcomeUnknown, ErrServer, "no new configuration"},
	CodeNotReadOnly:             {OutcomeDefinite, ErrServer, "it is in read-only mode"},
	CodeEphemeralOnLocalSession: {OutcomeDefinite, ErrServer, "a local session cannot create ephemeral nodes"},
	CodeRequestTimeout:          {OutcomeUnknown, ErrServer, "request timeout"},
	CodeSASLRequired: {OutcomeDefinite, ErrAuth, "the servers admit only connections with an identity of certain schemes, and ours has none of them (sessionRequireClientSASLAuth, enforce.auth.schemes); " +
		`to log in by SASL, in Go set the field SASL, in a configuration an auth block "sasl" or "kerberos"`},
	CodeQuotaExceeded: {OutcomeDefinite, ErrQuotaExceeded, ""},
	CodeThrottled:     {OutcomeDefinite, ErrThrottled, ""},
}

// errRolledBack is the result of a transaction's operations that failed only because another operation failed.
var errRolledBack = errors.New("unknown error: -2") // go-zookeeper's wording

// Answer returns what an error code means for the operation's effect, and the error that callers should see.
func Answer(code int32) (Outcome, error) {
	if err, ok := definiteCodes[code]; ok {
		return OutcomeDefinite, err
	}
	known, ok := unnamedCodes[code]
	switch {
	case !ok:
		return OutcomeUnknown, fmt.Errorf("%w: code %d", ErrServer, code)
	case known.text == "":
		return known.outcome, fmt.Errorf("%w (code %d)", known.err, code)
	}
	return known.outcome, fmt.Errorf("%w: %s (code %d)", known.err, known.text, code)
}

// Error codes (KeeperException.Code).
const (
	CodeOK                      = 0
	CodeSystemError             = -1
	CodeRuntimeInconsistency    = -2 // as the result of an operation in a transaction: the operation was rolled back
	CodeDataInconsistency       = -3
	CodeConnectionLoss          = -4
	CodeMarshallingError        = -5
	CodeUnimplemented           = -6
	CodeOperationTimeout        = -7
	CodeBadArguments            = -8
	CodeInvalidState            = -9
	CodeNewConfigNoQuorum       = -13
	CodeNoNode                  = -101
	CodeNoAuth                  = -102
	CodeBadVersion              = -103
	CodeNoChildrenForEphemerals = -108
	CodeNodeExists              = -110
	CodeNotEmpty                = -111
	CodeSessionExpired          = -112
	CodeInvalidACL              = -114
	CodeAuthFailed              = -115
	CodeSessionMoved            = -118
	CodeNotReadOnly             = -119
	CodeEphemeralOnLocalSession = -120
	CodeNoWatcher               = -121
	CodeRequestTimeout          = -122
	CodeReconfigDisabled        = -123
	CodeSASLRequired            = -124
	CodeQuotaExceeded           = -125
	CodeThrottled               = -127
)
