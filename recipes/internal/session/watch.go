package session

import (
	"context"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// watchKey is one watch on a server.
type watchKey struct {
	path  string
	child bool // on the list of children; otherwise on the data
}

// Watch tells one caller when to read one node again; see Session.GetCalled.
type Watch struct {
	s    *Session
	key  watchKey
	c    chan struct{}
	call func() // if not nil, it is called instead of closing c
	// A zk.EventType once the watch has fired: set before c is closed, or before call is called.
	kind atomic.Int32

	// The neighbours in the list of watches on the same node, while listed. Session.mu guards them.
	prev, next *Watch
	listed     bool
}

// C returns a channel that is closed once, when the caller should read the node again: it changed, it was deleted, the connection
// was re-established (events may have been missed), or the session was lost. A closed C does not prove a change: read the node
// again. A waiter needs only C and its own ctx.
func (w *Watch) C() <-chan struct{} { return w.c }

// Event returns why C was closed, or call called: zk.EventNodeDataChanged, EventNodeDeleted, EventNodeChildrenChanged;
// zk.EventSession for a re-established connection; zk.EventNotWatching for a lost session. Before that it returns 0.
func (w *Watch) Event() zk.EventType { return zk.EventType(w.kind.Load()) }

// Path returns the path of the watched node.
func (w *Watch) Path() string { return w.key.path }

// OfChildren reports whether the watch is on the list of the node's children rather than on its data.
func (w *Watch) OfChildren() bool { return w.key.child }

// Stop ends the watch without closing C. The caller must stop each watch, whether it has fired or not; stopping it again does nothing. The
// watch on the server stays, and the next Watch of that node shares it.
func (w *Watch) Stop() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.stop()
}

// Remove is Stop for a node that this session will not watch again soon. It also takes the watch off the server, unless another
// Watch of this session is on that node. It waits for nothing. No other Watch loses the server's watch that it shares:
//
//  1. Remove submits its request while it holds the mutex under which it took out the last Watch. So a read that sets a watch has either
//     attached its Watch earlier, and Remove sends nothing; or the read is sent after the removal.
//  2. Servers execute the requests of a connection in order.
//  3. A new connection has no watches to remove.
//
// An event that the server sent before the removal may make a later Watch fire without a change.
func (w *Watch) Remove() {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.stop() || s.link == nil || s.keepsWatches.Load() {
		return
	}
	o := &op{name: "removeWatches", code: wire.OpRemoveWatches, path: w.key.path, request: &w.key, pure: true, prompt: true}
	if frame, err := s.encode(nil, o); err == nil {
		// A removal needs no slot: each follows an answered read, which bounds their number.
		s.link.submit(frame, []*call{o.ask(new(call))})
	}
}

// stop takes w out of the list of the watches on its node, and reports whether w was the last there. mu is held.
func (w *Watch) stop() (last bool) {
	if !w.listed {
		return false
	}
	w.listed = false
	if w.next != nil {
		w.next.prev = w.prev
	}
	switch {
	case w.prev != nil:
		w.prev.next = w.next
	case w.next != nil:
		w.s.watches[w.key] = w.next
	default:
		delete(w.s.watches, w.key)
		last = true
	}
	w.prev, w.next = nil, nil // a caller that keeps w does not keep later watches in memory
	return last
}

// unlist prepares a list of watches for fire; mu is held.
func unlist(first *Watch) *Watch {
	for w := first; w != nil; w = w.next {
		w.listed = false
	}
	return first
}

// fire closes C of the watches, or calls their function. The caller has taken them out of Session.watches, so each fires once.
func (s *Session) fire(watches *Watch, t zk.EventType) {
	for w := watches; w != nil; w = w.next {
		if w.kind.Store(int32(t)); w.call != nil {
			w.call()
		} else {
			close(w.c)
		}
	}
}

