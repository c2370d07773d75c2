package plan

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
)

// Tree is a lock tree of one stack on one ensemble: what a configuration
// declares (desired) or what a read of the ensemble found (current).
type Tree struct {
	Ensemble string  // name of the ensemble block
	Root     string  // absolute path everything is below; "/" at least
	Stack    string  // ownership id, written into every node
	Nodes    []*Node // sorted by path, each path once

	// Intent is what is declared besides the nodes; desired trees only.
	Intent Intent
	// EnsembleID is the id that the ensemble has to have; "" if any will do. Desired trees only.
	EnsembleID string

	// The rest is set on current trees only.

	// Index is the stack's record, nil when there is none yet.
	Index *Index
	// IndexPin is the path of the record and the version that was read.
	IndexPin Pin
	// IndexTrouble says why the existing record cannot be understood; Index is then nil.
	IndexTrouble string
	// Destroys is how often the stack was destroyed before: the data version of its
	// apply lock, which every destroy raises. Without it, an old plan would fit again
	// when everything that it found absent is absent again.
	Destroys int32
	// Frame are the root and the tool's own nodes, with their access lists. Those that do
	// not exist are missing. nil in a tree that was not read.
	Frame []Framed
	// Contenders is the access list of the apply lock's contenders.
	Contenders kind.List
	// RootOwner is "another program" if the root has data of one.
	RootOwner string
	// Unmanaged are the paths of children of this stack's namespaces that do not
	// carry its marker, sorted. They are never touched; a namespace that has one
	// cannot be deleted.
	Unmanaged []string
	// Unread are the paths of this stack's namespaces that a read does not walk into: others may create nodes there, or around them,
	// or another configuration of this stack has its root there. The value counts the children that are neither declared nor named
	// by the record.
	Unread map[string]int
	// Illegible are nodes that are not declared, with marks that this program cannot understand and that do not name another stack,
	// by path. Addr is what the mark says, "" if that cannot be read either.
	Illegible []*Node
	// Unreadable are the paths of nodes that exist and that we may not read, among those that the
	// configuration or the record names and the children of this stack's namespaces. Those that are
	// named are also in Nodes.
	Unreadable []string
}

// Payloads are the nodes of a desired tree, parents first: their paths, and what an apply writes into each.
func (t *Tree) Payloads() iter.Seq2[string, *kind.Payload] {
	return func(yield func(string, *kind.Payload) bool) {
		for _, n := range t.Nodes {
			if n.Payload != nil && !yield(n.Path, n.Payload) {
				return
			}
		}
	}
}

// Framed is one node of a [Tree]'s frame.
type Framed struct {
	Path string
	ACL  kind.List
	Pin  Pin
	Data bool // it has data
	// Closed: it exists, but we may not read its list. The rest is zero.
	Closed bool
}

// Node is one provisioned znode, declared or found. A semaphore's structural
// children are part of its node and not separate nodes.
//
// A desired node has Path, Addr, Payload and ACL. A current one has Path and Live, and the
// rest as far as we may read it: Payload if it is ours or another stack's, ACL if it is ours
// or to be imported.
type Node struct {
	Path string `json:"path,omitempty"`    // absolute
	Addr Addr   `json:"address,omitempty"` // namespace.payments.semaphore.pool["thumbnails"]
	// Origin is where it was declared ("locks.locktree.hcl:12"); desired trees only.
	Origin string `json:"origin,omitempty"`
	// Payload is the declaration. nil on a current node whose data is not ours to
	// read: Live.Trouble says why. In a desired tree Gen is ignored: [Diff] sets it.
	Payload *kind.Payload `json:"-"`
	// ACL is the node's access list: as declared, or as the server answered.
	ACL kind.List `json:"-"`
	// AllowWorld and AllowLockout are declared in the acl block that applies: the author
	// wants everybody to write, or to give up our own admin right.
	AllowWorld   bool `json:"allow_world,omitempty"`
	AllowLockout bool `json:"allow_lockout,omitempty"`
	// Live is what ZooKeeper knows about the node; current trees only.
	Live *Live `json:"-"`
}

// Trouble says why the data of a node that was found is not a declaration of ours.
type Trouble string

// The troubles. The empty one means that Node.Payload is set.
const (
	TroubleForeign    Trouble = "foreign"    // somebody else's data, or none
	TroubleNewer      Trouble = "newer"      // ours, of a format this program does not read
	TroubleDamaged    Trouble = "damaged"    // ours, but it makes no sense
	TroubleUnreadable Trouble = "unreadable" // its access list does not let us read it
)

// Live is the ZooKeeper side of a node that was found. Of an unreadable node it may be known
// only that it exists: then all but Trouble is zero, even Czxid, which no node has as 0.
type Live struct {
	Czxid      int64 `json:"czxid"`               // identifies this incarnation of the path
	Version    int32 `json:"data_version"`        // of the data
	Aversion   int32 `json:"acl_version"`         // of the access list
	Children   int   `json:"children"`            // number of children, structural ones included
	DataLength int   `json:"data_length"`         // bytes
	ModifiedMs int64 `json:"modified_ms"`         // last data change, milliseconds since 1970 by the server's clock
	Ephemeral  bool  `json:"ephemeral,omitempty"` // belongs to a session, so it cannot be ours
	AsLeft     bool  `json:"-"`                   // known to be what the last apply left, see [Index.Left]
	// Trouble and Detail say why Node.Payload is nil.
	Trouble Trouble `json:"trouble,omitempty"`
	Detail  string  `json:"detail,omitempty"`
	// Parts are the structural children that the kind needs, in the order of
	// kind.Payload.Children, including absent ones.
	Parts []Part `json:"parts,omitempty"`
	// KeyLists are the access lists of the nodes of a family's keys that were looked at.
	KeyLists []KeyLists `json:"-"`
	// Usage is who holds and waits; nil for namespaces and for nodes without contenders.
	Usage *kind.Usage `json:"usage,omitempty"`
}

