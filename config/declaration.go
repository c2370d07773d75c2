package config

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/locktree/locktree/recipes/kind"
)

// decl is one declaration: a vertex of the dependency graph, evaluated once for each instance of its module.
type decl struct {
	addr   string // local.x, principal.x, namespace.payments.mutex.ledger
	number int    // in the order of declaration
	head   hcl.Range
	block  *block       // nil for a local
	attrs  []*attribute // every expression that is evaluated for it
	node   *nodeDecl    // set when it declares znodes
	// inside is what it waits for besides what its expressions refer to: the namespace and the ensemble it is in.
	inside []*decl
	child  *declarations // what a module block calls; nil when it could not be read, which has been reported
	// intent is set on moved, import and removed blocks.
	intent *intention
	// forEach is the argument of a block without a node; nodeDecl has its own.
	forEach *attribute

	broken   bool        // it cannot have a value, and the reason has been reported
	evaluate func(scope) // nil: there is nothing to evaluate, or somebody else does
}

func (d *decl) isModule() bool { return d.block != nil && d.block.typ.name == "module" }

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

func (n *nodeDecl) attr(name string) *attribute { return n.block.arg(name) }

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
func (r *reading) collect(root *block) {
	for _, b := range root.blocks {
		switch name := b.typ.name; {
		case name == "locktree":
			if r.settings == nil {
				r.settings = r.declare(&decl{addr: name, block: b, head: b.head}, b.arg("stack"))
			}
		case name == "variable":
			r.name("var", b, nil)
		case name == "locals":
			for _, a := range b.args {
				d := r.declare(&decl{addr: "local." + a.name, head: a.nameRange, evaluate: scope.evaluateLocal}, a)
				r.unique("local", a.name, d)
			}
		case name == "principal":
			r.name("principal", b, scope.evaluatePrincipals, b.args...).forEach = b.arg("for_each")
		case name == "acl":
			r.name("acl", b, scope.evaluateACLs, b.all()...).forEach = b.arg("for_each")
		case name == "ensemble":
			r.name("ensemble", b, scope.evaluateEnsemble, b.all()...)
		case name == "output":
			d := r.name("output", b, scope.evaluateOutput, b.args...)
			r.outputs = append(r.outputs, d)
		case name == "moved":
			r.collectMoved(b)
		case name == "removed":
			r.collectRemoved(b)
		case name == "import":
			r.collectImport(b)
		case name == "check":
			r.name("check", b, scope.evaluateCheck, b.all()...)
		case name == "module":
			r.collectCall(b)
		case b.typ.kind != nil:
			r.collectNode(b, nil)
		}
	}
	// After the loop: only now it is known how many ensembles there are.
	for _, n := range r.nodes {
		r.chooseEnsemble(n.decl, n.attr("ensemble") != nil)
	}
	for _, name := range r.names["module"] {
		d := r.named["module"][name]
		r.chooseEnsemble(d, d.block.arg("ensemble") != nil)
	}
}

// all are the arguments of the block and of the blocks in it that declare nothing.
func (b *block) all() []*attribute {
	out := slices.Clone(b.args)
	for _, n := range b.blocks {
		if n.typ.kind == nil {
			out = append(out, n.all()...)
		}
	}
	return out
}

func (r *reading) declare(d *decl, attrs ...*attribute) *decl {
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
func (r *reading) name(root string, b *block, evaluate func(scope), attrs ...*attribute) *decl {
	d := r.declare(&decl{addr: root + "." + b.name(), block: b, head: b.head, evaluate: evaluate}, attrs...)
	r.checkLabel(b, b.name())
	r.unique(root, b.name(), d)
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
	r.errorf(d.head, "Duplicate declaration", "%s is already declared at %s. Rename one of the two, or delete it.", d.addr, r.where(first.head))
}

// checkLabel refuses labels that no reference could spell.
func (r *report) checkLabel(b *block, name string) {
	if !hclsyntax.ValidIdentifier(name) {
		next := ""
		if b.typ.kind != nil {
			next = " The znode may have another name: set name = ..."
		}
		r.errorf(b.labelAt(), "Invalid name", "No reference could name %q: a name consists of letters, digits, _ and -, and starts with a letter or _.%s", name, next)
	}
}

func (b *block) labelAt() hcl.Range {
	if len(b.labelRanges) > 0 {
		return b.labelRanges[0]
	}
	return b.head
}

// collectNode declares a node block and those inside it.
func (r *reading) collectNode(b *block, outer *nodeDecl) {
	r.checkLabel(b, b.name())
	n := r.addNode(b, outer)
	if n == nil {
		return
	}
	for _, a := range b.all() {
		if a.name != "order" && (a.name != "ensemble" || outer == nil) { // the names in an order are no references
			n.attrs = append(n.attrs, a)
		}
	}
	if a := b.arg("ensemble"); a != nil && outer != nil {
		r.errorf(a.nameRange, "Ensemble inside a namespace",
			"Everything in a namespace belongs to its ensemble. Set ensemble on %s, or move this block out of it.", outer.top().addr)
	}
	for _, c := range b.blocks {
		if c.typ.kind != nil {
			r.collectNode(c, n)
		}
	}
	n.order = r.orderOf(n)
}

// addNode returns the new declaration, or nil when the address is taken.
func (r *reading) addNode(b *block, parent *nodeDecl) *nodeDecl {
	n := &nodeDecl{kind: b.typ.kind, label: b.name(), parent: parent}
	d := &decl{addr: n.kind.Name + "." + n.label, head: b.head, block: b, node: n, evaluate: scope.evaluateNode}
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
		r.errorf(d.head, "Which ensemble?", "There are several ensembles, so %s must name one: add ensemble = ensemble.%s%s",
			d.addr, names[0], fmt.Sprintf(" (or %s).", orList(names[1:])))
		d.broken = true
	}
}
