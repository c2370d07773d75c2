package zktest

import (
	"github.com/locktree/locktree/recipes/zktest/internal/store"
	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// run executes one request that has arrived. The client may be gone by now. Its write is still executed while the session lives, as on a
// server that has the request in its pipeline.
func (c *conn) run(it *inboundFrame) {
	s := c.s
	switch {
	case it.eof:
		c.noteGone()
		return
	case it.word != "": // no session, no fault, and no frame: the answer is text
		c.reply([]byte(s.fourLetter(it.word)))
		c.close()
		return
	}
	switch it.fault.kind {
	case faultDropRequest:
		return
	case faultCutBefore:
		c.close()
		return
	case faultFail:
		if it.req.Op == wire.OpConnect { // a handshake's answer has no code; it can only say "expired"
			c.oldClient = it.req.Connect.Old
			c.reply(c.connectReply(nil))
			c.close()
			return
		}
		c.reply(wire.ReplyFrame(it.req.Xid, c.v.zxid(), it.fault.code))
		return
	}
	frame, end := c.execute(&it.req)
	c.finish(it, frame, end)
}

// noteGone is called when the server learns that the client has ended the connection.
func (c *conn) noteGone() {
	if !c.closed {
		c.detach()
	}
	c.out.Kill()
	delete(c.s.conns, c)
}

// execute executes a request. It returns the reply's frame, nil for none, and whether the connection ends with it.
func (c *conn) execute(r *wire.Request) (frame []byte, end bool) {
	s := c.s
	if r.Op == wire.OpConnect {
		return s.handshake(c, &r.Connect)
	}
	x := c.session
	over := x != nil && s.sessions[x.id] != x
	if x == nil || over && c.v.old == nil {
		return nil, true // nothing is answered outside a session
	}
	if r.Op != wire.OpSASL && r.Op != wire.OpAuth && c.mustLogIn() {
		return wire.ReplyFrame(r.Xid, 0, wire.CodeSASLRequired), true
	}
	// A ping is answered before the check of where the session is, because a follower answers pings by itself.
	if r.Op == wire.OpPing {
		return wire.ReplyFrame(wire.XidPing, c.v.zxid(), wire.CodeOK), false
	}
	if x.view != c.v && (wire.IsWrite(r.Op) || r.Op == wire.OpSync || r.Op == wire.OpCloseSession) {
		return nil, true // SessionMoved: the server cuts the connection instead of answering
	}
	switch {
	case r.Bad && (r.Op == wire.OpSASL || r.Op == wire.OpAuth):
		return nil, true
	case r.Op == wire.OpSASL:
		return c.sasl(r)
	case r.Op == wire.OpAuth:
		return c.auth(r)
	}
	if c.v.cutOff && (wire.IsWrite(r.Op) || r.Op == wire.OpCloseSession) {
		c.swallowed = true
		return nil, false
	}
	if over && (wire.IsWrite(r.Op) || r.Op == wire.OpCloseSession) {
		c.v.freshen() // the leader refuses the request, and this server learns of the session's end before it answers
		return nil, true
	}
	if r.Op == wire.OpCloseSession {
		c.ending = true // endSession must not cut before the reply is out
		s.endSession(x)
		c.v.freshen()
		return wire.ReplyFrame(r.Xid, c.v.zxid(), wire.CodeOK), true
	}
	if _, known := wire.OpNames[r.Op]; !known {
		return wire.ReplyFrame(r.Xid, s.zxid, wire.CodeUnimplemented), true
	}
	if r.Op == wire.OpCheck && s.opts.version.DecodesFirst() {
		return wire.ReplyFrame(r.Xid, -1, wire.CodeUnimplemented), true
	}
	body := wire.NewEncoder()
	code := c.dispatch(r, body)
	if wire.IsWrite(r.Op) || r.Op == wire.OpSync {
		c.v.freshen() // a follower answers only with transactions that it has applied
	}
	if r.Op == wire.OpCheck && code == wire.CodeOK {
		return nil, false // outside a multi the server fails to build the reply and sends none
	}
	e := wire.NewReply(r.Xid, c.v.zxid(), code)
	if code == wire.CodeOK || r.Op == wire.OpMultiRead && !r.Bad { // see multiRead
		e.Append(body)
	}
	return e.Frame(), false
}

// dispatch executes one operation and encodes its result. A read-only server refuses before it decodes (ReadOnlyRequestProcessor).
func (c *conn) dispatch(r *wire.Request, e *wire.Encoder) wire.Code {
	s := c.s
	write := wire.IsWrite(r.Op)
	switch {
	case (write || r.Op == wire.OpSync) && s.readOnly:
		return wire.CodeNotReadOnly
	case r.Bad:
		if write && r.Op != wire.OpReconfig && (r.Op == wire.OpMulti || !s.opts.version.DecodesFirst()) {
			s.zxid++ // a failed write takes a zxid too
		}
		return wire.CodeMarshallingError
	case r.Op == wire.OpMulti:
		return c.multi(r, e)
	case write:
		return c.write1(r, e)
	}
	return c.readOp(r, e)
}

// write1 executes a single write as a transaction. A write that is refused has taken a zxid, like every failed write in ZooKeeper.
func (c *conn) write1(r *wire.Request, e *wire.Encoder) wire.Code {
	at := c.s.stamp()
	switch r.Op {
	case wire.OpReconfig:
		return wire.CodeReconfigDisabled
	case wire.OpDeleteContainer:
		return wire.CodeBadArguments // only the server itself may send this; a client's request never has the right form
	}
	result, changes := c.s.tree.Apply(c.caller(), at, storeOp(r))
	if result.Code != wire.CodeOK {
		return result.Code
	}
	c.s.fireWatches(changes)
	switch r.Op {
	case wire.OpCreate:
		e.String(result.Path)
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		e.String(result.Path)
		e.Stat(result.Stat)
	case wire.OpSetData, wire.OpSetACL:
		e.Stat(result.Stat)
	}
	return wire.CodeOK
}

// multi is a transaction of several writes, all or none.
func (c *conn) multi(r *wire.Request, e *wire.Encoder) wire.Code {
	at := c.s.stamp()
	ops := make([]store.Op, len(r.Ops))
	for i := range r.Ops {
		if ops[i] = storeOp(&r.Ops[i]); ops[i] == nil {
			// If one operation is a read, all are: package wire refuses a mix. A multi must have no read.
			return wire.CodeMarshallingError
		}
	}
	results, code, changes := c.s.tree.Multi(c.caller(), at, ops)
	switch code {
	case wire.CodeMarshallingError: // the server fails on the whole request: there are no results
		return code
	case wire.CodeOK:
	default:
		e.MultiFailure(len(ops), len(results), code)
		return wire.CodeOK
	}
	c.s.fireWatches(changes)
	for i, result := range results {
		c.s.encodeResult(e, r.Ops[i].Op, result)
	}
	e.MultiEnd()
	return wire.CodeOK
}

// storeOp is a request's write; nil if it writes nothing.
func storeOp(r *wire.Request) store.Op {
	switch r.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		op := store.Create{Path: r.Path, Data: r.Data, ACL: r.ACL, Flags: r.Flags, TTL: r.TTL}
		switch r.Op {
		case wire.OpCreateContainer:
			op.Kind = store.Container
		case wire.OpCreateTTL:
			op.Kind = store.Timed
		}
		return op
	case wire.OpDelete:
		return store.Delete{Path: r.Path, Version: r.Version}
	case wire.OpSetData:
		return store.SetData{Path: r.Path, Data: r.Data, Version: r.Version}
	case wire.OpSetACL:
		return store.SetACL{Path: r.Path, ACL: r.ACL, Version: r.Version}
	case wire.OpCheck:
		return store.Check{Path: r.Path, Version: r.Version}
	}
	return nil
}