// Part is a structural child of a node that was found ("locks", "leases", a directory of a family).
type Part struct {
	Name     string    `json:"name"`
	Absent   bool      `json:"absent,omitempty"`
	Czxid    int64     `json:"czxid"`
	Version  int32     `json:"data_version"`
	Aversion int32     `json:"acl_version"`
	Children int       `json:"children"`
	ACL      kind.List `json:"-"`
	Data     bool      `json:"-"` // it holds data, which is nobody's here unless Written
	// Written: its data is the record that users of the lock write, see [kind.Kind]. Record is what it says, which goes along
	// when the lock is created anew.
	Written bool   `json:"written,omitempty"`
	Record  []byte `json:"record,omitempty"`
	// CreatedMs is when such a part was created, in milliseconds since 1970 by the server's clock.
	CreatedMs int64 `json:"created_ms,omitempty"`
}

// Identity is one of our identities on the servers, as in recipes.Client.Identities.
type Identity struct{ Scheme, ID string }

// String writes "digest:ops" and "x509:CN=ops": what follows the user of a digest is hidden.
func (id Identity) String() string {
	return strings.TrimSuffix(id.entry().String(), ":")
}

// us are our identities as in access lists, without rights.
func (d *sides) us() (list kind.List) {
	for _, id := range d.opts.Identities {
		list = append(list, id.entry())
	}
	return list
}

// entry is the identity as in access lists, without rights.
func (id Identity) entry() kind.ACL { return kind.ACL{Scheme: id.Scheme, ID: id.ID} }

// owned is the address in the node's payload.
func (n *Node) owned() Addr { return Addr(n.Payload.Owner.Addr) }

// Kind returns the recipe type of the node, nil when its data is not ours.
func (n *Node) Kind() *kind.Kind {
	if n == nil || n.Payload == nil {
		return nil
	}
	return n.Payload.Params.Kind()
}

// Find returns the node at path, or nil. Nodes must be sorted. A read calls it once for each
// node.
func (t *Tree) Find(path string) *Node {
	if t == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(t.Nodes, path, func(n *Node, path string) int { return strings.Compare(n.Path, path) })
	if !ok {
		return nil
	}
	return t.Nodes[i]
}

// pin returns the pin of a node that was found.
func (n *Node) pin(addr Addr) Pin {
	return Pin{Path: n.Path, Addr: addr, Czxid: n.Live.Czxid, Version: n.Live.Version, Aversion: n.Live.Aversion}
}

// pin returns the pin of a structural child of the node at path.
func (p Part) pin(path string, addr Addr) Pin {
	path = kind.JoinPath(path, p.Name)
	if p.Absent {
		return Pin{Path: path, Addr: addr, Absent: true}
	}
	return Pin{Path: path, Addr: addr, Czxid: p.Czxid, Version: p.Version, Aversion: p.Aversion, Written: p.Written}
}

// record is what the users of a lock have written in it; nil for most kinds.
func (n *Node) record() []byte {
	if n == nil || n.Live == nil {
		return nil
	}
	for _, part := range n.Live.Parts {
		if part.Written {
			return slots.CarryRecord(part.Record, part.CreatedMs)
		}
	}
	return nil
}

// Gap is a node of which a read knows only that the stack has it, or should have.
type Gap struct {
	Path string
	// Addr and Type are as declared; "" if the path is not.
	Addr Addr
	Type string
	// Trouble says why it cannot be read; "" if it is missing, or contains no declaration.
	Trouble Trouble
	Detail  string
}

// Gaps returns what is missing from a current tree, by path: nodes that cannot be read, and declared ones that do
// not exist, if the stack was ever applied. Without them the rest looks complete.
func (t *Tree) Gaps(desired *Tree) []Gap {
	var out []Gap
	known := map[string]Gap{}
	for _, want := range desired.Nodes {
		g := Gap{Path: want.Path, Addr: want.Addr, Type: want.Kind().Name}
		known[want.Path] = g
		if n := t.Find(want.Path); t.Index != nil && (n == nil || n.Live != nil && n.Live.Trouble == TroubleForeign) {
			out = append(out, g)
		}
	}
	for _, n := range t.Nodes {
		if n.Live != nil && n.Live.Trouble != "" && n.Live.Trouble != TroubleForeign {
			g := known[n.Path]
			g.Path, g.Trouble, g.Detail = n.Path, n.Live.Trouble, n.Live.Detail
			out = append(out, g)
		}
	}
	if t.Index == nil { // any node that cannot be read may be the stack's
		for _, path := range t.Unreadable {
			if t.Find(path) == nil {
				out = append(out, Gap{Path: path, Trouble: TroubleUnreadable})
			}
		}
	}
	slices.SortFunc(out, func(a, b Gap) int { return cmp.Compare(a.Path, b.Path) })
	return out
}
