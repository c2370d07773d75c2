package plan

import (
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
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

	// The rest is set on current trees only.

	// Index is the stack's index, nil when there is none yet.
	Index *Index
	// IndexPin is where the index stands and at which version it was read.
	IndexPin Pin
	// IndexTrouble says why the index that is there cannot be understood; Index is nil
	// then. Strays are the parts it had.
	IndexTrouble string
	Strays       []Shard
	// Destroys is how often the stack was destroyed before: the data version of its
	// apply lock, which every destroy raises. Without it, an old plan would fit again
	// once everything it found absent is absent again.
	Destroys int32
	// Quotas are the quotas that were found, by the path of their namespace: of those
	// that are declared, or were set by this stack, and of those of which the index does
	// not say who set them, as it does not know the namespace.
	Quotas map[string]LiveQuota
	// Frame are the nodes everything stands on, with their access lists: the root, and
	// the tool's own nodes. Those that do not exist are missing. nil in a tree that nobody read.
	Frame []Framed
	// Contenders is the list that the apply lock gives to those who queue in it.
	Contenders []kind.ACL
	// RootOwner says whose declaration the data of the root is: a stack, or "another program".
	RootOwner string
	// Others are the other stacks below the root; read where it matters what they need there.
	Others []OtherStack
	// Unmanaged are the paths of children of this stack's namespaces that do not
	// carry its marker, sorted. They are never touched; a namespace that has one
	// cannot be deleted.
	Unmanaged []string
	// Unreadable are the paths of nodes that are there and may not be read: of those that the
	// configuration or the index names, and of children of this stack's namespaces. What they
	// are nobody knows. Those that are named are among Nodes.
	Unreadable []string
}

// Framed is one node of a [Tree]'s frame.
type Framed struct {
	Path string
	ACL  []kind.ACL
	Pin  Pin
	Data bool // it holds some
	// Closed: it is there, and its list may not be looked at. The rest is zero.
	Closed bool
}

// OtherStack is a stack that stands on the same root.
type OtherStack struct {
	Stack  string
	Access []kind.ACL // what its index says; nil when that says nothing, or cannot be read
	Closed bool       // it may not be read by us
}

// Node is one provisioned znode, declared or found. A semaphore's structural
// children are part of its node and no nodes of their own.
//
// A desired node has Path, Addr, Payload and ACL. A current one has Path and Live, and the
// rest as far as it may be read: Payload of what is ours or another stack's, ACL of what is
// ours or is to be imported.
type Node struct {
	Path string `json:"path,omitempty"`    // absolute
	Addr Addr   `json:"address,omitempty"` // namespace.payments.semaphore.pool["thumbnails"]
	// Origin is where it was declared ("locks.locktree.hcl:12"); desired trees only.
	Origin string `json:"origin,omitempty"`
	// Payload is the declaration. nil on a current node whose data is not ours to
	// read: Live.Trouble says why. In a desired tree Gen is ignored: [Diff] sets it.
	Payload *kind.Payload `json:"-"`
	// ACL is the node's access list: as declared, or as the server answered.
	ACL []kind.ACL `json:"-"`
	// AllowWorld and AllowLockout are declared on the acl block in force: the
	// author wants everybody to write, or to give up the own admin right.
	AllowWorld   bool `json:"allow_world,omitempty"`
	AllowLockout bool `json:"allow_lockout,omitempty"`
	// ReplaceForACL asks that another access list takes effect with the lock made anew
	// in the transaction, while it is idle, and not after it. Declared nodes only.
	ReplaceForACL bool `json:"-"`
	// Quota is how many znodes a namespace may hold, 0 for no limit. [Diff] sets it
	// from Intent.Quotas; in a current tree, from Quotas.
	Quota int `json:"quota,omitempty"`
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
	TroubleUnreadable Trouble = "unreadable" // its access list keeps us from reading it
)

// Live is the ZooKeeper side of a node that was found. Of a node that is unreadable it may
// be known only that it is there: all but Trouble is zero then, as no node's czxid is.
type Live struct {
	Czxid      int64 `json:"czxid"`               // which incarnation of the path this is
	Version    int32 `json:"data_version"`        // of the data
	Aversion   int32 `json:"acl_version"`         // of the access list
	Children   int   `json:"children"`            // number of children, structural ones included
	DataLength int   `json:"data_length"`         // bytes
	ModifiedMs int64 `json:"modified_ms"`         // last data change, milliseconds since 1970 by the server's clock
	Ephemeral  bool  `json:"ephemeral,omitempty"` // belongs to a session: can be no node of ours
	AsLeft     bool  `json:"-"`                   // known to be what the last apply left, see [Index.Left]
	// Trouble and Detail say why Node.Payload is nil.
	Trouble Trouble `json:"trouble,omitempty"`
	Detail  string  `json:"detail,omitempty"`
	// Parts are the structural children the kind asks for, in the order of
	// kind.Kind.Children, absent ones included.
	Parts []Part `json:"parts,omitempty"`
	// Usage is who holds and waits; nil for namespaces and for nodes without contenders.
	Usage *Usage `json:"usage,omitempty"`
}

// Part is a structural child of a node that was found ("locks", "leases").
type Part struct {
	Name     string     `json:"name"`
	Absent   bool       `json:"absent,omitempty"`
	Czxid    int64      `json:"czxid"`
	Version  int32      `json:"data_version"`
	Aversion int32      `json:"acl_version"`
	Children int        `json:"children"`
	ACL      []kind.ACL `json:"-"`
}

// Identity is who we are to the servers: one entry of recipes.Client.Identities.
type Identity struct{ Scheme, ID string }

// String writes "digest:ops" and "x509:CN=ops": what follows the user of a digest is hidden.
func (id Identity) String() string {
	return strings.TrimSuffix(kind.ACL{Scheme: id.Scheme, ID: id.ID}.String(), ":")
}

// owned is the address a node says it has.
func (n *Node) owned() Addr { return Addr(n.Payload.Owner.Addr) }

// Kind returns the recipe type of the node, nil when its data is not ours.
func (n *Node) Kind() *kind.Kind {
	if n == nil || n.Payload == nil {
		return nil
	}
	return n.Payload.Params.Kind()
}

// Find returns the node at path, or nil. Nodes must be sorted.
// Reading asks it once for each node and each entry of the index.
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

// pin returns the pin of a structural child of the node at path.
func (p Part) pin(path string, addr Addr) Pin {
	path = kind.JoinPath(path, p.Name)
	if p.Absent {
		return Pin{Path: path, Addr: addr, Absent: true}
	}
	return Pin{Path: path, Addr: addr, Czxid: p.Czxid, Version: p.Version, Aversion: p.Aversion}
}
