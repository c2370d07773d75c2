package static

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// Decl is one declaration: a vertex of the dependency graph, evaluated once for each instance of its module.
type Decl struct {
	Addr   string // local.x, principal.x, namespace.payments.mutex.ledger
	Number int    // in the order of declaration
	Head   hcl.Range
	Block  *syntax.Block       // nil for a local
	Attrs  []*syntax.Attribute // every expression that is evaluated for it
	Node   *Node               // set when it declares znodes
	// inside is what it waits for besides what its expressions refer to: the namespace and the ensemble it is in.
	inside []*Decl
	Child  *Declarations // what a module block calls; nil when it could not be read, which has been reported
	// intent is set on moved, import and removed blocks.
	Intent *Intention
	// forEach is the argument of a block without a node; nodeDecl has its own.
	ForEach *syntax.Attribute

	Broken bool // it cannot have a value, and the reason has been reported
}

// IsModule reports whether it is a module block.
func (d *Decl) IsModule() bool { return d.Block != nil && d.Block.Type.Name == "module" }

// nodeDecl is a block that declares znodes: one, or one for each element of
// for_each, for each instance of the namespace it is in.
type Node struct {
	*Decl
	Kind     *kind.Kind
	Label    string
	Parent   *Node
	Children []*Node
	Order    []*Node // of those inside
}

// Attr is an argument of the block; nil where it has none.
func (n *Node) Attr(name string) *syntax.Attribute { return n.Block.Arg(name) }

// repeated reports whether each is defined for what is inside the node.
func (n *Node) repeated() bool {
	for ; n != nil; n = n.Parent {
		if n.Attr("for_each") != nil {
			return true
		}
	}
	return false
}

func (n *Node) top() *Node {
	for n.Parent != nil {
		n = n.Parent
	}
	return n
}

// collect turns the blocks of all files into declarations.
func (r *reading) collect(root *syntax.Block) {
	for _, b := range root.Blocks {
		switch name := b.Type.Name; {
		case name == "locktree":
			if r.Settings == nil {
				r.Settings = r.declare(&Decl{Addr: name, Block: b, Head: b.Head}, b.Arg("stack"))
			}
		case name == "variable":
			r.name("var", b)
		case name == "locals":
			for _, a := range b.Args {
				d := r.declare(&Decl{Addr: "local." + a.Name, Head: a.NameRange}, a)
				r.unique("local", a.Name, d)
			}
		case name == "principal":
			r.name("principal", b, b.Args...).ForEach = b.Arg("for_each")
		case name == "acl":
			r.name("acl", b, b.All()...).ForEach = b.Arg("for_each")
		case name == "ensemble":
			r.name("ensemble", b, b.All()...)
		case name == "output":
			d := r.name("output", b, b.Args...)
			r.Outputs = append(r.Outputs, d)
		case name == "moved":
			r.collectMoved(b)
		case name == "removed":
			r.collectRemoved(b)
		case name == "import":
			r.collectImport(b)
		case name == "check":
			r.name("check", b, b.All()...)
		case name == "module":
			r.collectCall(b)
		case b.Type.Kind != nil:
			r.collectNode(b, nil)
		}
	}
	// After the loop: only now it is known how many ensembles there are.
	for _, n := range r.Nodes {
		r.chooseEnsemble(n.Decl, n.Attr("ensemble") != nil)
	}
	for _, name := range r.Names["module"] {
		d := r.Named["module"][name]
		r.chooseEnsemble(d, d.Block.Arg("ensemble") != nil)
	}
}

func (r *reading) declare(d *Decl, attrs ...*syntax.Attribute) *Decl {
	for _, a := range attrs {
		if a != nil {
			d.Attrs = append(d.Attrs, a)
		}
	}
	d.Number = len(r.All)
	r.All = append(r.All, d)
	return d
}

// name declares a block that is found by its first label.
func (r *reading) name(root string, b *syntax.Block, attrs ...*syntax.Attribute) *Decl {
	d := r.declare(&Decl{Addr: root + "." + b.Name(), Block: b, Head: b.Head}, attrs...)
	r.checkLabel(b, b.Name())
	r.unique(root, b.Name(), d)
	return d
}

func (r *reading) unique(root, name string, d *Decl) {
	if r.Named[root] == nil {
		r.Named[root] = map[string]*Decl{}
	}
	if first := r.Named[root][name]; first != nil {
		r.duplicate(d, first) // references go on meaning the first one, and both are checked
		return
	}
	r.Named[root][name] = d
	r.Names[root] = append(r.Names[root], name)
}

func (r *reading) duplicate(d, first *Decl) {
	r.Errorf(d.Head, "Duplicate declaration", "%s is already declared at %s. Rename one of the two, or delete it.", d.Addr, r.Where(first.Head))
}

// checkLabel refuses labels that no reference could spell.
func (r *reading) checkLabel(b *syntax.Block, name string) {
	if !hclsyntax.ValidIdentifier(name) {
		next := ""
		if b.Type.Kind != nil {
			next = " The znode may have another name: set name = ..."
		}
		r.Errorf(b.LabelAt(), "Invalid name", "No reference could name %q: a name consists of letters, digits, _ and -, and starts with a letter or _.%s", name, next)
	}
}

