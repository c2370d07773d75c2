package zktest

import "github.com/locktree/locktree/recipes/internal/jute"

// run executes one request that has arrived. The client may be gone by now; its
// write is executed all the same as long as the session lives, as on a server that
// has the request in its pipeline already.
func (c *conn) run(it *inbound) {
	s := c.s
	switch {
	case it.eof:
		c.gone()
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
		if it.req.op == opConnect { // a handshake's answer has no code; it can only say "expired"
			c.oldClient = it.req.connect.old
			c.reply(c.connectReply(nil))
			c.close()
			return
		}
		c.reply(replyFrame(it.req.xid, c.v.zxid(), it.fault.code).frame())
		return
	}
	frame, end := c.execute(&it.req)
	c.finish(it, frame, end)
}

// gone is called when the server learns that the client has ended the connection.
func (c *conn) gone() {
	if !c.closed {
		c.detach()
	}
	c.kill()
	delete(c.s.conns, c)
}

// execute executes a request. It returns the reply's frame, nil for none, and whether
// the connection ends with it.
func (c *conn) execute(r *request) (frame []byte, end bool) {
	s := c.s
	if r.op == opConnect {
		return s.handshake(c, &r.connect)
	}
	x := c.session
	over := x != nil && s.sessions[x.id] != x
	if x == nil || over && c.v.old == nil {
		return nil, true // nothing is answered outside a session
	}
	if r.op != jute.OpSASL && r.op != jute.OpAuth && c.unwelcome() {
		return replyFrame(r.xid, 0, jute.CodeSASLRequired).frame(), true
	}
	if r.op == jute.OpPing { // before it is asked where the session is: a follower answers pings by itself
		return replyFrame(jute.XidPing, c.v.zxid(), jute.CodeOK).frame(), false
	}
	if x.view != c.v && (isWrite(r.op) || r.op == jute.OpSync || r.op == jute.OpCloseSession) {
		return nil, true // SessionMoved: the server cuts the connection instead of answering
	}
	switch {
	case r.bad && (r.op == jute.OpSASL || r.op == jute.OpAuth):
		return nil, true
	case r.op == jute.OpSASL:
		return c.sasl(r)
	case r.op == jute.OpAuth:
		return c.auth(r)
	}
	if c.v.cutOff && (isWrite(r.op) || r.op == jute.OpCloseSession) {
		c.swallowed = true
		return nil, false
	}
	if over && (isWrite(r.op) || r.op == jute.OpCloseSession) {
		c.v.freshen() // the leader refuses it, and this server learns why before it answers
		return nil, true
	}
	if r.op == jute.OpCloseSession {
		c.ending = true // endSession must not cut before the reply is out
		s.endSession(x)
		c.v.freshen()
		return replyFrame(r.xid, c.v.zxid(), jute.CodeOK).frame(), true
	}
	if _, known := opNames[r.op]; !known {
		return replyFrame(r.xid, s.zxid, jute.CodeUnimplemented).frame(), true
	}
	if r.op == jute.OpCheck && s.opts.version.decodesFirst() {
		return replyFrame(r.xid, -1, jute.CodeUnimplemented).frame(), true
	}
	body := newEncoder()
	code := c.dispatch(r, body)
	if isWrite(r.op) || r.op == jute.OpSync {
		c.v.freshen() // a follower has applied what it answers
	}
	if r.op == jute.OpCheck && code == jute.CodeOK {
		return nil, false // outside a multi the server fails to build the reply and sends none
	}
	e := replyFrame(r.xid, c.v.zxid(), code)
	if code == jute.CodeOK || r.op == jute.OpMultiRead && !r.bad { // see multiRead
		e.B = append(e.B, body.B[4:]...) // without the room for its length
	}
	return e.frame(), false
}

// auth answers zxid 0, and a failure ends the connection. So does the name of another ensemble, without an answer.
func (c *conn) auth(r *request) ([]byte, bool) {
	if name := c.s.opts.ensembleName; r.scheme == "ensemble" && name != "" {
		if string(r.auth) != name {
			return nil, true
		}
		return replyFrame(r.xid, 0, jute.CodeOK).frame(), false
	}
	ids, ok := authenticate(c.s.opts, c.ids, c.ip, r.scheme, r.auth)
	if !ok {
		return replyFrame(r.xid, 0, jute.CodeAuthFailed).frame(), true
	}
	c.ids = ids
	return replyFrame(r.xid, 0, jute.CodeOK).frame(), false
}

