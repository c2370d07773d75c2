package zktest

import (
	"strings"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// readOp executes an operation that changes no data.
func (c *conn) readOp(r *wire.Request, e *wire.Encoder) wire.Code {
	switch r.Op {
	case wire.OpExists:
		return c.exists(r, e)
	case wire.OpGetData:
		return c.getData(r, e)
	case wire.OpGetChildren, wire.OpGetChildren2:
		return c.getChildren(r, e)
	case wire.OpGetACL:
		return c.getACL(r, e)
	case wire.OpSync: // of any path, existing or not; execute has caught up
		e.String(r.Path)
		return wire.CodeOK
	case wire.OpSetWatches, wire.OpSetWatches2:
		c.v.watches.rearm(c.v.tree(), c, r)
		return wire.CodeOK
	case wire.OpMultiRead:
		return c.multiRead(r, e)
	case wire.OpGetAllChildrenNumber:
		return c.countBelow(r, e)
	case wire.OpGetEphemerals:
		return c.getEphemerals(r, e)
	case wire.OpAddWatch:
		return c.addWatch(r, e)
	case wire.OpCheckWatches, wire.OpRemoveWatches:
		return c.removeWatches(r)
	case wire.OpWhoAmI:
		c.whoAmI(e)
		return wire.CodeOK
	}
	return wire.CodeUnimplemented
}

// readable finds a node and checks its ACL.
func (c *conn) readable(path string, perms int32) (*node, wire.Code) {
	n := c.v.tree().get(path)
	if n == nil {
		return nil, wire.CodeNoNode
	}
	if !allowed(n.acl, perms, c.ids) {
		return nil, wire.CodeNoAuth
	}
	return n, wire.CodeOK
}

// exists needs no permission before 3.8.4 and 3.9.2, and is the only read that sets a watch on a missing node.
func (c *conn) exists(r *wire.Request, e *wire.Encoder) wire.Code {
	if strings.IndexByte(r.Path, 0) >= 0 {
		return wire.CodeBadArguments
	}
	n := c.v.tree().get(r.Path)
	if n != nil && c.s.opts.version.existsNeedsRead() && !allowed(n.acl, permRead, c.ids) {
		return wire.CodeNoAuth
	}
	if r.Watch {
		c.v.watches.data.add(r.Path, c, oneShot)
	}
	if n == nil {
		return wire.CodeNoNode
	}
	e.Stat(n.stat())
	return wire.CodeOK
}

// getData sets a watch only if it answers with data: not on a node that is missing
// or may not be read.
func (c *conn) getData(r *wire.Request, e *wire.Encoder) wire.Code {
	n, code := c.readable(r.Path, permRead)
	if code != wire.CodeOK {
		return code
	}
	if r.Watch {
		c.v.watches.data.add(r.Path, c, oneShot)
	}
	e.Buffer(n.data)
	e.Stat(n.stat())
	return wire.CodeOK
}

func (c *conn) getChildren(r *wire.Request, e *wire.Encoder) wire.Code {
	n, code := c.readable(r.Path, permRead)
	if code != wire.CodeOK {
		return code
	}
	if r.Watch {
		c.v.watches.child.add(r.Path, c, oneShot)
	}
	e.Strings(n.names())
	if r.Op == wire.OpGetChildren2 {
		e.Stat(n.stat())
	}
	return wire.CodeOK
}

// getACL shows digests only to those who may change the list. It needs READ or ADMIN,
// as in 3.8.0.
func (c *conn) getACL(r *wire.Request, e *wire.Encoder) wire.Code {
	n, code := c.readable(r.Path, permRead|permAdmin)
	if code != wire.CodeOK {
		return code
	}
	acl := n.acl
	if !allowed(n.acl, permAdmin, c.ids) {
		acl = maskDigests(acl)
	}
	e.ACLs(acl)
	e.Stat(n.stat())
	return wire.CodeOK
}

// multiRead answers each read separately: one that fails does not fail the others.
// A write among them fails the whole, but the answers before it are sent.
func (c *conn) multiRead(r *wire.Request, e *wire.Encoder) wire.Code {
	defer e.MultiEnd()
	for i := range r.Ops {
		op, body := &r.Ops[i], wire.NewEncoder()
		if op.Op != wire.OpGetData && op.Op != wire.OpGetChildren {
			return wire.CodeMarshallingError
		}
		if code := c.readOp(op, body); code != wire.CodeOK {
			e.MultiError(code)
			continue
		}
		e.MultiResult(op.Op)
		e.Append(body)
	}
	return wire.CodeOK
}

// countBelow counts all descendants. For the root ZooKeeper gets the same number: it
// leaves out the root and the second name under which it stores it.
func (c *conn) countBelow(r *wire.Request, e *wire.Encoder) wire.Code {
	if _, code := c.readable(r.Path, permRead); code != wire.CodeOK {
		return code
	}
	n := 0
	prefix := strings.TrimSuffix(r.Path, "/") + "/"
	for path := range c.v.tree().nodes {
		if path != "/" && strings.HasPrefix(path, prefix) {
			n++
		}
	}
	e.Int32(int32(n))
	return wire.CodeOK
}

// getEphemerals lists the session's own ephemerals whose path begins with r.Path: a
// prefix of the string, not of whole names.
func (c *conn) getEphemerals(r *wire.Request, e *wire.Encoder) wire.Code {
	var out []string
	all := strings.TrimSpace(r.Path) == "" || strings.TrimSpace(r.Path) == "/"
	for _, path := range c.v.tree().owned(c.session.id) {
		if all || strings.HasPrefix(path, r.Path) {
			out = append(out, path)
		}
	}
	e.Strings(out)
	return wire.CodeOK
}

// addWatch watches a path until the watch is removed: mode 0 the node and its
// children, mode 1 the whole subtree. The node need not exist.
func (c *conn) addWatch(r *wire.Request, e *wire.Encoder) wire.Code {
	mode := persistentWatch
	switch r.Mode {
	case 0:
	case 1:
		mode = recursiveWatch
	default:
		return wire.CodeMarshallingError
	}
	c.v.watches.data.add(r.Path, c, mode)
	c.v.watches.child.add(r.Path, c, mode)
	e.Int32(0)
	return wire.CodeOK
}

// removeWatches removes a watch, or only looks for it (checkWatches), by kind:
// 1 children, 2 data, 3 any.
func (c *conn) removeWatches(r *wire.Request) wire.Code {
	if r.Mode < 1 || r.Mode > 3 {
		return wire.CodeMarshallingError
	}
	found := false
	for kind, table := range map[int32]*watchTable{1: c.v.watches.child, 2: c.v.watches.data} {
		if r.Mode != kind && r.Mode != 3 {
			continue
		}
		if r.Op == wire.OpCheckWatches {
			found = found || table.has(r.Path)
		} else if table.remove(r.Path, c) {
			found = true
		}
	}
	if !found {
		return wire.CodeNoWatcher
	}
	return wire.CodeOK
}

// whoAmI lists the connection's identities, without secrets.
func (c *conn) whoAmI(e *wire.Encoder) {
	e.Int32(int32(len(c.ids)))
	for _, i := range c.ids {
		user, _, _ := strings.Cut(i.id, ":")
		e.String(i.scheme)
		e.String(user)
	}
}
