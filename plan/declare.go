package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// Draft is a desired [Tree] to which nodes are added. [NewTree] makes one.
type Draft struct {
	*Tree
	declared map[Addr]*Node
}

// NewTree is a desired tree in which nothing is declared yet. stack is the owner of its nodes, and root the absolute path that
// they are below. [Draft.Add] checks both.
func NewTree(stack, root string) *Draft {
	return &Draft{&Tree{Stack: stack, Root: root}, map[Addr]*Node{}}
}

// Add declares a namespace or a lock, at an address such as namespace.payments.mutex.ledger. The namespaces around it are
// declared before.
//
// n says what the address and the parameters do not: ACL, and perhaps Origin, AllowWorld, AllowLockout, and of Payload Protect and
// ChildACL. Without n.Path the znode has the last name of the address, with "-KEY" if it has a key; n.Path, which is right below
// the same parent, gives it another one. All else follows, and what n says of it is not used: the owner, the state, the order of
// Nodes. With an error, the tree is as it was.
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
		return errors.New("it has no access list, so nobody could use it")
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

// outer is the address of the namespace around what a names, "" at the top of the configuration or of a module. The error says why a is
// the address of no node.
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
