// Package watch remembers which watchers watch which paths, and says which of them a change concerns. It sends nothing: its caller sends
// the events.
package watch

import (
	"maps"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/zktest/internal/store"
	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// Mode is how long a watch stays and how far it reaches.
type Mode int

// The modes: for one event; until it is removed; until it is removed, for a whole subtree.
const (
	OneShot Mode = iota
	Persistent
	Recursive
)

// Table is one of the server's two watch managers: data watches (data, existence) or child watches. In each table, a watcher has at most
// one watch per path, and a later watch replaces the mode of an earlier one, as in 3.8.0.
type Table[W comparable] struct {
	byPath    map[string]map[W]Mode
	byWatcher map[W]map[string]struct{}
	recursive int
	order     func(a, b W) int
}

func newTable[W comparable](order func(a, b W) int) *Table[W] {
	return &Table[W]{byPath: map[string]map[W]Mode{}, byWatcher: map[W]map[string]struct{}{}, order: order}
}

// Add sets a watch, replacing an earlier one.
func (t *Table[W]) Add(path string, w W, mode Mode) {
	t.Remove(path, w)
	if t.byPath[path] == nil {
		t.byPath[path] = map[W]Mode{}
	}
	if t.byWatcher[w] == nil {
		t.byWatcher[w] = map[string]struct{}{}
	}
	t.byPath[path][w] = mode
	t.byWatcher[w][path] = struct{}{}
	if mode == Recursive {
		t.recursive++
	}
}

// Watched is the server's answer to checkWatches, which in 3.8.0 is true when any connection watches the path.
func (t *Table[W]) Watched(path string) bool { return len(t.byPath[path]) > 0 }

// Remove removes a watch, and reports whether there was one.
func (t *Table[W]) Remove(path string, w W) bool {
	mode, ok := t.byPath[path][w]
	if !ok {
		return false
	}
	if mode == Recursive {
		t.recursive--
	}
	if delete(t.byPath[path], w); len(t.byPath[path]) == 0 {
		delete(t.byPath, path)
	}
	if delete(t.byWatcher[w], path); len(t.byWatcher[w]) == 0 {
		delete(t.byWatcher, w)
	}
	return true
}

func (t *Table[W]) forget(w W) {
	for path := range maps.Clone(t.byWatcher[w]) {
		t.Remove(path, w)
	}
}

// take returns the watchers whose watches a change at path triggers and removes those that trigger once. Recursive watches see their whole
// subtree, but never a ChildrenChanged: they get the child's own event.
func (t *Table[W]) take(path string, typ wire.EventType) []W {
	hit := map[W]struct{}{}
	// Above the path only recursive watches count, so without any the walk is one step.
	for at := path; ; at, _ = store.SplitPath(at) {
		for w, mode := range maps.Clone(t.byPath[at]) {
			switch {
			case mode == Recursive && typ != wire.EventChildrenChanged:
				hit[w] = struct{}{}
			case mode == Recursive || at != path:
			default:
				hit[w] = struct{}{}
				if mode == OneShot {
					t.Remove(at, w)
				}
			}
		}
		if t.recursive == 0 || at == "/" || !strings.HasPrefix(at, "/") {
			break
		}
	}
	return slices.SortedFunc(maps.Keys(hit), t.order)
}

// PathsOf lists the paths that a watcher watches, in order.
func (t *Table[W]) PathsOf(w W) []string { return slices.Sorted(maps.Keys(t.byWatcher[w])) }

// Len is the number of watches.
func (t *Table[W]) Len() int {
	n := 0
	for _, paths := range t.byWatcher {
		n += len(paths)
	}
	return n
}

// Set is both tables together.
type Set[W comparable] struct{ Data, Child *Table[W] }

// NewSet makes an empty Set. Its method Take returns watchers in the given order.
func NewSet[W comparable](order func(a, b W) int) *Set[W] {
	return &Set[W]{Data: newTable(order), Child: newTable(order)}
}

// Forget drops a watcher's watches: they do not outlive a connection, and a client sets them again on the next one (setWatches).
func (s *Set[W]) Forget(w W) {
	s.Data.forget(w)
	s.Child.forget(w)
}

// Take returns the watchers that a change concerns, and removes their watches if these are for one event. A watcher of both the
// data and the children of a node gets one event for its deletion.
func (s *Set[W]) Take(path string, typ wire.EventType) []W {
	switch typ {
	case wire.EventChildrenChanged:
		return s.Child.take(path, typ)
	case wire.EventDeleted:
		data := s.Data.take(path, typ)
		for _, w := range s.Child.take(path, typ) {
			if !slices.Contains(data, w) {
				data = append(data, w)
			}
		}
		return data
	}
	return s.Data.take(path, typ)
}
