package zktest

import (
	"maps"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/zktest/internal/store"
	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// watchMode is how long a watch stays and how far it reaches.
type watchMode int

const (
	oneShot watchMode = iota
	persistentWatch
	recursiveWatch
)

// watchTable is one of the server's two watch managers: data watches (data,
// existence) or child watches. A connection has at most one watch per path in
// each, and a later one replaces the mode of an earlier one, as in 3.8.0.
type watchTable struct {
	byPath    map[string]map[*conn]watchMode
	byConn    map[*conn]map[string]struct{}
	recursive int
}

func newWatchTable() *watchTable {
	return &watchTable{byPath: map[string]map[*conn]watchMode{}, byConn: map[*conn]map[string]struct{}{}}
}

// add sets a watch, replacing an earlier one. A connection that the server has ended
// gets none: forget has run for it and will not run again.
func (t *watchTable) add(path string, c *conn, mode watchMode) {
	if c.closed {
		return
	}
	t.remove(path, c)
	if t.byPath[path] == nil {
		t.byPath[path] = map[*conn]watchMode{}
	}
	if t.byConn[c] == nil {
		t.byConn[c] = map[string]struct{}{}
	}
	t.byPath[path][c] = mode
	t.byConn[c][path] = struct{}{}
	if mode == recursiveWatch {
		t.recursive++
	}
}

// has is the server's answer to checkWatches, which in 3.8.0 is true when any
// connection watches the path.
func (t *watchTable) has(path string) bool { return len(t.byPath[path]) > 0 }

func (t *watchTable) remove(path string, c *conn) bool {
	mode, ok := t.byPath[path][c]
	if !ok {
		return false
	}
	if mode == recursiveWatch {
		t.recursive--
	}
	if delete(t.byPath[path], c); len(t.byPath[path]) == 0 {
		delete(t.byPath, path)
	}
	if delete(t.byConn[c], path); len(t.byConn[c]) == 0 {
		delete(t.byConn, c)
	}
	return true
}

// forget drops a connection's watches: they do not outlive it, and a client sets them
// again on the next one (setWatches).
func (t *watchTable) forget(c *conn) {
	for path := range maps.Clone(t.byConn[c]) {
		t.remove(path, c)
	}
}

// take returns the connections whose watches a change at path triggers and
// removes those that trigger once. Recursive watches see their whole subtree,
// but never a ChildrenChanged: they get the child's own event.
func (t *watchTable) take(path string, typ wire.EventType) []*conn {
	hit := map[*conn]struct{}{}
	// Above the path only recursive watches count, so without any the walk is one step.
	for at := path; ; at, _ = store.SplitPath(at) {
		for c, mode := range maps.Clone(t.byPath[at]) {
			switch {
			case mode == recursiveWatch && typ != wire.EventChildrenChanged:
				hit[c] = struct{}{}
			case mode == recursiveWatch || at != path:
			default:
				hit[c] = struct{}{}
				if mode == oneShot {
					t.remove(at, c)
				}
			}
		}
		if t.recursive == 0 || at == "/" || !strings.HasPrefix(at, "/") {
			break
		}
	}
	return slices.SortedFunc(maps.Keys(hit), func(a, b *conn) int { return int(a.id - b.id) })
}

func (t *watchTable) count() int {
	n := 0
	for _, paths := range t.byConn {
		n += len(paths)
	}
	return n
}

// watchSet is both tables together.
type watchSet struct{ data, child *watchTable }

func newWatchSet() *watchSet { return &watchSet{data: newWatchTable(), child: newWatchTable()} }

func (w *watchSet) forget(c *conn) {
	w.data.forget(c)
	w.child.forget(c)
}

// fire sends the events that one change triggers. A connection that watches both the
// data and the children of a node gets one event for its deletion.
func (w *watchSet) fire(c store.Change) {
	switch c.Type {
	case wire.EventChildrenChanged:
		w.send(w.child.take(c.Path, c.Type), c)
	case wire.EventDeleted:
		data := w.data.take(c.Path, c.Type)
		w.send(data, c)
		w.send(slices.DeleteFunc(w.child.take(c.Path, c.Type), func(x *conn) bool { return slices.Contains(data, x) }), c)
	default:
		w.send(w.data.take(c.Path, c.Type), c)
	}
}

// send sends the event to those who may read the node. The others get none, but their
// watch is used up.
func (w *watchSet) send(conns []*conn, c store.Change) {
	for _, x := range conns {
		if c.VisibleTo(x.caller()) {
			x.sendEvent(c.Type, c.Path, c.Zxid)
		}
	}
}

// rearm restores a reconnected client's watches (setWatches): what has happened since
// the zxid it saw last is sent at once, everything else is watched again. Deletions
// and creations follow from whether the node exists; a change of data or children is
// missed if the client has meanwhile seen a newer zxid.
func (w *watchSet) rearm(t *store.Tree, c *conn, r *wire.Request) {
	for _, p := range r.Watches[0] {
		w.rearmOne(w.data, t, c, p, r.Zxid, wire.EventDataChanged)
	}
	for _, p := range r.Watches[1] {
		if _, there := t.Stat(p); there {
			c.sendEvent(wire.EventCreated, p, noZxid)
		} else {
			w.data.add(p, c, oneShot)
		}
	}
	for _, p := range r.Watches[2] {
		w.rearmOne(w.child, t, c, p, r.Zxid, wire.EventChildrenChanged)
	}
	for i, mode := range []watchMode{persistentWatch, recursiveWatch} {
		for _, p := range r.Watches[3+i] {
			w.child.add(p, c, mode)
			w.data.add(p, c, mode)
		}
	}
}

// rearmOne handles one path of setWatches (DataTree.setWatches): it sends an event or
// sets a watch, never both, so nothing is reported twice and nothing is missed.
func (w *watchSet) rearmOne(table *watchTable, t *store.Tree, c *conn, path string, seen int64, typ wire.EventType) {
	n, there := t.Stat(path)
	switch {
	case !there:
		c.sendEvent(wire.EventDeleted, path, noZxid)
	case typ == wire.EventDataChanged && n.Mzxid > seen, typ == wire.EventChildrenChanged && n.Pzxid > seen:
		c.sendEvent(typ, path, noZxid)
	default:
		table.add(path, c, oneShot)
	}
}
