package zktest

import (
	"strings"

	"github.com/locktree/locktree/recipes/zktest/internal/watch"
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
		acl, stat, code := c.v.tree().GetACL(c.caller(), r.Path)
		if code == wire.CodeOK {
			e.ACLs(acl)
			e.Stat(stat)
		}
		return code
	case wire.OpSync: // the path need not exist; execute brings the view up to date before the reply
		e.String(r.Path)
		return wire.CodeOK
	case wire.OpSetWatches, wire.OpSetWatches2:
		c.rearm(r)
		return wire.CodeOK
	case wire.OpMultiRead:
		return c.multiRead(r, e)
	case wire.OpGetAllChildrenNumber:
		n, code := c.v.tree().CountBelow(c.caller(), r.Path)
		if code == wire.CodeOK {
			e.Int32(int32(n))
		}
		return code
	case wire.OpGetEphemerals:
		e.Strings(c.v.tree().GetEphemerals(c.caller(), r.Path))
		return wire.CodeOK
	case wire.OpAddWatch:
		return c.addWatch(r, e)
	case wire.OpCheckWatches, wire.OpRemoveWatches:
		return c.removeWatches(r)
	case wire.OpWhoAmI:
		e.Int32(int32(len(c.ids)))
		for _, i := range c.ids { // without secrets
			user, _, _ := strings.Cut(i.ID, ":")
			e.String(i.Scheme)
			e.String(user)
		}
		return wire.CodeOK
	}
	return wire.CodeUnimplemented
}

// exists is the only read that sets a watch on a missing node.
func (c *conn) exists(r *wire.Request, e *wire.Encoder) wire.Code {
	stat, code := c.v.tree().Exists(c.caller(), r.Path)
	if r.Watch && (code == wire.CodeOK || code == wire.CodeNoNode) {
		c.watch(c.v.watches.Data, r.Path, watch.OneShot)
	}
	if code == wire.CodeOK {
		e.Stat(stat)
	}
	return code
}

// getData sets a watch only if it answers with data: not on a node that is missing or may not be read.
func (c *conn) getData(r *wire.Request, e *wire.Encoder) wire.Code {
	data, stat, code := c.v.tree().GetData(c.caller(), r.Path)
	if code != wire.CodeOK {
		return code
	}
	if r.Watch {
		c.watch(c.v.watches.Data, r.Path, watch.OneShot)
	}
	e.Buffer(data)
	e.Stat(stat)
	return wire.CodeOK
}

func (c *conn) getChildren(r *wire.Request, e *wire.Encoder) wire.Code {
	names, stat, code := c.v.tree().GetChildren(c.caller(), r.Path)
	if code != wire.CodeOK {
		return code
	}
	if r.Watch {
		c.watch(c.v.watches.Child, r.Path, watch.OneShot)
	}
	e.Strings(names)
	if r.Op == wire.OpGetChildren2 {
		e.Stat(stat)
	}
	return wire.CodeOK
}

// multiRead answers each read separately: one that fails does not fail the others. A write among them fails the whole request, but the
// answers before the write are sent.
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

// addWatch watches a path until the watch is removed: mode 0 the node and its children, mode 1 the whole subtree. The node need not exist.
func (c *conn) addWatch(r *wire.Request, e *wire.Encoder) wire.Code {
	mode := watch.Persistent
	switch r.Mode {
	case 0:
	case 1:
		mode = watch.Recursive
	default:
		return wire.CodeMarshallingError
	}
	c.watch(c.v.watches.Data, r.Path, mode)
	c.watch(c.v.watches.Child, r.Path, mode)
	e.Int32(0)
	return wire.CodeOK
}

// removeWatches removes a watch, or only looks for it (checkWatches), by kind: 1 children, 2 data, 3 any.
func (c *conn) removeWatches(r *wire.Request) wire.Code {
	if r.Mode < 1 || r.Mode > 3 {
		return wire.CodeMarshallingError
	}
	found := false
	for kind, table := range map[int32]*watch.Table[*conn]{1: c.v.watches.Child, 2: c.v.watches.Data} {
		if r.Mode != kind && r.Mode != 3 {
			continue
		}
		if r.Op == wire.OpCheckWatches {
			found = found || table.Watched(r.Path)
		} else if table.Remove(r.Path, c) {
			found = true
		}
	}
	if !found {
		return wire.CodeNoWatcher
	}
	return wire.CodeOK
}

// watch sets a watch. A connection that the server has ended gets no watch: its watches were already forgotten, and nothing would forget
// the new one.
func (c *conn) watch(t *watch.Table[*conn], path string, mode watch.Mode) {
	if !c.closed {
		t.Add(path, c, mode)
	}
}

// rearm restores a reconnected client's watches (setWatches). It sends at once the events since the zxid that the client saw last, and
// watches the other paths again. Deletions and creations follow from whether the node exists. A change of data or children is missed if
// the client has meanwhile seen a newer zxid.
func (c *conn) rearm(r *wire.Request) {
	t, w := c.v.tree(), c.v.watches
	for _, p := range r.Watches[0] {
		c.rearmOne(w.Data, p, r.Zxid, wire.EventDataChanged)
	}
	for _, p := range r.Watches[1] {
		if _, there := t.Stat(p); there {
			c.sendEvent(wire.EventCreated, p, noZxid)
		} else {
			c.watch(w.Data, p, watch.OneShot)
		}
	}
	for _, p := range r.Watches[2] {
		c.rearmOne(w.Child, p, r.Zxid, wire.EventChildrenChanged)
	}
	for i, mode := range []watch.Mode{watch.Persistent, watch.Recursive} {
		for _, p := range r.Watches[3+i] {
			c.watch(w.Child, p, mode)
			c.watch(w.Data, p, mode)
		}
	}
}

// rearmOne handles one path of setWatches (DataTree.setWatches). It sends an event or sets a watch, never both, so nothing is reported
// twice. A change that is no newer than the zxid in seen is missed: see rearm.
func (c *conn) rearmOne(table *watch.Table[*conn], path string, seen int64, typ wire.EventType) {
	n, there := c.v.tree().Stat(path)
	switch {
	case !there:
		c.sendEvent(wire.EventDeleted, path, noZxid)
	case typ == wire.EventDataChanged && n.Mzxid > seen, typ == wire.EventChildrenChanged && n.Pzxid > seen:
		c.sendEvent(typ, path, noZxid)
	default:
		c.watch(table, path, watch.OneShot)
	}
}