// dispatch executes one operation and encodes its result. A read-only server
// refuses before it decodes (ReadOnlyRequestProcessor).
func (c *conn) dispatch(r *request, e *encoder) Code {
	s := c.s
	write := isWrite(r.op)
	switch {
	case (write || r.op == jute.OpSync) && s.readOnly:
		return jute.CodeNotReadOnly
	case r.bad:
		if write && r.op != jute.OpReconfig && (r.op == jute.OpMulti || !s.opts.version.decodesFirst()) {
			s.zxid++ // the failure is a transaction too
		}
		return jute.CodeMarshallingError
	case r.op == jute.OpMulti:
		return c.multi(r, e)
	case write:
		return c.write1(r, e)
	}
	return c.readOp(r, e)
}

func isWrite(op int32) bool {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpDeleteContainer, jute.OpSetData,
		jute.OpSetACL, jute.OpCheck, jute.OpMulti, jute.OpReconfig:
		return true
	}
	return false
}

// write1 executes a single write as a transaction. Like every failed write in
// ZooKeeper, one that is refused has taken a zxid.
func (c *conn) write1(r *request, e *encoder) Code {
	t := c.s.begin(c.session.id, c.ids)
	switch r.op {
	case jute.OpReconfig:
		return jute.CodeReconfigDisabled
	case jute.OpDeleteContainer:
		return jute.CodeBadArguments // the server's own; a client's never has the right form
	}
	path, stat, code := t.write(r)
	if code != jute.CodeOK {
		return code
	}
	t.commit()
	switch r.op {
	case jute.OpCreate:
		e.string(path)
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		e.string(path)
		e.stat(stat)
	case jute.OpSetData, jute.OpSetACL:
		e.stat(stat)
	}
	return jute.CodeOK
}

// multi is a transaction of several writes, all or none. The reply of a failed
// one lists OK for the operations before the culprit, its code, and
// RuntimeInconsistency for those after it.
func (c *conn) multi(r *request, e *encoder) Code {
	t := c.s.begin(c.session.id, c.ids)
	results := newEncoder()
	for i := range r.ops {
		op := &r.ops[i]
		code := c.s.multiType(op)
		var path string
		var stat Stat
		if code == jute.CodeOK {
			path, stat, code = t.write(op)
		}
		if code == jute.CodeMarshallingError { // the server fails on the whole request: there are no results
			t.rollback()
			return code
		}
		if code != jute.CodeOK {
			t.rollback()
			multiFailure(e, len(r.ops), i, code)
			return jute.CodeOK
		}
		encodeResult(results, op.op, path, stat)
	}
	t.commit()
	e.B = append(e.B, results.B[4:]...)
	e.multiHeader(-1, true, -1)
	return jute.CodeOK
}

// multiType settles what a create inside a multi makes. There the flags decide, and
// not the operation code as outside: before 3.9, a create2 is answered like a create.
func (s *Server) multiType(op *request) Code {
	switch op.op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		wasTTL := op.op == jute.OpCreateTTL
		mode, known := parseMode(op.flags)
		switch {
		case !known && s.opts.version.decodesFirst():
			return jute.CodeMarshallingError
		case mode.ttl && !wasTTL:
			return jute.CodeMarshallingError // the server fails on the missing ttl
		case mode.ttl:
			op.op = jute.OpCreateTTL
		case mode.container:
			op.op, op.ttl = jute.OpCreateContainer, -1
		case (op.op == jute.OpCreate2 || op.op == jute.OpCreateContainer) && s.opts.version.create2HasStat():
			op.op, op.ttl = jute.OpCreate2, -1
		default:
			op.op, op.ttl = jute.OpCreate, -1
		}
	case jute.OpGetData, jute.OpGetChildren:
		return jute.CodeMarshallingError
	}
	return jute.CodeOK
}

// encodeResult writes the result of one operation. The creation of a container or a
// TTL node has a create2's result (which go-zookeeper cannot read), see multiType.
func encodeResult(e *encoder, op int32, path string, stat Stat) {
	switch op {
	case jute.OpCreate:
		e.multiHeader(jute.OpCreate, false, 0)
		e.string(path)
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		e.multiHeader(jute.OpCreate2, false, 0)
		e.string(path)
		e.stat(stat)
	case jute.OpSetData:
		e.multiHeader(jute.OpSetData, false, 0)
		e.stat(stat)
	default:
		e.multiHeader(op, false, 0)
	}
}

// multiFailure is the reply of a transaction in which one operation failed. The
// code is in the header and again behind it (DataTree.processTxn).
func multiFailure(e *encoder, n, culprit int, code Code) {
	for i := range n {
		c := code
		switch {
		case i < culprit:
			c = jute.CodeOK
		case i > culprit:
			c = jute.CodeRuntimeInconsistency
		}
		e.multiHeader(jute.OpError, false, c)
		e.Int32(int32(c))
	}
	e.multiHeader(-1, true, -1)
}
