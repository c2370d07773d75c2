package plan

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan/record"
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
	// EnsembleID is the id that the ensemble has to have; "" if any will do. Desired trees only.
	EnsembleID string

	// The rest is set on current trees only.

	// Index is the stack's record, nil when there is none yet.
	Index *record.Record
	// IndexPin is the path of the record and the version that was read.
	IndexPin Pin
	// IndexTrouble says why the existing record cannot be understood; Index is then nil.
	IndexTrouble string
	// Destroys counts the writes to the stack's apply lock, by its data version. Every destroy makes one, and so does a change of
	// the list of the lock's contenders. Without this count, an old plan would fit again after a destroy: all nodes that were
	// absent then are absent now.
	Destroys int32
	// Frame are the root and the tool's own nodes, with their access lists. If the stack declares administrators, the nodes above
	// the root are included. Nodes that do not exist are missing. Frame is nil in a tree that was not read.
	Frame []Framed
	// Contenders is the access list of the apply lock's contenders.
	Contenders kind.List
	// RootOwner is "another program" if the root contains another program's data.
	RootOwner string
	// Unmanaged are the paths of children of this stack's namespaces that do not
	// carry its marker, sorted. They are never touched; a namespace that has one
	// cannot be deleted.
	Unmanaged []string
	// Unread are the paths of this stack's namespaces that a read does not walk into: others may create nodes there or around
	// them, or another configuration of this stack has its root there. The value counts the children that are neither declared
	// nor named by the record.
	Unread map[string]int
	// Illegible are nodes that are not declared, with marks that this program cannot understand and that do not name another stack,
	// by path. Addr is what the mark says, "" if that cannot be read either.
	Illegible []*Node
	// Unreadable are the paths of existing nodes that we may not read. Each is a node that the configuration or the record names,
	// or a child of one of this stack's namespaces. The named ones are also in Nodes.
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
	Data bool // the node has data
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
	// read: Live.Trouble says why. In a desired tree Gen is ignored: package plan/diff sets it.
	Payload *kind.Payload `json:"-"`
	// ACL is the node's access list: as declared, or as the server answered.
	ACL kind.List `json:"-"`
	// AllowWorld and AllowLockout are set in the acl block that applies. With AllowWorld, the list may let everybody write. With
	// AllowLockout, it may leave us, or the declared administrators, without the rights that managing the node needs.
	AllowWorld   bool `json:"allow_world,omitempty"`
	AllowLockout bool `json:"allow_lockout,omitempty"`
	// Live is what ZooKeeper knows about the node; current trees only.
	Live *Live `json:"-"`
}

// Trouble says why the data of a node that was found is not a declaration of ours.
type Trouble string

// The troubles. The empty one means that Node.Payload is set.
const (
	TroubleForeign    Trouble = "foreign"    // data of another program, or none
	TroubleNewer      Trouble = "newer"      // ours, of a format this program does not read
	TroubleDamaged    Trouble = "damaged"    // ours, but it makes no sense
	TroubleUnreadable Trouble = "unreadable" // its access list does not let us read it
)

// Live is the ZooKeeper side of a node that was found. If a node is unreadable, we may know only that it exists: then all fields but
// Trouble are zero, even Czxid, which is never 0 otherwise.
type Live struct {
	Czxid      int64 `json:"czxid"`               // identifies this incarnation of the path
	Version    int32 `json:"data_version"`        // of the data
	Aversion   int32 `json:"acl_version"`         // of the access list
	Children   int   `json:"children"`            // number of children, structural ones included
	DataLength int   `json:"data_length"`         // bytes
	ModifiedMs int64 `json:"modified_ms"`         // last data change, milliseconds since 1970 by the server's clock
	Ephemeral  bool  `json:"ephemeral,omitempty"` // belongs to a session, so it cannot be ours
	AsLeft     bool  `json:"-"`                   // known to be what the last apply left, see [record.Record.Left]
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
	Data     bool      `json:"-"` // it holds data, which no program should keep here unless Written
	// Written: its data is the record that users of the lock write, see [kind.Kind]. Record is that data. A transaction that
	// creates the lock again writes it into the new part.
	Written bool   `json:"written,omitempty"`
	Record  []byte `json:"record,omitempty"`
	// CreatedMs is when such a part was created, in milliseconds since 1970 by the server's clock.
	CreatedMs int64 `json:"created_ms,omitempty"`
}

// Owned is the address in the node's payload.
func (n *Node) Owned() Addr { return Addr(n.Payload.Owner.Addr) }

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

// Pin returns the pin of a node that was found.
func (n *Node) Pin(addr Addr) Pin {
	return Pin{Path: n.Path, Addr: addr, Czxid: n.Live.Czxid, Version: n.Live.Version, Aversion: n.Live.Aversion}
}

// Drift is a node that is not as the last apply left it.
type Drift struct {
	Addr Addr   `json:"address"`
	Path string `json:"path"`
	// Deleted: it is declared, the last apply left it, and it is gone.
	Deleted bool `json:"deleted,omitempty"`
	// Attributes are those that are not as declared. They are nil if the node is not declared, or is declared as another type.
	Attributes []Attribute `json:"attributes,omitempty"`
}

// Action is what was done to the node.
func (d Drift) Action() Action {
	if d.Deleted {
		return Delete
	}
	return Update
}

// Attribute is a property of a node that is not as declared, with both values as text.
type Attribute struct {
	Name     string `json:"name"`
	Declared string `json:"declared"`
	Found    string `json:"found"`
}

// WithPayload copies the node and its payload, so that a plan can complete them without
// changing the caller's tree. The parameters are shared: nothing here writes to them.
func (n *Node) WithPayload() *Node {
	c, p := *n, *n.Payload
	if p.State == "" {
		p.State = kind.StateActive
	}
	c.Payload = &p
	return &c
}