// encodeResult writes the result of one operation of a multi. The creation of a container or a TTL node gets the result of a create2 (which
// go-zookeeper cannot read). Before 3.9, a create2 is answered like a create.
func (s *Server) encodeResult(e *wire.Encoder, op int32, result store.Result) {
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		lasts := result.Lifetime == store.Container || result.Lifetime == store.Timed
		if lasts || (op == wire.OpCreate2 || op == wire.OpCreateContainer) && s.opts.version.Create2HasStat() {
			e.MultiResult(wire.OpCreate2)
			e.String(result.Path)
			e.Stat(result.Stat)
			return
		}
		e.MultiResult(wire.OpCreate)
		e.String(result.Path)
	case wire.OpSetData:
		e.MultiResult(op)
		e.Stat(result.Stat)
	default:
		e.MultiResult(op)
	}
}

// stamp begins a transaction. A failed write keeps its zxid: ZooKeeper logs the failure as a transaction of its own.
func (s *Server) stamp() store.Stamp {
	s.zxid++
	return store.Stamp{Zxid: s.zxid, Millis: nowMillis()}
}

// fireWatches fires the watches, on every server of the ensemble, in the order of the operations. The replies are not sent yet, so a
// client sees the event before it can read the change, as ZooKeeper promises.
func (s *Server) fireWatches(changes []store.Change) {
	s.scheduleReap()
	for _, c := range changes {
		for _, v := range s.views {
			v.see(c)
		}
	}
}

// caller is the connection as the store sees it.
func (c *conn) caller() store.Caller { return store.Caller{Session: c.session.id, Identities: c.ids} }
