package wire

// NewReply begins the reply to a request; the caller appends the result of the operation.
func NewReply(xid int32, zxid int64, code Code) *Encoder {
	e := NewEncoder()
	e.Int32(xid)
	e.Int64(zxid)
	e.Int32(int32(code))
	return e
}

// ReplyFrame is the reply to a request that is answered with nothing but a code.
func ReplyFrame(xid int32, zxid int64, code Code) []byte { return NewReply(xid, zxid, code).Frame() }

// ConnectReply grants a session. With the id 0 it says that the session has expired. A client that does not know read-only mode (see
// ConnectRequest.Old) is not told whether the server is read-only.
type ConnectReply struct {
	Timeout  int32 // milliseconds
	Session  int64
	Password []byte
	ReadOnly bool
	Old      bool
}

// Frame encodes the reply.
func (r ConnectReply) Frame() []byte {
	e := NewEncoder()
	e.Int32(0)
	e.Int32(r.Timeout)
	e.Int64(r.Session)
	e.Buffer(r.Password)
	if !r.Old {
		e.Bool(r.ReadOnly)
	}
	return e.Frame()
}

// EventFrame is a watch event as the server pushes it, with no request's xid.
func EventFrame(typ EventType, path string, zxid int64) []byte {
	e := NewReply(XidEvent, zxid, CodeOK)
	e.Int32(int32(typ))
	e.Int32(stateSyncConnected)
	e.String(path)
	return e.Frame()
}

func (e *Encoder) multiHeader(typ int32, done bool, code Code) {
	e.Int32(typ)
	e.Bool(done)
	e.Int32(int32(code))
}

// MultiResult begins the result of one operation of a multi or multiRead; the caller appends what the operation answers.
func (e *Encoder) MultiResult(op int32) { e.multiHeader(op, false, CodeOK) }

// MultiError is the result of an operation that failed. The code is in the header and again after it (DataTree.processTxn).
func (e *Encoder) MultiError(code Code) {
	e.multiHeader(opError, false, code)
	e.Int32(int32(code))
}

// MultiEnd follows the last result.
func (e *Encoder) MultiEnd() { e.multiHeader(-1, true, -1) }

// MultiFailure is the reply of a transaction of n operations that failed because of one of them. It lists OK for the operations before the
// culprit, the code for the culprit, and RuntimeInconsistency for the operations after it.
func (e *Encoder) MultiFailure(n, culprit int, code Code) {
	for i := range n {
		switch {
		case i < culprit:
			e.MultiError(CodeOK)
		case i == culprit:
			e.MultiError(code)
		default:
			e.MultiError(CodeRuntimeInconsistency)
		}
	}
	e.MultiEnd()
}
