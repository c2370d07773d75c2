package store

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

// Lifetime says what ends a node, apart from a delete.
type Lifetime int

// The lifetimes: without end; until the session ends; until the last child has gone; until some time after the last write (TTL).
const (
	Persistent Lifetime = iota
	Ephemeral
	Container
	Timed
)

// node is one znode. The field creates is what ZooKeeper calls the persisted cversion: it grows with every child created, never shrinks,
// and gives the sequence numbers. The cversion that clients see also counts deletes.
type node struct {
	data     []byte
	acl      []wire.ACL
	children map[string]struct{}
	sorted   []string // children in order; nil when stale

	czxid, mzxid, pzxid int64
	ctime, mtime        int64
	version, aversion   int32
	creates             int32
	life                Lifetime
	owner               int64 // session id of an ephemeral
	ttl                 int64 // milliseconds
}

// stat derives the visible Stat. Every child that was created and no longer exists has been deleted, hence 2*creates - children.
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

// Tree is the data: nodes by path, and the indexes that expiry and reaping need.
type Tree struct {
	rules      Rules
	nodes      map[string]*node
	ephemerals map[int64]map[string]struct{}
	reapable   map[string]struct{} // container and TTL nodes
	quotas     map[string]struct{} // paths with a zookeeper_limits node
	bytes      int64               // paths and data, as mntr reports it
}

// New makes the tree of a server that starts: the root, and what ZooKeeper has below /zookeeper.
func New(rules Rules) *Tree {
	t := &Tree{
		rules:      rules,
		nodes:      map[string]*node{},
		ephemerals: map[int64]map[string]struct{}{},
		reapable:   map[string]struct{}{},
		quotas:     map[string]struct{}{},
	}
	t.put("/", &node{data: []byte{}, acl: OpenACL})
	for _, p := range []string{procPath, quotaPath, configPath} {
		t.put(p, &node{data: []byte{}, acl: OpenACL})
	}
	// The server gives the configuration node its ACL with version -1.
	t.nodes[configPath].acl = readACL
	t.nodes[configPath].aversion = -1
	return t
}

// get finds a node for reading. ZooKeeper stores the root under the empty path too.
func (t *Tree) get(path string) *node {
	if path == "" {
		path = "/"
	}
	return t.nodes[path]
}

// put adds a node and links it to its parent. It changes no counters: the transaction changes them, and undoes the change if it fails.
func (t *Tree) put(path string, n *node) {
	t.nodes[path] = n
	t.bytes += int64(len(path) + len(n.data))
	if parent, name := SplitPath(path); path != "/" {
		t.nodes[parent].link(name)
	}
	switch n.life {
	case Ephemeral:
		if t.ephemerals[n.owner] == nil {
			t.ephemerals[n.owner] = map[string]struct{}{}
		}
		t.ephemerals[n.owner][path] = struct{}{}
	case Container, Timed:
		t.reapable[path] = struct{}{}
	}
}

// remove is the inverse of put.
func (t *Tree) remove(path string) {
	n := t.nodes[path]
	delete(t.nodes, path)
	t.bytes -= int64(len(path) + len(n.data))
	parent, name := SplitPath(path)
	t.nodes[parent].unlink(name)
	switch n.life {
	case Ephemeral:
		delete(t.ephemerals[n.owner], path)
		if len(t.ephemerals[n.owner]) == 0 {
			delete(t.ephemerals, n.owner)
		}
	case Container, Timed:
		delete(t.reapable, path)
	}
}

// Clone copies the tree for a replica that lags. Data and ACLs are shared, because they are never changed in place.
func (t *Tree) Clone() *Tree {
	c := &Tree{
		rules: t.rules,
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
