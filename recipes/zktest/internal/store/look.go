package store

import (
	"maps"
	"slices"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// Node is a node as it is stored; no access list is checked. Its slices must not be changed.
type Node struct {
	Data     []byte
	ACL      []wire.ACL
	Stat     wire.Stat
	Children []string // names, in order
	Lifetime Lifetime
	TTL      int64 // milliseconds, of a Timed node
}

// Lookup returns a node, false when there is none.
func (t *Tree) Lookup(path string) (Node, bool) {
	n := t.nodes[path]
	if n == nil {
		return Node{}, false
	}
	return Node{Data: n.data, ACL: n.acl, Stat: n.stat(), Children: n.names(), Lifetime: n.life, TTL: n.ttl}, true
}

// Has reports whether there is a node.
func (t *Tree) Has(path string) bool { return t.nodes[path] != nil }

// Stat returns a node's metadata. As in clients' reads, the empty path means the root too.
func (t *Tree) Stat(path string) (wire.Stat, bool) {
	n := t.get(path)
	if n == nil {
		return wire.Stat{}, false
	}
	return n.stat(), true
}

// Len is the number of nodes.
func (t *Tree) Len() int { return len(t.nodes) }

// Bytes is the size of paths and data.
func (t *Tree) Bytes() int64 { return t.bytes }

// Owners lists the sessions that have ephemeral nodes, in order.
func (t *Tree) Owners() []int64 { return slices.Sorted(maps.Keys(t.ephemerals)) }

// Owned lists a session's ephemerals in order.
func (t *Tree) Owned(session int64) []string { return slices.Sorted(maps.Keys(t.ephemerals[session])) }

// Reapable reports whether there are containers or TTL nodes: without them, Outlived never finds anything.
func (t *Tree) Reapable() bool { return len(t.reapable) > 0 }

// Outlived lists, in order, the nodes that a reaper deletes. A reaper deletes containers that have had children and have none left. It also
// deletes TTL nodes without children whose last write is longer ago than their lifetime.
func (t *Tree) Outlived(millis int64) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(t.reapable)) {
		if t.nodes[path].isOutlived(millis) {
			out = append(out, path)
		}
	}
	return out
}

// isOutlived follows ContainerManager.getCandidates. A container that has never had a
// child stays: it may just have been made for a child that is on its way.
func (n *node) isOutlived(millis int64) bool {
	switch {
	case len(n.children) > 0:
		return false
	case n.life == Container:
		return n.creates > 0
	}
	return millis-n.mtime > n.ttl
}

// SetCreateCount sets how many children a node has ever had, which gives the next sequence number. It returns false when there is no node.
func (t *Tree) SetCreateCount(path string, n int32) bool {
	x := t.nodes[path]
	if x != nil {
		x.creates = n
	}
	return x != nil
}
