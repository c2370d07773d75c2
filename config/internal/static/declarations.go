package static

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// Declarations are what the files of a directory declare. They are read once, whatever the number of module blocks that call the
// directory, and never change then. An evaluation holds the results of each instance.
type Declarations struct {
	Files    *syntax.Sources
	Path     string // its path from the configuration's directory; "." is that directory
	Settings *Decl  // the locktree block

	// Named has the declarations that a reference ROOT.NAME finds.
	Named   map[string]map[string]*Decl
	Names   map[string][]string // the names by root, in order of declaration
	Nodes   []*Node             // at the top
	Outputs []*Decl
	All     []*Decl // in order of declaration
	Steps   []*Decl // in order of evaluation

	Variables map[string]*Variable
	index     map[nodeKey]*Node
	refs      map[*syntax.Attribute]*References // of the arguments that refer to anything
	// Incomplete: blocks of unknown types were left out. A name that is missing may be in such a block, which has been reported.
	Incomplete bool
	// calls counts the module blocks here and in the modules that they call; depth is the longest chain of calls.
	calls, depth int
}

// nodeKey is a map key for a node block among its siblings. A search would take quadratic time in a namespace of 100,000 locks.
type nodeKey struct {
	parent      *Node
	kind, label string
}

// namedRoots are the first words of references whose second word is the name of a declaration.
var namedRoots = []string{"var", "local", "principal", "acl", "ensemble", "module"}

const (
	maxCallDepth = 16
	// maxCalls bounds the cost of modules that each call the next one twice, before anything is evaluated.
	maxCalls = 2000
)

// reader reads the directories of one Load, each once.
type reader struct {
	version string // of this program
	// open opens a directory by its path from the configuration's.
	open    func(dir string) (fs.FS, error)
	known   map[string]*Declarations // by path; nil when a directory holds nothing that could be evaluated
	refused bool                     // an error about too many modules has been reported
}

// Read makes the declarations of a configuration and of the modules that it calls. openDir opens a directory by its path from the
// configuration's, and version is that of this program. It returns nil when there is nothing that could be evaluated.
func Read(files *syntax.Sources, version string, openDir func(dir string) (fs.FS, error)) *Declarations {
	r := &reader{version: version, open: openDir, known: map[string]*Declarations{}}
	all := r.directory(files, ".", nil)
	if r.refused { // a refused module may still call others without limit
		return nil
	}
	return all
}

// reading makes the declarations of one directory.
type reading struct {
	out *Declarations
	*syntax.Report
	load  *reader  // what the directories of one Load share
	outer *reading // reads the directory whose module block calls this one; nil for the configuration itself
}

// directory reads the files and does everything that needs no values. It returns nil when there is nothing that could be evaluated.
//
// The method collect reads the modules that are called, down to the last one, because the method resolve needs to know all
// outputs. Complete ([syntax.Block]) only reports problems: collect has to cope with missing arguments. The method order needs the
// references that resolve finds.
func (r *reader) directory(files *syntax.Sources, dir string, outer *reading) *Declarations {
	d := &reading{Report: files.Report, load: r, outer: outer, out: &Declarations{
		Files: files, Path: dir, Named: map[string]map[string]*Decl{}, Names: map[string][]string{},
		index: map[nodeKey]*Node{}, refs: map[*syntax.Attribute]*References{}, Variables: map[string]*Variable{},
	}}
	root := d.decodeFiles()
	if root == nil {
		return nil
	}
	d.collect(root)
	root.Complete(d.Report)
	d.declareVariables()
	resolve(d.out, d.Report)
	d.out.Steps = order(d.out, d.Report)
	return d.out
}

