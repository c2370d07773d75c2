package config

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/recipes/kind"
)

// decl is one declaration: a vertex of the dependency graph, evaluated once.
type decl struct {
	addr  string // local.x, principal.x, namespace.payments.mutex.ledger
	head  hcl.Range
	block *block       // nil for a local and an implied namespace
	attrs []*attribute // every expression that is evaluated for it
	node  *nodeDecl    // set when it declares znodes
	// inside is what it waits for besides what its expressions refer to: the namespace and the ensemble it is in.
	inside []*decl
	child  *module // what a module block calls; nil when it could not be read, which has been reported
	// intent is set on moved, import and removed blocks.
	intent *intention
	// forEach is the argument of a block without a node; nodeDecl has its own.
	forEach *attribute

	value    cty.Value
	failed   bool // its value is missing, and the reason has been reported
	doomed   bool // before the evaluation began, for every instance of the module
	evaluate func(*decl)

	scope *hcl.EvalContext // built on first use, see scope.go
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
	// ensembles are the ensemble arguments that apply, on nodes at the top.
	ensembles []*attribute
	// instances by the instance they are in; the key is nil at the top.
	instances map[*instance][]*instance
}

func (n *nodeDecl) attr(name string) *attribute {
	if n.block == nil {
		return nil
	}
	return n.block.attrs[name]
}

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
func (m *module) collect(root *block) {
	for _, b := range root.blocks {
		switch name := b.typ.name; {
		case name == "locktree":
			if m.settings == nil {
				m.settings = m.declare(&decl{addr: name, block: b, head: b.head, evaluate: func(*decl) {}}, b.attrs["stack"])
			}
		case name == "variable":
			m.name("var", b, m.evaluateVariable)
		case name == "locals":
			for _, a := range b.sorted() {
				d := m.declare(&decl{addr: "local." + a.name, head: a.nameRange, evaluate: m.evaluateLocal}, a)
				m.unique("local", a.name, d)
			}
		case name == "principal":
			m.name("principal", b, m.evaluatePrincipal, b.sorted()...)
		case name == "acl":
			m.name("acl", b, m.evaluateACL, b.all()...)
		case name == "ensemble":
			m.name("ensemble", b, m.evaluateEnsemble, b.all()...)
		case name == "output":
			d := m.name("output", b, m.evaluateOutput, b.sorted()...)
			m.outputs = append(m.outputs, d)
		case name == "moved":
			m.collectMoved(b)
		case name == "removed":
			m.collectRemoved(b)
		case name == "import":
			m.collectImport(b)
		case name == "check":
			m.name("check", b, m.evaluateCheck, b.all()...)
		case name == "module":
			m.collectCall(b)
		case b.typ.kind != nil:
			m.collectNode(b, nil)
		}
	}
	// After the loop: only now it is known how many ensembles there are, and whether a later block of the same label path
	// names one.
	for _, n := range m.nodes {
		m.chooseEnsemble(n.decl, len(n.ensembles) > 0)
	}
	for _, name := range m.names["module"] {
		d := m.named["module"][name]
		m.chooseEnsemble(d, d.block.attrs["ensemble"] != nil)
	}
}

// all are the arguments of the block and of the blocks in it that declare nothing.
func (b *block) all() []*attribute {
	out := b.sorted()
	for _, n := range b.blocks {
		if n.typ.kind == nil {
			out = append(out, n.all()...)
		}
	}
	return out
}

func (m *module) declare(d *decl, attrs ...*attribute) *decl {
	for _, a := range attrs {
		if a != nil {
			d.attrs = append(d.attrs, a)
		}
	}
	d.value = cty.DynamicVal // fits everywhere, should anybody look before the evaluation
	m.all = append(m.all, d)
	return d
}

// name declares a block that is found by its first label.
func (m *module) name(root string, b *block, evaluate func(*decl), attrs ...*attribute) *decl {
	d := m.declare(&decl{addr: root + "." + b.name(), block: b, head: b.head, evaluate: evaluate}, attrs...)
	m.checkLabel(b, b.name())
	m.unique(root, b.name(), d)
	return d
}

func (m *module) unique(root, name string, d *decl) {
	if m.named[root] == nil {
		m.named[root] = map[string]*decl{}
	}
	if first := m.named[root][name]; first != nil {
		m.duplicate(d, first) // references go on meaning the first one, and both are checked
		return
	}
	m.named[root][name] = d
	m.names[root] = append(m.names[root], name)
}

func (m *module) duplicate(d, first *decl) {
	m.errorf(d.head, "Duplicate declaration", "%s is already declared at %s. Rename one of the two, or delete it.", d.addr, m.where(first.head))
}