// collectNode declares a node block and those inside it.
func (r *reading) collectNode(b *syntax.Block, outer *Node) {
	r.checkLabel(b, b.Name())
	n := r.addNode(b, outer)
	if n == nil {
		return
	}
	for _, a := range b.All() {
		if a.Name != "order" && (a.Name != "ensemble" || outer == nil) { // the names in an order are no references
			n.Attrs = append(n.Attrs, a)
		}
	}
	if a := b.Arg("ensemble"); a != nil && outer != nil {
		r.Errorf(a.NameRange, "Ensemble inside a namespace",
			"Everything in a namespace belongs to its ensemble. Set ensemble on %s, or move this block out of it.", outer.top().Addr)
	}
	for _, c := range b.Blocks {
		if c.Type.Kind != nil {
			r.collectNode(c, n)
		}
	}
	n.Order = r.orderOf(n)
}

// addNode returns the new declaration, or nil when the address is taken.
func (r *reading) addNode(b *syntax.Block, parent *Node) *Node {
	n := &Node{Kind: b.Type.Kind, Label: b.Name(), Parent: parent}
	d := &Decl{Addr: n.Kind.Name + "." + n.Label, Head: b.Head, Block: b, Node: n}
	n.Decl = d
	if parent != nil {
		d.Addr = parent.Addr + "." + d.Addr
		d.inside = []*Decl{parent.Decl}
	}
	key := nodeKey{parent, n.Kind.Name, n.Label}
	if first := r.index[key]; first != nil {
		r.duplicate(d, first.Decl)
		return nil
	}
	r.index[key] = n
	if parent != nil {
		parent.Children = append(parent.Children, n)
	} else {
		r.Nodes = append(r.Nodes, n)
	}
	r.declare(d)
	return n
}

// chooseEnsemble adds what a declaration at the top waits for because its paths
// start with the ensemble's root. In a module that is called, the caller has
// waited already.
func (r *reading) chooseEnsemble(d *Decl, chosen bool) {
	names := r.Names["ensemble"]
	switch {
	case chosen || r.outer != nil:
	case len(names) == 1:
		d.inside = append(d.inside, r.Named["ensemble"][names[0]])
	case len(names) > 1 && d.Node != nil:
		r.Errorf(d.Head, "Which ensemble?", "There are several ensembles, so %s must name one: add ensemble = ensemble.%s%s",
			d.Addr, names[0], fmt.Sprintf(" (or %s).", syntax.OrList(names[1:])))
		d.Broken = true
	}
}

// NameAt is where the name of the node's znodes comes from.
func (n *Node) NameAt() hcl.Range {
	switch {
	case n.Attr("name") != nil:
		return n.Attr("name").Expr.Range()
	case n.Attr("for_each") != nil:
		return n.Attr("for_each").Expr.Range()
	}
	return n.Block.LabelAt()
}

// orderOf reads the order of a namespace: the addresses of locks inside, as seen from there. Each stands for all of its for_each.
func (r *reading) orderOf(n *Node) (all []*Node) {
	a := n.Attr("order")
	if a == nil {
		return nil
	}
	exprs, diags := hcl.ExprList(a.Expr)
	if diags.HasErrors() {
		r.Errorf(a.Expr.Range(), "Invalid order", "order must be a list of addresses of locks inside, such as [mutex.a, mutex.b].")
		return nil
	}
	for _, expr := range exprs {
		var steps hcl.Traversal
		if e, ok := written(expr).(*hclsyntax.ScopeTraversalExpr); ok {
			steps = e.Traversal
		}
		var at plan.Addr
		lock := n
		for ; lock != nil && len(steps) >= 2; steps = steps[2:] {
			typ, label := StepNameOf(steps[0]), StepNameOf(steps[1])
			at = at.Child(typ, label)
			lock = r.index[nodeKey{lock, typ, label}]
		}
		switch {
		case lock == nil:
			r.Errorf(expr.Range(), "Invalid order", "There is no %s in %s. The addresses in an order begin there.", at, n.Addr)
		case at == "" || len(steps) > 0:
			r.Errorf(expr.Range(), "Invalid order", "Each part of an order is the address of a lock inside %s, without keys, such as mutex.a.", n.Addr)
		case lock.Kind.Container:
			r.Errorf(expr.Range(), "Invalid order", "%s is a namespace, which nobody takes. Name the locks in it.", at)
		case slices.Contains(all, lock):
			r.Errorf(expr.Range(), "Invalid order", "%s is in the order twice. Name it once.", at)
		case lock.orderedIn(n) != nil:
			r.Errorf(expr.Range(), "Invalid order", "%s is in the order of %s already, and a lock has one place. Name it in one of the two.", at, lock.orderedIn(n).Addr)
		default:
			all = append(all, lock)
		}
	}
	return all
}

// orderedIn is the namespace inside another one that has the lock in its order.
func (n *Node) orderedIn(outer *Node) *Node {
	in := n.Parent
	for in != outer && !slices.Contains(in.Order, n) {
		in = in.Parent
	}
	if in == outer {
		return nil
	}
	return in
}
