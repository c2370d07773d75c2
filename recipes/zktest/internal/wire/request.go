package wire

// Request is one decoded request of a client. Only the fields that its operation carries are set.
type Request struct {
	Xid     int32
	Op      int32
	Path    string
	Data    []byte
	ACL     []ACL
	Flags   int32
	TTL     int64 // milliseconds; of createTTL only
	Version int32
	Watch   bool
	Mode    int32       // addWatch mode, or the watcher type of (check|remove)Watches
	Zxid    int64       // setWatches: the last zxid the client saw
	Watches [5][]string // setWatches: paths of data, exist, child, persistent and recursive watches
	Scheme  string      // auth
	Auth    []byte      // auth: the credential; sasl: the token
	Ops     []Request   // multi, multiRead
	Bad     bool        // the body does not decode: MarshallingError
	Connect ConnectRequest
}

// ConnectRequest is the handshake. Old marks a client that does not send the readOnly byte (go-zookeeper), and so must not receive one.
type ConnectRequest struct {
	LastZxid int64
	Timeout  int32 // milliseconds
	Session  int64
	Password []byte
	ReadOnly bool
	Old      bool
}

// DecodeConnect reads a connection's first frame.
func DecodeConnect(b []byte) (Request, error) {
	d := NewDecoder(b)
	d.Int32() // protocol version: the server never looks at it
	c := ConnectRequest{LastZxid: d.Int64(), Timeout: d.Int32(), Session: d.Int64(), Password: d.Buffer()}
	if d.Bad {
		return Request{}, ErrMalformed
	}
	c.Old = len(d.b) == 0 // clients before 3.4 end with the password
	c.ReadOnly = !c.Old && d.Bool()
	return Request{Op: OpConnect, Connect: c}, nil
}

// DecodeRequest reads a frame after the handshake. An error means that even the header is incomplete. A body that does not decode is marked
// bad instead, because the server answers it.
func DecodeRequest(b []byte) (Request, error) {
	d := NewDecoder(b)
	r := Request{Xid: d.Int32(), Op: d.Int32()}
	if d.Bad {
		return r, ErrMalformed
	}
	d.body(&r)
	r.Bad = r.Bad || d.Bad
	return r, nil
}

// body reads the operation's record. The server ignores the body of an operation without a case, and bytes that are left over.
func (d *Decoder) body(r *Request) {
	switch r.Op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		r.Path, r.Data, r.ACL, r.Flags = d.string(), d.Buffer(), d.acls(), d.Int32()
		if r.Op == OpCreateTTL {
			r.TTL = d.Int64()
		}
	case OpDelete, OpCheck:
		r.Path, r.Version = d.string(), d.Int32()
	case OpSetData:
		r.Path, r.Data, r.Version = d.string(), d.Buffer(), d.Int32()
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		r.Path, r.Watch = d.string(), d.Bool()
	case OpGetACL, OpSync, OpGetAllChildrenNumber:
		r.Path = d.string()
	case OpGetEphemerals:
		r.Path, _ = d.optString()
	case OpSetACL:
		r.Path, r.ACL, r.Version = d.string(), d.acls(), d.Int32()
	case OpAddWatch, OpCheckWatches, OpRemoveWatches:
		r.Path, r.Mode = d.string(), d.Int32()
	case OpSetWatches, OpSetWatches2:
		r.Zxid = d.Int64()
		n := 3 // vectors of paths: data, exist, child
		if r.Op == OpSetWatches2 {
			n = 5 // and persistent, recursive
		}
		for i := range n {
			r.Watches[i] = d.strings()
		}
	case OpAuth:
		d.Int32()
		r.Scheme, _ = d.optString()
		r.Auth = d.Buffer()
	case OpSASL:
		r.Auth = d.Buffer()
		r.Bad = r.Auth == nil // the server fails on a missing token
	case OpMulti, OpMultiRead:
		d.multi(r)
	case OpReconfig:
		for range 3 { // joining, leaving, new members
			d.optString()
		}
		d.Int64()
	}
}

// multi reads the operations up to the closing header. As in ZooKeeper, reads
// and writes do not mix and anything that is neither is malformed.
func (d *Decoder) multi(r *Request) {
	reads := false
	for !d.Bad {
		op := Request{Op: d.Int32()}
		done := d.Bool()
		d.Int32() // in a request the header's error field means nothing
		if done || d.Bad {
			return
		}
		switch op.Op {
		case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpCheck,
			OpGetChildren, OpGetData:
			d.body(&op)
		default:
			d.fail()
		}
		read := op.Op == OpGetChildren || op.Op == OpGetData
		if len(r.Ops) > 0 && read != reads {
			d.fail()
		}
		reads = read
		r.Ops = append(r.Ops, op)
	}
}

// Paths are the paths a request names. The first one becomes the Path that a fault sees.
func (r *Request) Paths() []string {
	if r.Op != OpMulti && r.Op != OpMultiRead {
		if r.Path == "" {
			return nil
		}
		return []string{r.Path}
	}
	var out []string
	for i := range r.Ops {
		out = append(out, r.Ops[i].Path)
	}
	return out
}