// checkLabel refuses labels, and parts of label paths, that no reference could spell.
func (m *module) checkLabel(b *block, name string) bool {
	ok := hclsyntax.ValidIdentifier(name)
	if !ok {
		next := ""
		if b.typ.kind != nil {
			next = " The znode may have another name: set name = ..."
		}
		m.errorf(b.labelAt(), "Invalid name", "No reference could name %q: a name consists of letters, digits, _ and -, and starts with a letter or _.%s", name, next)
	}
	return ok
}

func (b *block) labelAt() hcl.Range {
	if len(b.labelRanges) > 0 {
		return b.labelRanges[0]
	}
	return b.head
}

// maxLabelPath bounds how many namespaces one label can imply.
const maxLabelPath = 32

// collectNode declares a node block and those inside it. The label path of
// namespace "a/b" is short for namespace "b" inside namespace "a", and creates
// "a" unless that is declared as well.
func (m *module) collectNode(b *block, outer *nodeDecl) {
	label, parent := b.name(), outer
	if b.typ.kind.Container && strings.Contains(label, "/") {
		parts := strings.Split(label, "/")
		if len(parts) > maxLabelPath {
			m.errorf(b.labelAt(), "Invalid name", "The path has %d parts; at most %d are allowed in one label.", len(parts), maxLabelPath)
			return
		}
		for _, part := range parts[:len(parts)-1] {
			if !m.checkLabel(b, part) {
				return
			}
			outside := parent
			if parent = m.index[nodeKey{outside, kind.Namespace.Name, part}]; parent == nil {
				parent = m.addNode(kind.Namespace, part, outside, b.head)
			}
		}
		label = parts[len(parts)-1]
		if !m.checkLabel(b, label) {
			return
		}
	} else {
		m.checkLabel(b, label)
	}
	n := m.addNode(b.typ.kind, label, parent, b.head)
	if n == nil {
		return
	}
	n.block = b
	for _, a := range b.all() {
		if a.name != "ensemble" {
			n.attrs = append(n.attrs, a)
		}
	}
	m.takeEnsemble(n, outer)
	for _, c := range b.blocks {
		if c.typ.kind != nil {
			m.collectNode(c, n)
		}
	}
}

// takeEnsemble hands the ensemble argument of a block at the top of a file to the
// node at the top of the tree, which is an implied one for a label path.
func (m *module) takeEnsemble(n *nodeDecl, outer *nodeDecl) {
	a := n.attr("ensemble")
	if a == nil {
		return
	}
	if outer != nil {
		m.errorf(a.nameRange, "Ensemble inside a namespace",
			"Everything in a namespace belongs to its ensemble. Set ensemble on %s, or move this block out of it.", outer.top().addr)
		return
	}
	// Several blocks can have one top, such as namespace "a/b" and namespace "a/c": each of them may name the
	// ensemble, and ensembleOf refuses different ones. As an argument of the top it is resolved and waited for there.
	top := n.top()
	top.ensembles = append(top.ensembles, a)
	top.attrs = append(top.attrs, a)
}

// addNode returns the new declaration, the implied one that it makes explicit, or
// nil when the address is taken.
func (m *module) addNode(k *kind.Kind, label string, parent *nodeDecl, head hcl.Range) *nodeDecl {
	key := nodeKey{parent, k.Name, label}
	if n := m.index[key]; n != nil {
		if n.block == nil {
			n.head = head
			return n
		}
		m.duplicate(&decl{addr: n.addr, head: head}, n.decl)
		return nil
	}
	n := &nodeDecl{kind: k, label: label, parent: parent, instances: map[*instance][]*instance{}}
	d := &decl{addr: k.Name + "." + label, head: head, node: n, evaluate: m.evaluateNode}
	n.decl = d
	if parent != nil {
		d.addr = parent.addr + "." + d.addr
		d.inside = []*decl{parent.decl}
		parent.children = append(parent.children, n)
	} else {
		m.nodes = append(m.nodes, n)
	}
	m.index[key] = n
	m.declare(d)
	return n
}

// chooseEnsemble adds what a declaration at the top waits for because its paths
// start with the ensemble's root. In a module that is called, the caller has
// waited already.
func (m *module) chooseEnsemble(d *decl, chosen bool) {
	names := m.names["ensemble"]
	switch {
	case chosen || m.parent != nil:
	case len(names) == 1:
		d.inside = append(d.inside, m.named["ensemble"][names[0]])
	case len(names) > 1 && d.node != nil:
		m.errorf(d.head, "Which ensemble?", "There are several ensembles, so %s must name one: add ensemble = ensemble.%s%s",
			d.addr, names[0], fmt.Sprintf(" (or %s).", orList(names[1:])))
		d.failed = true
	}
}
