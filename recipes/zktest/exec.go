package zktest

import "github.com/locktree/locktree/recipes/zktest/internal/wire"

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
	if r.Op != wire.OpSASL && r.Op != wire.OpAuth && c.unwelcome() {
		return wire.ReplyFrame(r.Xid, 0, wire.CodeSASLRequired), true
	}
	if r.Op == wire.OpPing { // before it is asked where the session is: a follower answers pings by itself
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
		c.v.freshen() // the leader refuses it, and this server learns why before it answers
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
	if r.Op == wire.OpCheck && s.opts.version.decodesFirst() {
		return wire.ReplyFrame(r.Xid, -1, wire.CodeUnimplemented), true
	}
	body := wire.NewEncoder()
	code := c.dispatch(r, body)
	if wire.IsWrite(r.Op) || r.Op == wire.OpSync {
		c.v.freshen() // a follower has applied what it answers
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

// auth answers zxid 0, and a failure ends the connection. So does the name of another ensemble, without an answer.
func (c *conn) auth(r *wire.Request) ([]byte, bool) {
	if name := c.s.opts.ensembleName; r.Scheme == "ensemble" && name != "" {
		if string(r.Auth) != name {
			return nil, true
		}
		return wire.ReplyFrame(r.Xid, 0, wire.CodeOK), false
	}
	ids, ok := authenticate(c.s.opts, c.ids, c.ip, r.Scheme, r.Auth)
	if !ok {
		return wire.ReplyFrame(r.Xid, 0, wire.CodeAuthFailed), true
	}
	c.ids = ids
	return wire.ReplyFrame(r.Xid, 0, wire.CodeOK), false
}

// dispatch executes one operation and encodes its result. A read-only server
// refuses before it decodes (ReadOnlyRequestProcessor).
func (c *conn) dispatch(r *wire.Request, e *wire.Encoder) wire.Code {
	s := c.s
	write := wire.IsWrite(r.Op)
	switch {
	case (write || r.Op == wire.OpSync) && s.readOnly:
		return wire.CodeNotReadOnly
	case r.Bad:
		if write && r.Op != wire.OpReconfig && (r.Op == wire.OpMulti || !s.opts.version.decodesFirst()) {
			s.zxid++ // the failure is a transaction too
		}
		return wire.CodeMarshallingError
	case r.Op == wire.OpMulti:
		return c.multi(r, e)
	case write:
		return c.write1(r, e)
	}
	return c.readOp(r, e)
}

// write1 executes a single write as a transaction. Like every failed write in
// ZooKeeper, one that is refused has taken a zxid.
func (c *conn) write1(r *wire.Request, e *wire.Encoder) wire.Code {
	t := c.s.begin(c.session.id, c.ids)
	switch r.Op {
	case wire.OpReconfig:
		return wire.CodeReconfigDisabled
	case wire.OpDeleteContainer:
		return wire.CodeBadArguments // the server's own; a client's never has the right form
	}
	path, stat, code := t.write(r)
	if code != wire.CodeOK {
		return code
	}
	t.commit()
	switch r.Op {
	case wire.OpCreate:
		e.String(path)
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		e.String(path)
		e.Stat(stat)
	case wire.OpSetData, wire.OpSetACL:
		e.Stat(stat)
	}
	return wire.CodeOK
}

// multi is a transaction of several writes, all or none. The reply of a failed
// one lists OK for the operations before the culprit, its code, and
// RuntimeInconsistency for those after it.
func (c *conn) multi(r *wire.Request, e *wire.Encoder) wire.Code {
	t := c.s.begin(c.session.id, c.ids)
	results := wire.NewEncoder()
	for i := range r.Ops {
		op := &r.Ops[i]
		code := c.s.multiType(op)
		var path string
		var stat wire.Stat
		if code == wire.CodeOK {
			path, stat, code = t.write(op)
		}
		if code == wire.CodeMarshallingError { // the server fails on the whole request: there are no results
			t.rollback()
			return code
		}
		if code != wire.CodeOK {
			t.rollback()
			e.MultiFailure(len(r.Ops), i, code)
			return wire.CodeOK
		}
		encodeResult(results, op.Op, path, stat)
	}
	t.commit()
	e.Append(results)
	e.MultiEnd()
	return wire.CodeOK
}

// multiType settles what a create inside a multi makes. There the flags decide, and
// not the operation code as outside: before 3.9, a create2 is answered like a create.
func (s *Server) multiType(op *wire.Request) wire.Code {
	switch op.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		wasTTL := op.Op == wire.OpCreateTTL
		mode, known := parseMode(op.Flags)
		switch {
		case !known && s.opts.version.decodesFirst():
			return wire.CodeMarshallingError
		case mode.ttl && !wasTTL:
			return wire.CodeMarshallingError // the server fails on the missing ttl
		case mode.ttl:
			op.Op = wire.OpCreateTTL
		case mode.container:
			op.Op, op.TTL = wire.OpCreateContainer, 0
		case (op.Op == wire.OpCreate2 || op.Op == wire.OpCreateContainer) && s.opts.version.create2HasStat():
			op.Op, op.TTL = wire.OpCreate2, 0
		default:
			op.Op, op.TTL = wire.OpCreate, 0
		}
	case wire.OpGetData, wire.OpGetChildren:
		return wire.CodeMarshallingError
	}
	return wire.CodeOK
}

// encodeResult writes the result of one operation. The creation of a container or a
// TTL node has a create2's result (which go-zookeeper cannot read), see multiType.
func encodeResult(e *wire.Encoder, op int32, path string, stat wire.Stat) {
	switch op {
	case wire.OpCreate:
		e.MultiResult(wire.OpCreate)
		e.String(path)
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		e.MultiResult(wire.OpCreate2)
		e.String(path)
		e.Stat(stat)
	case wire.OpSetData:
		e.MultiResult(wire.OpSetData)
		e.Stat(stat)
	default:
		e.MultiResult(op)
	}
}
