package zktest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/zktest/internal/store"
	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// Node is one znode as the server holds it.
type Node struct {
	Path     string
	Data     []byte // nil and empty differ, as in ZooKeeper
	ACL      []ACL  // with the digests, which clients may see masked
	Stat     Stat
	Children []string // names, sorted
}

// ACL is one entry of a node's access control list.
type ACL struct {
	Perms  int32 // read 1, write 2, create 4, delete 8, admin 16
	Scheme string
	ID     string
}

// Stat is a node's metadata as ZooKeeper sends it. Times are milliseconds since
// the epoch. EphemeralOwner is zero for container and TTL nodes, as on the wire.
type Stat struct {
	Czxid          int64
	Mzxid          int64
	Ctime          int64
	Mtime          int64
	Version        int32
	Cversion       int32
	Aversion       int32
	EphemeralOwner int64
	DataLength     int32
	NumChildren    int32
	Pzxid          int64
}

// Session is one client session as the server knows it.
type Session struct {
	ID         int64
	Timeout    time.Duration // as the server granted it
	Connected  bool          // has a connection, partitioned or not
	Ephemerals []string      // paths, sorted
	Requests   int           // since the last ResetCounts, without pings
}

// Get returns a node, false when there is none. It does not count as a request and sets no watch.
func (s *Server) Get(path string) (Node, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.tree.Lookup(path)
	if !ok {
		return Node{}, false
	}
	out := Node{Path: path, Data: slices.Clone(n.Data), Stat: Stat(n.Stat), Children: slices.Clone(n.Children)}
	for _, a := range n.ACL {
		out.ACL = append(out.ACL, ACL(a))
	}
	return out, true
}

// Create makes a persistent node that anyone may change, and its missing parents, without a client: one transaction for each, and watches
// fire. The error wraps a [Code] and names the path.
func (s *Server) Create(path string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.create(path, data)
}

func (s *Server) create(path string, data []byte) error {
	if !store.ValidPath(path) {
		return editError("create", path, wire.CodeBadArguments)
	}
	var missing []string
	// The loop ends at the root, which always exists.
	for at, _ := store.SplitPath(path); !s.tree.Has(at); at, _ = store.SplitPath(at) {
		missing = append(missing, at)
	}
	for _, p := range slices.Backward(missing) {
		if code := s.edit(store.Create{Path: p, Data: []byte{}, ACL: store.OpenACL}); code != wire.CodeOK {
			return editError("create", p, code)
		}
	}
	return editError("create", path, s.edit(store.Create{Path: path, Data: slices.Clone(data), ACL: store.OpenACL}))
}

// declaration is the data of a provisioned lock's node and the children it needs. *kind.Payload implements it. It is an interface because
// this package imports only the standard library. It is an alias so that package kind can describe Provision without importing this
// package.
type declaration = interface {
	Encode() ([]byte, error)
	Children() []string
}

// Provision declares a lock, as locktree apply would. It creates the node, the children it needs and its missing parents, open to
// every client, before any client can see one of them. If the node exists, its declaration is replaced.
func (s *Server) Provision(path string, d declaration) error {
	data, err := d.Encode()
	if err != nil {
		return fmt.Errorf("zktest: provision %s: %w", path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tree.Has(path) {
		err = s.set(path, data)
	} else {
		err = s.create(path, data)
	}
	for _, name := range d.Children() {
		if child := store.JoinPath(path, name); err == nil && !s.tree.Has(child) {
			err = s.create(child, nil)
		}
	}
	return err
}

// Set replaces a node's data, whatever its version and ACL.
func (s *Server) Set(path string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set(path, data)
}

func (s *Server) set(path string, data []byte) error {
	return editError("set", path, s.edit(store.SetData{Path: path, Data: slices.Clone(data), Version: -1}))
}

// Delete removes a node and everything below it, children first, whatever their versions and ACLs, in one transaction for each.
func (s *Server) Delete(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deleteAll(path)
}

func (s *Server) deleteAll(path string) error {
	if n, ok := s.tree.Lookup(path); ok {
		for _, name := range slices.Clone(n.Children) {
			if err := s.deleteAll(store.JoinPath(path, name)); err != nil {
				return err
			}
		}
	}
	return editError("delete", path, s.edit(store.Delete{Path: path, Version: -1}))
}

// edit writes without a client: no session owns the node, and no access list applies. The write takes a zxid and fires watches like any
// other write.
func (s *Server) edit(op store.Op) wire.Code {
	result, changes := s.tree.Apply(store.Super, s.stamp(), op)
	s.fireWatches(changes)
	return result.Code
}

func editError(what, path string, code wire.Code) error {
	if code == wire.CodeOK {
		return nil
	}
	return fmt.Errorf("zktest: %s %s: %w", what, path, Code(code))
}

// SetCreateCount sets how many children a node has ever had, without creating them; the next sequence number is that count. ZooKeeper has
// no such operation. Use it to test what happens near 2^31.
func (s *Server) SetCreateCount(path string, n int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tree.SetCreateCount(path, n) {
		return editError("preset", path, wire.CodeNoNode)
	}
	return nil
}

// Dump returns the whole tree as text: one line per node, in order, with children indented below their parent. A line has the name, the
// data, and anything unusual. The text contains no times, ids or zxids, so that equal trees make equal dumps. The owner of an ephemeral
// node appears as its rank among the live sessions.
func (s *Server) Dump() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	owners := map[int64]int{}
	for i, x := range s.sessionsByID() {
		owners[x.id] = i + 1
	}
	var b strings.Builder
	s.dump(&b, "/", "/", 0, owners)
	return b.String()
}

func (s *Server) dump(b *strings.Builder, path, name string, depth int, owners map[int64]int) {
	n, _ := s.tree.Lookup(path)
	fmt.Fprintf(b, "%s%s", strings.Repeat("  ", depth), name)
	if len(n.Data) > 0 {
		fmt.Fprintf(b, " %q", n.Data)
	}
	if n.Stat.Version != 0 {
		fmt.Fprintf(b, " v%d", n.Stat.Version)
	}
	switch n.Lifetime {
	case store.Ephemeral:
		fmt.Fprintf(b, " ephemeral of session %d", owners[n.Stat.EphemeralOwner])
	case store.Container:
		b.WriteString(" container")
	case store.Timed:
		fmt.Fprintf(b, " ttl %v", time.Duration(n.TTL)*time.Millisecond)
	}
	if !slices.Equal(n.ACL, store.OpenACL) {
		for _, a := range n.ACL {
			fmt.Fprintf(b, " %s:%s:%s", a.Scheme, a.ID, permString(a.Perms))
		}
	}
	b.WriteByte('\n')
	for _, child := range n.Children {
		s.dump(b, store.JoinPath(path, child), child, depth+1, owners)
	}
}

func permString(p int32) string {
	var b strings.Builder
	for i, l := range "rwcda" {
		if p&(1<<i) != 0 {
			b.WriteRune(l)
		}
	}
	return b.String()
}

// Sessions lists the live sessions in the order of their ids, that is, of their creation.
func (s *Server) Sessions() []Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Session
	for _, x := range s.sessionsByID() {
		out = append(out, Session{
			ID: x.id, Timeout: x.timeout, Connected: x.conn != nil,
			Ephemerals: s.tree.Owned(x.id), Requests: x.counts.Total,
		})
	}
	return out
}