// calledDecls are the declarations of a directory that a module block calls, nil when there are none to be evaluated.
func (r *reading) calledDecls(dir string, at hcl.Expression) *Declarations {
	depth := 0
	// Directories are compared by their paths only. A module block may call the configuration's directory by another path, such as
	// "../NAME". The configuration is then read again under this path, with the same module block. When that block calls "../NAME"
	// again, the loop finds the path, and refuses the call.
	for up := r; up != nil; up = up.outer {
		if up.out.Path == dir {
			r.Errorf(at.Range(), "Module calls itself", "The module in %s would call itself: %s. Remove this block, or call another module.", dir, r.chain(dir))
			return nil
		}
		depth++
	}
	child, known := r.load.known[dir]
	if !known && depth <= maxCallDepth {
		fsys, err := r.load.open(dir)
		if err == nil {
			_, err = fs.Stat(fsys, ".")
		}
		if err != nil {
			r.Errorf(at.Range(), "Cannot read the module", "The directory %s cannot be read: %s.", dir, strings.TrimSuffix(syntax.PlainError(err), "."))
			return nil
		}
		child = r.load.directory(r.out.Files.In(fsys, dir), dir, r)
		r.load.known[dir] = child
	}
	r.out.calls++
	if child != nil {
		r.out.calls += child.calls
		r.out.depth = max(r.out.depth, child.depth+1)
		depth += child.depth
	}
	// Each bound alone is too weak: 16 levels that each call the next one twice are 65,536 calls, and 2,000 calls could be 2,000
	// levels.
	if depth > maxCallDepth || r.out.calls > maxCalls {
		if !r.load.refused {
			r.Errorf(at.Range(), "Too many modules", "Modules may call each other at most %d levels deep, by at most %d module blocks in all.", maxCallDepth, maxCalls)
		}
		r.load.refused = true
		return nil
	}
	return child
}

// chain is how this module came to be called, from the given directory on.
func (r *reading) chain(from string) string {
	text := r.out.Path
	for at := r; at.out.Path != from && at.outer != nil; at = at.outer {
		text = at.outer.out.Path + " calls " + text
		if at.outer.out.Path == from {
			break
		}
	}
	return text + " calls " + from
}

// decodeFiles reads every file into one block; nil when going on would only report consequences of the errors so far.
func (r *reading) decodeFiles() *syntax.Block {
	// Errors of the tables are reported only when there are no syntax errors: a block that did not parse is missing, and
	// references to it would be reported as unknown.
	decoding := &syntax.Report{Dir: r.Dir}
	root := &syntax.Block{Type: syntax.Language}
	if r.outer != nil {
		root.Type = syntax.ChildLanguage
	}
	before, empty := r.Errors(), true
	var version *hcl.Diagnostic
	for _, name := range r.out.Files.List() {
		body := r.out.Files.Parse(name)
		if body == nil {
			continue
		}
		empty = false
		if version == nil {
			version = r.checkVersion(body)
		}
		root.Blocks = append(root.Blocks, syntax.Decode(body, root.Type, decoding).Blocks...)
	}
	if version != nil && r.outer == nil {
		// A newer version may have another language, so a wrong version is the only error. In a module it is added to the other
		// errors, because the report has the errors of all modules.
		r.Diags = nil
	}
	if version != nil {
		r.Add(version)
	}
	if empty || version != nil || r.Errors() > before {
		return nil
	}
	r.Add(decoding.Diags...)
	r.out.Incomplete = decoding.Incomplete
	return root
}

// checkVersion looks for required_version alone, so that it works on a file whose language this program does not know. It drops
// the diagnostics of the file and of its locktree block: when the version fits, syntax.Decode finds the same errors.
func (r *reading) checkVersion(body hcl.Body) *hcl.Diagnostic {
	content, _, _ := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "locktree"}}})
	for _, b := range content.Blocks {
		inner, _, _ := b.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "required_version"}}})
		if a := inner.Attributes["required_version"]; a != nil {
			if d := r.checkConstraint(a); d != nil {
				return d
			}
		}
	}
	return nil
}

func (r *reading) checkConstraint(a *hcl.Attribute) *hcl.Diagnostic {
	text, ok := constantText(a.Expr)
	if !ok {
		return syntax.ErrorAt(a.Expr.Range(), "Invalid version constraint", `required_version must be a literal string, such as ">= 1.2.0", because it is read before anything else.`)
	}
	want, err := version.NewConstraint(text)
	if err != nil {
		return syntax.ErrorAt(a.Expr.Range(), "Invalid version constraint", fmt.Sprintf(`%q is not a version constraint: write it as ">= 1.2.0" or "~> 1.2".`, text))
	}
	have, err := version.NewVersion(r.load.version)
	if err != nil {
		return nil // a build without a version
	}
	// A pre-release of 1.2.0 speaks the language of 1.2.0.
	if want.Check(have.Core()) {
		return nil
	}
	return syntax.ErrorAt(a.Expr.Range(), "Unsupported locktree version", fmt.Sprintf(
		"This configuration requires locktree %s; this is %s. Install a version that fits, or change required_version.", want, have))
}

