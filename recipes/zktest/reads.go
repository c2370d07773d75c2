package zktest

import (
	"strings"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// readOp executes an operation that changes no data.
func (c *conn) readOp(r *request, e *encoder) Code {
	switch r.op {
	case jute.OpExists:
		return c.exists(r, e)
	case jute.OpGetData:
		return c.getData(r, e)
	case jute.OpGetChildren, jute.OpGetChildren2:
		return c.getChildren(r, e)
	case jute.OpGetACL:
		return c.getACL(r, e)
	case jute.OpSync: // of any path, existing or not; execute has caught up
		e.string(r.path)
		return jute.CodeOK
	case jute.OpSetWatches, jute.OpSetWatches2:
		c.v.watches.rearm(c.v.tree(), c, r)
		return jute.CodeOK
	case jute.OpMultiRead:
		return c.multiRead(r, e)
	case jute.OpGetAllChildrenNumber:
		return c.countBelow(r, e)
	case jute.OpGetEphemerals:
		return c.getEphemerals(r, e)
	case jute.OpAddWatch:
		return c.addWatch(r, e)
	case jute.OpCheckWatches, jute.OpRemoveWatches:
		return c.removeWatches(r)
	case jute.OpWhoAmI:
		c.whoAmI(e)
		return jute.CodeOK
	}
	return jute.CodeUnimplemented
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
	return n, jute.CodeOK
}

// exists needs no permission before 3.8.4 and 3.9.2, and is the only read that sets a watch on a missing node.
func (c *conn) exists(r *request, e *encoder) Code {
	if strings.IndexByte(r.path, 0) >= 0 {
		return jute.CodeBadArguments
	}
	n := c.v.tree().get(r.path)
	if n != nil && c.s.opts.version.existsNeedsRead() && !allowed(n.acl, permRead, c.ids) {
		return CodeNoAuth
	}
	if r.watch {
		c.v.watches.data.add(r.path, c, oneShot)
	}
	if n == nil {
		return CodeNoNode
	}
	e.stat(n.stat())
	return jute.CodeOK
}

// getData sets a watch only if it answers with data: not on a node that is missing
// or may not be read.
func (c *conn) getData(r *request, e *encoder) Code {
	n, code := c.readable(r.path, permRead)
	if code != jute.CodeOK {
		return code
	}
	if r.watch {
		c.v.watches.data.add(r.path, c, oneShot)
	}
	e.Buffer(n.data)
	e.stat(n.stat())
	return jute.CodeOK
}

func (c *conn) getChildren(r *request, e *encoder) Code {
	n, code := c.readable(r.path, permRead)
	if code != jute.CodeOK {
		return code
	}
	if r.watch {
		c.v.watches.child.add(r.path, c, oneShot)
	}
	e.strings(n.names())
	if r.op == jute.OpGetChildren2 {
		e.stat(n.stat())
	}
	return jute.CodeOK
}

// getACL shows digests only to those who may change the list. It needs READ or ADMIN,
// as in 3.8.0.
func (c *conn) getACL(r *request, e *encoder) Code {
	n, code := c.readable(r.path, permRead|permAdmin)
	if code != jute.CodeOK {
		return code
	}
	acl := n.acl
	if !allowed(n.acl, permAdmin, c.ids) {
		acl = maskDigests(acl)
	}
	e.acls(acl)
	e.stat(n.stat())
	return jute.CodeOK
}

// multiRead answers each read separately: one that fails does not fail the others.
// A write among them fails the whole, but the answers before it are sent.
func (c *conn) multiRead(r *request, e *encoder) Code {
	defer e.multiHeader(-1, true, -1)
	for i := range r.ops {
		op, body := &r.ops[i], newEncoder()
		if op.op != jute.OpGetData && op.op != jute.OpGetChildren {
			return jute.CodeMarshallingError
		}
		if code := c.readOp(op, body); code != jute.CodeOK {
			e.multiHeader(jute.OpError, false, code)
			e.Int32(int32(code))
			continue
		}
		e.multiHeader(op.op, false, jute.CodeOK)
		e.B = append(e.B, body.B[4:]...)
	}
	return jute.CodeOK
}

// countBelow counts all descendants. For the root ZooKeeper gets the same number: it
// leaves out the root and the second name under which it stores it.
func (c *conn) countBelow(r *request, e *encoder) Code {
	if _, code := c.readable(r.path, permRead); code != jute.CodeOK {
		return code
	}
	n := 0
	prefix := strings.TrimSuffix(r.path, "/") + "/"
	for path := range c.v.tree().nodes {
		if path != "/" && strings.HasPrefix(path, prefix) {
			n++
		}
	}
	e.Int32(int32(n))
	return jute.CodeOK
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
	return jute.CodeOK
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
		return jute.CodeMarshallingError
	}
	c.v.watches.data.add(r.path, c, mode)
	c.v.watches.child.add(r.path, c, mode)
	e.Int32(0)
	return jute.CodeOK
}

// removeWatches removes a watch, or only looks for it (checkWatches), by kind:
// 1 children, 2 data, 3 any.
func (c *conn) removeWatches(r *request) Code {
	if r.mode < 1 || r.mode > 3 {
		return jute.CodeMarshallingError
	}
	found := false
	for kind, table := range map[int32]*watchTable{1: c.v.watches.child, 2: c.v.watches.data} {
		if r.mode != kind && r.mode != 3 {
			continue
		}
		if r.op == jute.OpCheckWatches {
			found = found || table.has(r.path)
		} else if table.remove(r.path, c) {
			found = true
		}
	}
	if !found {
		return jute.CodeNoWatcher
	}
	return jute.CodeOK
}

// whoAmI lists the connection's identities, without secrets.
func (c *conn) whoAmI(e *encoder) {
	e.Int32(int32(len(c.ids)))
	for _, i := range c.ids {
		user, _, _ := strings.Cut(i.id, ":")
		e.string(i.scheme)
		e.string(user)
	}
}