// GetCalled is Get plus a watch on the node's data and its deletion. No change after the read is missed, unless the server forgets the
// watch or an access list hides the node. On any error, including zk.ErrNoNode, the watch is nil and nothing is left behind. All callers
// share one server-side watch per path.
//
// If the function call is not nil, it is called once instead of closing C. The reading goroutine may call it, also before GetCalled
// returns, so call must return at once. After Stop it may still be called once.
func (s *Session) GetCalled(ctx context.Context, path string, call func()) ([]byte, *zk.Stat, *Watch, error) {
	r, w, err := s.readWatched(ctx, read(wire.OpGetData, path), call)
	return r.Data, r.Stat, w, err
}

// ChildrenCalled is Children plus a watch on the list of children and the node's deletion, as with GetCalled.
func (s *Session) ChildrenCalled(ctx context.Context, path string, call func()) ([]string, *zk.Stat, *Watch, error) {
	r, w, err := s.readWatched(ctx, read(wire.OpGetChildren2, path), call)
	return r.Names, r.Stat, w, err
}

// readWatched makes a read that sets a watch.
func (s *Session) readWatched(ctx context.Context, o *op, call func()) (*wire.Reply, *Watch, error) {
	o.watch = true
	w := s.attach(watchKey{path: o.path, child: o.code == wire.OpGetChildren2}, call)
	r, err := s.run(ctx, o)
	if err != nil {
		w.Stop()
		w = nil
	}
	return r, w, err
}

// SetWatches watches the data of some nodes as GetCalled does, and the lists of children of others as ChildrenCalled does. It sends one
// request, which reads nothing. It returns the watches on data, and then those on children. Each calls the function call, as with
// GetCalled. A watch fires at once if its node is missing, or was changed after zxid. ZooKeeper's own clients restore their watches in
// this way after a reconnect (DataTree.setWatches).
//
// Not guaranteed: an event from a node that is hidden from the session. Servers set that watch without an error, and send nothing
// (CVE-2024-23944).
func (s *Session) SetWatches(ctx context.Context, zxid int64, data, children []string, call func()) ([]*Watch, error) {
	r := &setWatches{since: zxid, keys: make([]watchKey, 0, len(data)+len(children)), data: len(data)}
	for _, path := range data {
		r.keys = append(r.keys, watchKey{path: path})
	}
	for _, path := range children {
		r.keys = append(r.keys, watchKey{path: path, child: true})
	}
	if len(r.keys) == 0 {
		return nil, nil
	}
	o := &op{name: "setWatches", code: wire.OpSetWatches, path: r.keys[0].path, request: r, pure: true}
	all := make([]*Watch, len(r.keys))
	for i, k := range r.keys {
		all[i] = s.attach(k, call)
	}
	if _, err := s.run(ctx, o); err != nil {
		for _, w := range all {
			w.Stop()
		}
		return nil, err
	}
	return all, nil
}

// attach registers a watch before the read, so no change is missed. The read sets the watch on the server, or shares the watch that is
// already set. An event after the read reaches w. The server forgets its watches when the connection ends; after the reconnect w is woken.
// Spurious wake-ups are possible.
func (s *Session) attach(k watchKey, call func()) *Watch {
	w := &Watch{s: s, key: k, call: call}
	if call == nil {
		w.c = make(chan struct{})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.listed, w.next = true, s.watches[w.key]; w.next != nil { // w comes first in the list of its node
		w.next.prev = w
	}
	s.watches[w.key] = w
	return w
}

// fireAt fires the watches on k.
func (s *Session) fireAt(k watchKey, t zk.EventType) {
	s.mu.Lock()
	set := unlist(s.watches[k])
	delete(s.watches, k)
	s.mu.Unlock()
	s.fire(set, t)
}

// fireAll wakes every waiter: after a reconnect because the new connection has no watches, after a loss because no further event will come.
// Watches are not set again on the new connection: a waiter that goes on waiting reads the node again, and the read sets a watch.
func (s *Session) fireAll(t zk.EventType) {
	s.mu.Lock()
	all := s.watches
	s.watches = map[watchKey]*Watch{}
	for _, first := range all {
		unlist(first)
	}
	s.mu.Unlock()
	for _, first := range all {
		s.fire(first, t)
	}
}