// KeyLists counts the examined keys whose nodes have these lists: the key's own node, and the children that its kind needs. An
// interrupted apply may have given some of these nodes another list already.
type KeyLists struct {
	Lists []kind.List // each once
	Keys  int
}

// Draft is a desired [Tree] that is being built. [NewTree] makes one.
type Draft struct {
	*Tree
	declared map[Addr]*Node
}

// NewTree is an empty desired tree. stack is the owner of its nodes, and root the absolute path that they are below. [Draft.Add]
// checks both.
func NewTree(stack, root string) *Draft {
	return &Draft{&Tree{Stack: stack, Root: root}, map[Addr]*Node{}}
}

// Add declares a namespace or a lock, at an address such as namespace.payments.mutex.ledger. Declare the namespaces around it
// first.
//
// From n, Add takes what addr and params do not tell: ACL, and optionally Origin, AllowWorld, AllowLockout, Payload.Protect and
// Payload.ChildACL. The znode is named by the last name of the address, with "-KEY" if it has a key; n.Path may give it another
// name below the same parent. Add derives the owner, the state and the order of Nodes, and ignores those in n. If it returns an
// error, the tree is as it was.
func (t *Draft) Add(addr Addr, params kind.Params, n Node) (*Node, error) {
	if err := t.add(addr, params, &n); err != nil {
		return nil, fmt.Errorf("%s cannot be declared: %w", addr, err)
	}
	return &n, nil
}

func (t *Draft) add(addr Addr, params kind.Params, n *Node) error {
	outer, err := addr.outer()
	if err != nil {
		return err
	}
	switch k := params.Kind(); {
	case addr.Type() != k.Name:
		return fmt.Errorf("its parameters are those of a %s", k.Name)
	case t.declared[addr] != nil:
		return errors.New("it is declared already")
	case outer != "" && t.declared[outer] == nil:
		return fmt.Errorf("%s is not declared", outer)
	case len(n.ACL) == 0:
		return errors.New("it has no access list, so no program could use it")
	}
	if err := errors.Join(kind.ValidateName(t.Stack), kind.ValidatePath(t.Root), kind.Validate(params)); err != nil {
		return err
	}
	parent := t.Root
	if outer != "" {
		parent = t.declared[outer].Path
	}
	if n.Path == "" {
		name := addr.Name()
		if key, keyed := addr.Key(); keyed {
			name += "-" + key
		}
		n.Path = kind.JoinPath(parent, name)
	}
	if n.Path != kind.JoinPath(parent, kind.BaseName(n.Path)) {
		return fmt.Errorf("its path %s is not right below %s", n.Path, parent)
	}
	if err := errors.Join(kind.ValidateName(kind.BaseName(n.Path)), kind.ValidatePath(n.Path)); err != nil {
		return err
	}
	if n.Path == record.ScaffoldPath(t.Root) {
		return fmt.Errorf("%s is where locktree keeps its own records", n.Path)
	}
	at, taken := slices.BinarySearchFunc(t.Nodes, n.Path, func(n *Node, path string) int { return strings.Compare(n.Path, path) })
	if taken {
		return fmt.Errorf("its path %s is that of %s", n.Path, t.Nodes[at].Addr)
	}
	own := kind.Payload{Params: params, Owner: kind.Owner{Stack: t.Stack, Addr: string(addr)}, State: kind.StateActive}
	if n.Payload != nil {
		own.Protect, own.ChildACL = n.Payload.Protect, n.Payload.ChildACL
	}
	n.Addr, n.Payload, n.Live = addr, &own, nil
	t.Nodes = slices.Insert(t.Nodes, at, n)
	t.declared[addr] = n
	return nil
}

// outer returns the address of the namespace that contains a, "" at the top. It returns an error if a is no node's address.
func (a Addr) outer() (Addr, error) {
	var outer, whole Addr
	var err error
	var around *kind.Kind // the block around the next step; nil at a top
	a.steps(func(s step) bool {
		k := kind.Lookup(s.typ)
		switch {
		case k == nil && s.typ != "module":
			err = fmt.Errorf("%q is not a type of block that declares nodes", s.typ)
		case s.name == "":
			err = errors.New("an address consists of types and names, such as namespace.payments.mutex.ledger")
		case around != nil && !around.Container:
			err = fmt.Errorf("a %s holds no other blocks", around.Name)
		case around != nil && k == nil:
			err = errors.New("a module cannot be inside a namespace")
		}
		if outer = whole; around == nil {
			outer = "" // a module is no node
		}
		around = k
		if whole = whole.Child(s.typ, s.name); s.key != "" {
			whole += Addr("[" + s.key + "]")
		}
		return err == nil
	})
	if err == nil && (whole != a || around == nil) {
		err = errors.New("it is not the address of a node, such as namespace.payments.mutex.ledger")
	}
	return outer, err
}

// Everybody reports whether an entry applies to anybody who can reach the servers. In ZooKeeper's ip
// scheme an address may have a prefix length, and /0 matches all.
func Everybody(a kind.ACL) bool {
	return a.Scheme == "world" || a.Scheme == "ip" && len(a.ID) > 2 && a.ID[len(a.ID)-2:] == "/0"
}

// Access is who may use the tool's own nodes: the root, .locktree and everything in it. No identity is in both lists.
type Access struct {
	Admins  kind.List `json:"admins"`            // may apply: all rights
	Readers kind.List `json:"readers,omitempty"` // may plan and look: READ
}

// List is the access list of the nodes that belong to this stack alone.
func (a *Access) List() kind.List { return slices.Concat(a.Admins, a.Readers).Normalize() }
