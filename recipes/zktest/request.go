package zktest

// request is one decoded request of a client. Only the fields its operation
// carries are set.
type request struct {
	xid     int32
	op      int32
	path    string
	data    []byte
	acl     []ACL
	flags   int32
	ttl     int64 // milliseconds, -1 when the record carries none
	version int32
	watch   bool
	mode    int32 // addWatch mode, or the watcher type of (check|remove)Watches
	zxid    int64 // setWatches: the last zxid the client saw
	watches [5][]string
	scheme  string // auth
	auth    []byte
	ops     []request // multi, multiRead
	bad     bool      // the body does not decode: MarshallingError
	connect connectRequest
}

// connectRequest is the handshake. old marks a client that does not send the
// readOnly byte (go-zookeeper), and so must not receive one.
type connectRequest struct {
	lastZxid int64
	timeout  int32
	session  int64
	password []byte
	readOnly bool
	old      bool
}

func decodeConnect(b []byte) (request, error) {
	d := decoder{b: b}
	d.int32() // protocol version: the server never looks at it
	c := connectRequest{lastZxid: d.int64(), timeout: d.int32(), session: d.int64(), password: d.buffer()}
	if d.err != nil {
		return request{}, d.err
	}
	c.old = len(d.b) == 0 // clients before 3.4 end with the password
	c.readOnly = !c.old && d.bool()
	return request{op: opConnect, connect: c}, nil
}

// decodeRequest reads a frame after the handshake. An error means that even the
// header is incomplete. A body that does not decode is marked bad instead, because
// the server answers it.
func decodeRequest(b []byte) (request, error) {
	d := decoder{b: b}
	r := request{xid: d.int32(), op: d.int32(), ttl: -1}
	if d.err != nil {
		return r, d.err
	}
	d.body(&r)
	r.bad = r.bad || d.err != nil
	return r, nil
}

// body reads the operation's record. The server ignores the body of an operation
// without a case, and bytes that are left over.
func (d *decoder) body(r *request) {
	switch r.op {
	case opCreate, opCreate2, opCreateContainer, opCreateTTL:
		d.create(r)
	case opDelete, opCheck:
		r.path, r.version = d.string(), d.int32()
	case opSetData:
		r.path, r.data, r.version = d.string(), d.buffer(), d.int32()
	case opExists, opGetData, opGetChildren, opGetChildren2:
		r.path, r.watch = d.string(), d.bool()
	case opGetACL, opSync, opGetAllChildrenNumber:
		r.path = d.string()
	case opGetEphemerals:
		r.path, _ = d.optString()
	case opSetACL:
		r.path, r.acl, r.version = d.string(), d.acls(), d.int32()
	case opAddWatch, opCheckWatches, opRemoveWatches:
		r.path, r.mode = d.string(), d.int32()
	case opSetWatches, opSetWatches2:
		d.setWatches(r)
	case opAuth:
		d.int32()
		r.scheme, _ = d.optString()
		r.auth = d.buffer()
	case opSASL:
		r.bad = d.buffer() == nil // the server fails on a missing token
	case opMulti, opMultiRead:
		d.multi(r)
	case opReconfig:
		for range 3 { // joining, leaving, new members
			d.optString()
		}
		d.int64()
	}
}

func (d *decoder) create(r *request) {
	r.path, r.data, r.acl, r.flags = d.string(), d.buffer(), d.acls(), d.int32()
	r.ttl = -1
	if r.op == opCreateTTL {
		r.ttl = d.int64()
	}
}

// setWatches reads three vectors of paths (data, exist, child), or with setWatches2
// five (persistent, and persistent recursive).
func (d *decoder) setWatches(r *request) {
	r.zxid = d.int64()
	n := 3
	if r.op == opSetWatches2 {
		n = 5
	}
	for i := range n {
		r.watches[i] = d.strings()
	}
}

// multi reads the operations up to the closing header. As in ZooKeeper, reads
// and writes do not mix and anything that is neither is malformed.
func (d *decoder) multi(r *request) {
	reads := false
	for d.err == nil {
		op := request{op: d.int32()}
		done := d.bool()
		d.int32() // in a request the header's error field means nothing
		if done || d.err != nil {
			return
		}
		switch op.op {
		case opCreate, opCreate2, opCreateContainer, opCreateTTL, opDelete, opSetData, opCheck,
			opGetChildren, opGetData:
			d.body(&op)
		default:
			d.err = errMalformed
		}
		read := op.op == opGetChildren || op.op == opGetData
		if len(r.ops) > 0 && read != reads {
			d.err = errMalformed
		}
		reads = read
		r.ops = append(r.ops, op)
	}
}

// paths are the paths a request names. The first one becomes Request.Path.
func (r *request) paths() []string {
	if r.op != opMulti && r.op != opMultiRead {
		if r.path == "" {
			return nil
		}
		return []string{r.path}
	}
	var out []string
	for i := range r.ops {
		out = append(out, r.ops[i].path)
	}
	return out
}
