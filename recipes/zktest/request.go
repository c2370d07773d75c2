package zktest

import "github.com/locktree/locktree/recipes/internal/jute"

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
	scheme  string    // auth
	auth    []byte    // sasl: the token
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
	d := newDecoder(b)
	d.Int32() // protocol version: the server never looks at it
	c := connectRequest{lastZxid: d.Int64(), timeout: d.Int32(), session: d.Int64(), password: d.Buffer()}
	if d.Bad {
		return request{}, errMalformed
	}
	c.old = len(d.B) == 0 // clients before 3.4 end with the password
	c.readOnly = !c.old && d.Bool()
	return request{op: opConnect, connect: c}, nil
}

// decodeRequest reads a frame after the handshake. An error means that even the
// header is incomplete. A body that does not decode is marked bad instead, because
// the server answers it.
func decodeRequest(b []byte) (request, error) {
	d := newDecoder(b)
	r := request{xid: d.Int32(), op: d.Int32(), ttl: -1}
	if d.Bad {
		return r, errMalformed
	}
	d.body(&r)
	r.bad = r.bad || d.Bad
	return r, nil
}

// body reads the operation's record. The server ignores the body of an operation
// without a case, and bytes that are left over.
func (d *decoder) body(r *request) {
	switch r.op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		d.create(r)
	case jute.OpDelete, jute.OpCheck:
		r.path, r.version = d.string(), d.Int32()
	case jute.OpSetData:
		r.path, r.data, r.version = d.string(), d.Buffer(), d.Int32()
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		r.path, r.watch = d.string(), d.Bool()
	case jute.OpGetACL, jute.OpSync, jute.OpGetAllChildrenNumber:
		r.path = d.string()
	case jute.OpGetEphemerals:
		r.path, _ = d.optString()
	case jute.OpSetACL:
		r.path, r.acl, r.version = d.string(), d.acls(), d.Int32()
	case jute.OpAddWatch, jute.OpCheckWatches, jute.OpRemoveWatches:
		r.path, r.mode = d.string(), d.Int32()
	case jute.OpSetWatches, jute.OpSetWatches2:
		d.setWatches(r)
	case jute.OpAuth:
		d.Int32()
		r.scheme, _ = d.optString()
		r.auth = d.Buffer()
	case jute.OpSASL:
		r.auth = d.Buffer()
		r.bad = r.auth == nil // the server fails on a missing token
	case jute.OpMulti, jute.OpMultiRead:
		d.multi(r)
	case jute.OpReconfig:
		for range 3 { // joining, leaving, new members
			d.optString()
		}
		d.Int64()
	}
}

func (d *decoder) create(r *request) {
	r.path, r.data, r.acl, r.flags = d.string(), d.Buffer(), d.acls(), d.Int32()
	r.ttl = -1
	if r.op == jute.OpCreateTTL {
		r.ttl = d.Int64()
	}
}

// setWatches reads three vectors of paths (data, exist, child), or with setWatches2
// five (persistent, and persistent recursive).
func (d *decoder) setWatches(r *request) {
	r.zxid = d.Int64()
	n := 3
	if r.op == jute.OpSetWatches2 {
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
	for !d.Bad {
		op := request{op: d.Int32()}
		done := d.Bool()
		d.Int32() // in a request the header's error field means nothing
		if done || d.Bad {
			return
		}
		switch op.op {
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpSetData, jute.OpCheck,
			jute.OpGetChildren, jute.OpGetData:
			d.body(&op)
		default:
			d.Fail()
		}
		read := op.op == jute.OpGetChildren || op.op == jute.OpGetData
		if len(r.ops) > 0 && read != reads {
			d.Fail()
		}
		reads = read
		r.ops = append(r.ops, op)
	}
}

// paths are the paths a request names. The first one becomes Request.Path.
func (r *request) paths() []string {
	if r.op != jute.OpMulti && r.op != jute.OpMultiRead {
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
