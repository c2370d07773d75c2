package config

import (
	"io/fs"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/locktree/locktree/plan"
)

// session is what all modules of one Load share.
type session struct {
	opts      Options
	expanded  int         // nodes and modules so far
	calls     int         // module blocks so far
	instances []*instance // every node, parents first, in the order of the configuration
	checks    []plan.Check
	intents
	// open opens a directory by its path from the configuration's.
	open    func(dir string) (fs.FS, error)
	opened  map[string]fs.FS   // by directory, since one may be called often
	decoded map[string]decoded // by directory
}

// module is the declarations of one directory, for one module block. They are collected and resolved once, when the block
// is collected, so that what refers to its outputs can be checked. They are evaluated for each instance of the block.
type module struct {
	*report
	*session
	files    *sources
	language *blockType
	parent   *module // nil: the configuration itself
	path     string  // from the configuration's directory; "." for that itself
	settings *decl   // the locktree block
	root     *block  // what is declared, of a module that is called: it is evaluated more than once

	// named are the declarations a reference ROOT.NAME finds.
	named   map[string]map[string]*decl
	names   map[string][]string // the names by root, in order of declaration
	nodes   []*nodeDecl         // at the top
	outputs []*decl
	all     []*decl // in order of declaration
	steps   []*decl // in order of evaluation

	variables map[string]*variable
	inputs    map[string]input
	index     map[nodeKey]*nodeDecl
	functions map[string]function.Function
	// incomplete: blocks of unknown types were left out, so a name that is not
	// there may belong to an error that has been reported.
	incomplete bool

	prefix   string    // of its addresses: "" or module.team["search"].
	ensemble *Ensemble // of nodes at the top that name none
}

// count counts what a block expands to, and returns false when that is too much.
func (m *module) count(n int, d *decl) bool {
	if m.expanded += n; m.expanded > maxNodes {
		m.errorf(d.head, "Too many nodes", "The configuration expands to more than %d nodes, modules, imports and dynamic blocks. Split it into several stacks.", maxNodes)
		d.failed = true
	}
	return m.expanded <= maxNodes
}

// nodeKey finds a node block among its siblings without walking them: a
// namespace of 100,000 locks would take their square otherwise.
type nodeKey struct {
	parent      *nodeDecl
	kind, label string
}

// roots of references that find a declaration by its second word.
var namedRoots = []string{"var", "local", "principal", "acl", "ensemble", "module"}

func newModule(files *sources, opts Options) *module {
	return (&session{opts: opts, opened: map[string]fs.FS{}, decoded: map[string]decoded{}}).module(files, nil, ".")
}

func (s *session) module(files *sources, parent *module, path string) *module {
	m := &module{
		report: files.report, session: s, files: files, language: language, parent: parent, path: path,
		named: map[string]map[string]*decl{}, names: map[string][]string{}, index: map[nodeKey]*nodeDecl{},
		variables: map[string]*variable{}, inputs: map[string]input{},
	}
	if parent != nil {
		m.language = childLanguage
	}
	return m
}

// prepare reads the files and does everything that needs no values. It returns false when there is nothing that could be evaluated.
//
// collect prepares the modules that are called, down to the last one, so that resolve knows
// the outputs there are. complete reports only: collect has to cope with what is missing. order needs the
// references that resolve finds.
func (m *module) prepare() bool {
	root := m.declarations()
	if root == nil {
		return false
	}
	m.collect(root)
	root.complete(m.report)
	if m.functions == nil {
		m.functions = m.functionsOf()
	}
	m.declareVariables()
	m.resolve()
	m.steps = m.order()
	if m.parent != nil {
		m.root = root
		m.eachPart(func(d *decl) { d.doomed = d.failed }, func(a *attribute) { a.doomed = a.bad })
	}
	return true
}

func (m *module) eachPart(decls func(*decl), attrs func(*attribute)) {
	for _, d := range m.all {
		decls(d)
	}
	m.root.each(attrs)
}

// renew forgets what the evaluation of an instance found out.
func (m *module) renew() {
	m.eachPart(func(d *decl) {
		d.value, d.failed = cty.DynamicVal, d.doomed
		if d.node != nil {
			clear(d.node.instances)
		}
	}, func(a *attribute) { a.bad = a.doomed })
	for _, v := range m.variables {
		v.rejected = false
	}
}

// run evaluates the configuration itself, or an instance of a module, and collects its nodes.
func (m *module) run() {
	m.evaluate(m.steps)
	m.instancesOf(m.nodes, nil)
}

// instancesOf collects the instances of nodes and of those in them, parents first, in the order of the configuration.
func (m *module) instancesOf(nodes []*nodeDecl, at *instance) {
	for _, n := range nodes {
		for _, i := range n.instances[at] {
			i.failed = n.failed
			m.instances = append(m.instances, i)
			m.instancesOf(n.children, i)
		}
	}
}

// evaluate evaluates declarations in the given order, but variables first: a rule
// may refer to any of them.
func (m *module) evaluate(steps []*decl) {
	var variables []*variable
	for _, d := range steps {
		if m.isVariable(d) {
			m.evaluateVariable(d)
			variables = append(variables, m.variables[d.block.name()])
		}
	}
	m.validate(variables)
	for _, d := range steps {
		if !m.isVariable(d) {
			d.evaluate(d)
		}
		// Most are needed once, and 100,000 of them fill the memory. The next instance of a module needs its nodes again.
		d.scope = nil
		if d.node != nil && m.parent == nil {
			d.release()
		}
	}
}

// release drops the expressions of a node. What is asked about it later is whether it is repeated (references of the
// console, checks of intents).
func (d *decl) release() {
	d.attrs, d.evaluate = nil, nil
	if d.block == nil {
		return
	}
	var kept map[string]*attribute
	if a := d.block.attrs["for_each"]; a != nil {
		kept = map[string]*attribute{"for_each": a}
	}
	d.block.attrs, d.block.blocks = kept, nil
}
