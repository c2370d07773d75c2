package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/recipes/kind"
)

// decl is one declaration: a vertex of the dependency graph, evaluated once for each instance of its module.
type decl struct {
	addr   string // local.x, principal.x, namespace.payments.mutex.ledger
	number int    // in the order of declaration
	head   hcl.Range
	block  *syntax.Block       // nil for a local
	attrs  []*syntax.Attribute // every expression that is evaluated for it
	node   *nodeDecl           // set when it declares znodes
	// inside is what it waits for besides what its expressions refer to: the namespace and the ensemble it is in.
	inside []*decl
	child  *declarations // what a module block calls; nil when it could not be read, which has been reported
	// intent is set on moved, import and removed blocks.
	intent *intention
	// forEach is the argument of a block without a node; nodeDecl has its own.
	forEach *syntax.Attribute

	broken bool // it cannot have a value, and the reason has been reported
}

func (d *decl) isModule() bool { return d.block != nil && d.block.Type.Name == "module" }

// nodeDecl is a block that declares znodes: one, or one for each element of
// for_each, for each instance of the namespace it is in.
type nodeDecl struct {
	*decl
	kind     *kind.Kind
	label    string
	parent   *nodeDecl
	children []*nodeDecl
	order    []*nodeDecl // of those inside
}

func (n *nodeDecl) attr(name string) *syntax.Attribute { return n.block.Arg(name) }

// repeated reports whether each is defined for what is inside the node.
func (n *nodeDecl) repeated() bool {
	for ; n != nil; n = n.parent {
		if n.attr("for_each") != nil {
			return true
		}
	}
	return false
}

func (n *nodeDecl) top() *nodeDecl {
	for n.parent != nil {
		n = n.parent
	}
	return n
}

// collect turns the blocks of all files into declarations.
func (r *reading) collect(root *syntax.Block) {
	for _, b := range root.Blocks {
		switch name := b.Type.Name; {
		case name == "locktree":
			if r.settings == nil {
				r.settings = r.declare(&decl{addr: name, block: b, head: b.Head}, b.Arg("stack"))
			}
		case name == "variable":
			r.name("var", b)
		case name == "locals":
			for _, a := range b.Args {
				d := r.declare(&decl{addr: "local." + a.Name, head: a.NameRange}, a)
				r.unique("local", a.Name, d)
			}
		case name == "principal":
			r.name("principal", b, b.Args...).forEach = b.Arg("for_each")
		case name == "acl":
			r.name("acl", b, b.All()...).forEach = b.Arg("for_each")
		case name == "ensemble":
			r.name("ensemble", b, b.All()...)
		case name == "output":
			d := r.name("output", b, b.Args...)
			r.outputs = append(r.outputs, d)
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
	for _, n := range r.nodes {
		r.chooseEnsemble(n.decl, n.attr("ensemble") != nil)
	}
	for _, name := range r.names["module"] {
		d := r.named["module"][name]
		r.chooseEnsemble(d, d.block.Arg("ensemble") != nil)
	}
}

func (r *reading) declare(d *decl, attrs ...*syntax.Attribute) *decl {
	for _, a := range attrs {
		if a != nil {
			d.attrs = append(d.attrs, a)
		}
	}
	d.number = len(r.all)
	r.all = append(r.all, d)
	return d
}

// name declares a block that is found by its first label.
func (r *reading) name(root string, b *syntax.Block, attrs ...*syntax.Attribute) *decl {
	d := r.declare(&decl{addr: root + "." + b.Name(), block: b, head: b.Head}, attrs...)
	r.checkLabel(b, b.Name())
	r.unique(root, b.Name(), d)
	return d
}

func (r *reading) unique(root, name string, d *decl) {
	if r.named[root] == nil {
		r.named[root] = map[string]*decl{}
	}
	if first := r.named[root][name]; first != nil {
		r.duplicate(d, first) // references go on meaning the first one, and both are checked
		return
	}
	r.named[root][name] = d
	r.names[root] = append(r.names[root], name)
}

func (r *reading) duplicate(d, first *decl) {
	r.Errorf(d.head, "Duplicate declaration", "%s is already declared at %s. Rename one of the two, or delete it.", d.addr, r.Where(first.head))
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
func (r *reading) collectNode(b *syntax.Block, outer *nodeDecl) {
	r.checkLabel(b, b.Name())
	n := r.addNode(b, outer)
	if n == nil {
		return
	}
	for _, a := range b.All() {
		if a.Name != "order" && (a.Name != "ensemble" || outer == nil) { // the names in an order are no references
			n.attrs = append(n.attrs, a)
		}
	}
	if a := b.Arg("ensemble"); a != nil && outer != nil {
		r.Errorf(a.NameRange, "Ensemble inside a namespace",
			"Everything in a namespace belongs to its ensemble. Set ensemble on %s, or move this block out of it.", outer.top().addr)
	}
	for _, c := range b.Blocks {
		if c.Type.Kind != nil {
			r.collectNode(c, n)
		}
	}
	n.order = r.orderOf(n)
}

// addNode returns the new declaration, or nil when the address is taken.
func (r *reading) addNode(b *syntax.Block, parent *nodeDecl) *nodeDecl {
	n := &nodeDecl{kind: b.Type.Kind, label: b.Name(), parent: parent}
	d := &decl{addr: n.kind.Name + "." + n.label, head: b.Head, block: b, node: n}
	n.decl = d
	if parent != nil {
		d.addr = parent.addr + "." + d.addr
		d.inside = []*decl{parent.decl}
	}
	key := nodeKey{parent, n.kind.Name, n.label}
	if first := r.index[key]; first != nil {
		r.duplicate(d, first.decl)
		return nil
	}
	r.index[key] = n
	if parent != nil {
		parent.children = append(parent.children, n)
	} else {
		r.nodes = append(r.nodes, n)
	}
	r.declare(d)
	return n
}

// chooseEnsemble adds what a declaration at the top waits for because its paths
// start with the ensemble's root. In a module that is called, the caller has
// waited already.
func (r *reading) chooseEnsemble(d *decl, chosen bool) {
	names := r.names["ensemble"]
	switch {
	case chosen || r.outer != nil:
	case len(names) == 1:
		d.inside = append(d.inside, r.named["ensemble"][names[0]])
	case len(names) > 1 && d.node != nil:
		r.Errorf(d.head, "Which ensemble?", "There are several ensembles, so %s must name one: add ensemble = ensemble.%s%s",
			d.addr, names[0], fmt.Sprintf(" (or %s).", syntax.OrList(names[1:])))
		d.broken = true
	}
}
