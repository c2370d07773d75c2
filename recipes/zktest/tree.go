package zktest

import (
	"maps"
	"slices"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// The nodes that exist on every ZooKeeper server from the start.
const (
	procPath   = "/zookeeper"
	quotaPath  = "/zookeeper/quota"
	configPath = "/zookeeper/config"
)

// lifetime is what ends a node besides a delete.
type lifetime int

const (
	persistent lifetime = iota
	ephemeral
	container
	timed
)

// node is one znode. creates is what ZooKeeper calls the persisted cversion: it grows
// with every child created, never shrinks, and gives the sequence numbers. The
// cversion that clients see also counts deletes.
type node struct {
	data     []byte
	acl      []wire.ACL
	children map[string]struct{}
	sorted   []string // children in order; nil when stale

	czxid, mzxid, pzxid int64
	ctime, mtime        int64
	version, aversion   int32
	creates             int32
	life                lifetime
	owner               int64 // session id of an ephemeral
	ttl                 int64 // milliseconds
}

// stat derives the visible Stat. Every child that was created and no longer exists
// has been deleted, hence 2*creates - children.
func (n *node) stat() wire.Stat {
	count := int32(len(n.children))
	return wire.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Ctime: n.ctime, Mtime: n.mtime,
		Version: n.version, Cversion: n.creates*2 - count, Aversion: n.aversion,
		EphemeralOwner: n.owner, DataLength: int32(len(n.data)), NumChildren: count, Pzxid: n.pzxid,
	}
}

// names lists the children in order. ZooKeeper's order is that of a Java hash set.
func (n *node) names() []string {
	if n.sorted == nil {
		n.sorted = slices.Sorted(maps.Keys(n.children))
	}
	return n.sorted
}

func (n *node) link(name string) {
	if n.children == nil {
		n.children = map[string]struct{}{}
	}
	n.children[name] = struct{}{}
	n.sorted = nil
}

func (n *node) unlink(name string) {
	delete(n.children, name)
	n.sorted = nil
}

// tree is the data: nodes by path, and the indexes that expiry and reaping need.
type tree struct {
	nodes      map[string]*node
	ephemerals map[int64]map[string]struct{}
	reapable   map[string]struct{} // container and TTL nodes
	quotas     map[string]struct{} // paths with a zookeeper_limits node
	bytes      int64               // paths and data, as mntr reports it
}

func newTree() *tree {
	t := &tree{
		nodes:      map[string]*node{},
		ephemerals: map[int64]map[string]struct{}{},
		reapable:   map[string]struct{}{},
		quotas:     map[string]struct{}{},
	}
	t.put("/", &node{data: []byte{}, acl: openACL})
	for _, p := range []string{procPath, quotaPath, configPath} {
		t.put(p, &node{data: []byte{}, acl: openACL})
	}
	// The server gives the configuration node its ACL with version -1.
	t.nodes[configPath].acl = readACL
	t.nodes[configPath].aversion = -1
	return t
}

// get finds a node for reading. ZooKeeper stores the root under the empty path too.
func (t *tree) get(path string) *node {
	if path == "" {
		path = "/"
	}
	return t.nodes[path]
}

// put adds a node and links it to its parent. It changes no counters: the transaction
// does, and undoes.
func (t *tree) put(path string, n *node) {
	t.nodes[path] = n
	t.bytes += int64(len(path) + len(n.data))
	if parent, name := splitPath(path); path != "/" {
		t.nodes[parent].link(name)
	}
	switch n.life {
	case ephemeral:
		if t.ephemerals[n.owner] == nil {
			t.ephemerals[n.owner] = map[string]struct{}{}
		}
		t.ephemerals[n.owner][path] = struct{}{}
	case container, timed:
		t.reapable[path] = struct{}{}
	}
}

// remove is the inverse of put.
func (t *tree) remove(path string) {
	n := t.nodes[path]
	delete(t.nodes, path)
	t.bytes -= int64(len(path) + len(n.data))
	parent, name := splitPath(path)
	t.nodes[parent].unlink(name)
	switch n.life {
	case ephemeral:
		delete(t.ephemerals[n.owner], path)
		if len(t.ephemerals[n.owner]) == 0 {
			delete(t.ephemerals, n.owner)
		}
	case container, timed:
		delete(t.reapable, path)
	}
}

// owned lists a session's ephemerals in order.
func (t *tree) owned(session int64) []string {
	return slices.Sorted(maps.Keys(t.ephemerals[session]))
}

// clone copies the tree for a replica that lags. Data and ACLs are shared, because
// they are never changed in place.
func (t *tree) clone() *tree {
	c := &tree{
		nodes: make(map[string]*node, len(t.nodes)), ephemerals: map[int64]map[string]struct{}{},
		reapable: maps.Clone(t.reapable), quotas: maps.Clone(t.quotas), bytes: t.bytes,
	}
	for p, n := range t.nodes {
		dup := *n
		dup.children = maps.Clone(n.children)
		c.nodes[p] = &dup
	}
	for id, paths := range t.ephemerals {
		c.ephemerals[id] = maps.Clone(paths)
	}
	return c
}
