package zktest

import "strings"

// readOp executes an operation that changes no data.
func (c *conn) readOp(r *request, e *encoder) Code {
	switch r.op {
	case opExists:
		return c.exists(r, e)
	case opGetData:
		return c.getData(r, e)
	case opGetChildren, opGetChildren2:
		return c.getChildren(r, e)
	case opGetACL:
		return c.getACL(r, e)
	case opSync: // of any path, existing or not; execute has caught up
		e.string(r.path)
		return codeOK
	case opSetWatches, opSetWatches2:
		c.v.watches.rearm(c.v.tree(), c, r)
		return codeOK
	case opMultiRead:
		return c.multiRead(r, e)
	case opGetAllChildrenNumber:
		return c.countBelow(r, e)
	case opGetEphemerals:
		return c.getEphemerals(r, e)
	case opAddWatch:
		return c.addWatch(r, e)
	case opCheckWatches, opRemoveWatches:
		return c.removeWatches(r)
	case opWhoAmI:
		c.whoAmI(e)
		return codeOK
	}
	return codeUnimplemented
}

// readable finds a node and checks its ACL.
func (c *conn) readable(path string, perms int32) (*node, Code) {
	n := c.v.tree().get(path)
	if n == nil {
		return nil, CodeNoNode
	}
	if !allowed(n.acl, perms, c.ids) {
		return nil, CodeNoAuth
	}
	return n, codeOK
}

// exists needs no permission, as in every server before 3.8.4 and 3.9.2
// (ZOOKEEPER-2590), and is the only read that sets a watch on a missing node.
func (c *conn) exists(r *request, e *encoder) Code {
	if strings.IndexByte(r.path, 0) >= 0 {
		return codeBadArguments
	}
	if r.watch {
		c.v.watches.data.add(r.path, c, oneShot)
	}
	n := c.v.tree().get(r.path)
	if n == nil {
		return CodeNoNode
	}
	e.stat(n.stat())
	return codeOK
}

// getData sets a watch only if it answers with data: not on a node that is missing
// or may not be read.
func (c *conn) getData(r *request, e *encoder) Code {
	n, code := c.readable(r.path, permRead)
	if code != codeOK {
		return code
	}
	if r.watch {
		c.v.watches.data.add(r.path, c, oneShot)
	}
	e.buffer(n.data)
	e.stat(n.stat())
	return codeOK
}

func (c *conn) getChildren(r *request, e *encoder) Code {
	n, code := c.readable(r.path, permRead)
	if code != codeOK {
		return code
	}
	if r.watch {
		c.v.watches.child.add(r.path, c, oneShot)
	}
	e.strings(n.names())
	if r.op == opGetChildren2 {
		e.stat(n.stat())
	}
	return codeOK
}

// getACL shows digests only to those who may change the list. It needs READ or ADMIN,
// as in 3.8.0.
func (c *conn) getACL(r *request, e *encoder) Code {
	n, code := c.readable(r.path, permRead|permAdmin)
	if code != codeOK {
		return code
	}
	acl := n.acl
	if !allowed(n.acl, permAdmin, c.ids) {
		acl = maskDigests(acl)
	}
	e.acls(acl)
	e.stat(n.stat())
	return codeOK
}

// multiRead answers each read separately: one that fails does not fail the others.
// A write among them fails the whole, but the answers before it are sent.
func (c *conn) multiRead(r *request, e *encoder) Code {
	defer e.multiHeader(-1, true, -1)
	for i := range r.ops {
		op, body := &r.ops[i], newEncoder()
		if op.op != opGetData && op.op != opGetChildren {
			return codeMarshallingError
		}
		if code := c.readOp(op, body); code != codeOK {
			e.multiHeader(opError, false, code)
			e.int32(int32(code))
			continue
		}
		e.multiHeader(op.op, false, codeOK)
		e.b = append(e.b, body.b[4:]...)
	}
	return codeOK
}

// countBelow counts all descendants. For the root ZooKeeper gets the same number: it
// leaves out the root and the second name under which it stores it.
func (c *conn) countBelow(r *request, e *encoder) Code {
	if _, code := c.readable(r.path, permRead); code != codeOK {
		return code
	}
	n := 0
	prefix := strings.TrimSuffix(r.path, "/") + "/"
	for path := range c.v.tree().nodes {
		if path != "/" && strings.HasPrefix(path, prefix) {
			n++
		}
	}
	e.int32(int32(n))
	return codeOK
}

// getEphemerals lists the session's own ephemerals whose path begins with r.path: a
// prefix of the string, not of whole names.
func (c *conn) getEphemerals(r *request, e *encoder) Code {
	var out []string
	all := strings.TrimSpace(r.path) == "" || strings.TrimSpace(r.path) == "/"
	for _, path := range c.v.tree().owned(c.session.id) {
		if all || strings.HasPrefix(path, r.path) {
			out = append(out, path)
		}
	}
	e.strings(out)
	return codeOK
}

// addWatch watches a path until the watch is removed: mode 0 the node and its
// children, mode 1 the whole subtree. The node need not exist.
func (c *conn) addWatch(r *request, e *encoder) Code {
	mode := persistentWatch
	switch r.mode {
	case 0:
	case 1:
		mode = recursiveWatch
	default:
		return codeMarshallingError
	}
	c.v.watches.data.add(r.path, c, mode)
	c.v.watches.child.add(r.path, c, mode)
	e.int32(0)
	return codeOK
}

// removeWatches removes a watch, or only looks for it (checkWatches), by kind:
// 1 children, 2 data, 3 any.
func (c *conn) removeWatches(r *request) Code {
	if r.mode < 1 || r.mode > 3 {
		return codeMarshallingError
	}
	found := false
	for kind, table := range map[int32]*watchTable{1: c.v.watches.child, 2: c.v.watches.data} {
		if r.mode != kind && r.mode != 3 {
			continue
		}
		if r.op == opCheckWatches {
			found = found || table.has(r.path)
		} else if table.remove(r.path, c) {
			found = true
		}
	}
	if !found {
		return codeNoWatcher
	}
	return codeOK
}

// whoAmI lists the connection's identities, without secrets.
func (c *conn) whoAmI(e *encoder) {
	e.int32(int32(len(c.ids)))
	for _, i := range c.ids {
		user, _, _ := strings.Cut(i.id, ":")
		e.string(i.scheme)
		e.string(user)
	}
}