// Decl is one declaration: a vertex of the dependency graph, evaluated once for each instance of its module.
type Decl struct {
	Addr   string // local.x, principal.x, namespace.payments.mutex.ledger
	Number int    // in the order of declaration
	Head   hcl.Range
	Block  *syntax.Block       // nil for a local
	Attrs  []*syntax.Attribute // every expression that is evaluated for it
	Node   *Node               // set when it declares znodes
	// inside are the namespace and the ensemble that it is in: it waits for them too, not only for references of its expressions.
	inside []*Decl
	Child  *Declarations // what a module block calls; nil when it could not be read, which has been reported
	// Intent is set on moved, import and removed blocks.
	Intent *Intention
	// ForEach is the argument of a block that declares no node; that of a [Node] is Attr("for_each").
	ForEach *syntax.Attribute

	Broken bool // it cannot have a value, and the reason has been reported
}

// IsModule reports whether the declaration is a module block.
func (d *Decl) IsModule() bool { return d.Block != nil && d.Block.Type.Name == "module" }

// Node is a block that declares znodes: one, or one for each element of
// for_each, for each instance of the namespace it is in.
type Node struct {
	*Decl
	Kind     *kind.Kind
	Label    string
	Parent   *Node
	Children []*Node
	Order    []*Node // the declared order of the locks inside the namespace
}

// Attr is an argument of the block; nil where it has none.
func (n *Node) Attr(name string) *syntax.Attribute { return n.Block.Arg(name) }

// isRepeated reports whether expressions inside the node may use each.key and each.value.
func (n *Node) isRepeated() bool {
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
			if r.out.Settings == nil {
				r.out.Settings = r.declare(&Decl{Addr: name, Block: b, Head: b.Head}, b.Arg("stack"))
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
			r.out.Outputs = append(r.out.Outputs, d)
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
	// This comes after the loop, because only now the number of ensembles is known.
	for _, n := range r.out.Nodes {
		r.chooseEnsemble(n.Decl, n.Attr("ensemble") != nil)
	}
	for _, name := range r.out.Names["module"] {
		d := r.out.Named["module"][name]
		r.chooseEnsemble(d, d.Block.Arg("ensemble") != nil)
	}
}

func (r *reading) declare(d *Decl, attrs ...*syntax.Attribute) *Decl {
	for _, a := range attrs {
		if a != nil {
			d.Attrs = append(d.Attrs, a)
		}
	}
	d.Number = len(r.out.All)
	r.out.All = append(r.out.All, d)
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
	if r.out.Named[root] == nil {
		r.out.Named[root] = map[string]*Decl{}
	}
	if first := r.out.Named[root][name]; first != nil {
		r.duplicate(d, first) // references go on meaning the first one, and both are checked
		return
	}
	r.out.Named[root][name] = d
	r.out.Names[root] = append(r.out.Names[root], name)
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
	if first := r.out.index[key]; first != nil {
		r.duplicate(d, first.Decl)
		return nil
	}
	r.out.index[key] = n
	if parent != nil {
		parent.Children = append(parent.Children, n)
	} else {
		r.out.Nodes = append(r.out.Nodes, n)
	}
	r.declare(d)
	return n
}

// A top-level node's paths start with the root of its ensemble, so chooseEnsemble makes the node wait for the ensemble block. In
// a module that is called, the caller has waited already.
func (r *reading) chooseEnsemble(d *Decl, chosen bool) {
	names := r.out.Names["ensemble"]
	switch {
	case chosen || r.outer != nil:
	case len(names) == 1:
		d.inside = append(d.inside, r.out.Named["ensemble"][names[0]])
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

// orderOf reads the order of a namespace: the addresses of locks inside, as seen from there. An address without a key stands for
// all instances of its block.
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
		if e, ok := nativeForm(expr).(*hclsyntax.ScopeTraversalExpr); ok {
			steps = e.Traversal
		}
		var at plan.Addr
		lock := n
		for ; lock != nil && len(steps) >= 2; steps = steps[2:] {
			typ, label := StepNameOf(steps[0]), StepNameOf(steps[1])
			at = at.Child(typ, label)
			lock = r.out.index[nodeKey{lock, typ, label}]
		}
		switch {
		case lock == nil:
			r.Errorf(expr.Range(), "Invalid order", "There is no %s in %s. Write each address in an order as seen from that namespace, such as mutex.a.", at, n.Addr)
		case at == "" || len(steps) > 0:
			r.Errorf(expr.Range(), "Invalid order", "Each part of an order is the address of a lock inside %s, without keys, such as mutex.a.", n.Addr)
		case lock.Kind.Container:
			r.Errorf(expr.Range(), "Invalid order", "%s is a namespace, and only locks are taken. Name the locks in it.", at)
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

// orderedIn is the nearest namespace around n, inside outer, whose order names n. It is nil if there is none.
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
