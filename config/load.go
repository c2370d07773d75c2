package config

import (
	"io/fs"
	"os"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/recipes/kind"
)

func load(dir string, opts Options) (*Config, hcl.Diagnostics) {
	// A root refuses symbolic links that lead out of it, which no check of names can.
	root, err := os.OpenRoot(dir)
	if err != nil {
		r := &report{}
		r.errorf(fileStart(dir), "Cannot read the directory", "%s Name a directory that holds *%s files.", sentence(plainError(err)), nativeSuffix)
		return &Config{Dir: dir}, r.sorted()
	}
	defer root.Close()
	return loadFS(root.FS(), dir, opts)
}

// loadFS is load on any file system; dir is what diagnostics call it.
func loadFS(fsys fs.FS, dir string, opts Options) (*Config, hcl.Diagnostics) {
	files := &sources{fsys: fsys, dir: dir, files: map[string]*hcl.File{}, report: &report{}}
	m := newModule(files, opts)
	c := &Config{Dir: dir, Sources: files.files}
	if m.build(c); m.hasErrors() {
		*c = Config{Dir: dir, Sources: files.files}
	}
	m.secrets.redact(m.diags)
	return c, m.sorted()
}

// build runs the phases. Each one needs what the one before found; within a
// phase everything is looked at, whatever is wrong with the rest.
func (m *module) build(c *Config) {
	root := m.decodeFiles()
	if root == nil {
		return
	}
	m.collect(root)
	root.complete(m.report)
	m.functions = m.functionsOf()
	m.declareVariables()
	m.readInputs()
	for _, name := range m.names["var"] {
		m.evaluateVariable(m.named["var"][name])
	}
	m.validate()
	m.resolve()
	for _, d := range m.order() {
		if m.variables[d.name()] == nil || m.variables[d.name()].decl != d {
			d.evaluate(d)
		}
		d.scope = nil // most are needed once; 100,000 of them fill the memory
	}
	m.finish(c)
}

// decodeFiles reads every file into one block, or answers nil when going on
// would only report what follows from what is wrong already.
func (m *module) decodeFiles() *block {
	primary, overrides := m.files.list()
	type parsed struct {
		body     hcl.Body
		override bool
	}
	var bodies []parsed
	for i, name := range append(primary, overrides...) {
		if body := m.files.parse(name); body != nil {
			bodies = append(bodies, parsed{body, i >= len(primary)})
		}
	}
	// What a newer version's language looks like to this program is beside the
	// point, so nothing else is said when the version is wrong.
	for _, p := range bodies {
		if d := m.checkVersion(p.body); d != nil {
			m.report.diags = hcl.Diagnostics{d}
			return nil
		}
	}
	if m.hasErrors() || len(bodies) == 0 {
		return nil
	}
	root := &block{typ: language, attrs: map[string]*attribute{}}
	for _, p := range bodies {
		b := decodeBody(p.body, language, m.report)
		if p.override {
			root.override(b, m.report)
		} else {
			root.blocks = append(root.blocks, b.blocks...)
		}
	}
	return root
}

// name is the second word of the address.
func (d *decl) name() string {
	if d.block == nil {
		return ""
	}
	return d.block.name()
}

// finish makes the trees and everything else a Config holds.
func (m *module) finish(c *Config) {
	c.Stack = m.stack()
	m.checkNodes()
	if m.hasErrors() {
		return
	}
	c.Ensembles = m.trees(c.Stack)
	c.Outputs = m.encodeOutputs()
	if !m.hasErrors() {
		c.Hash = hash(c)
	}
}

const maxStack = 128

// stack returns the ownership id. It is the name of a znode.
func (m *module) stack() string {
	if m.settings == nil {
		first := ""
		for _, name := range sortedNames(m.files.files) {
			if first == "" {
				first = name
			}
		}
		m.errorf(fileStart(first), "No stack", "The configuration must say what its nodes belong to, so that no other one touches them: add locktree { stack = \"NAME\" }.")
		return ""
	}
	a := m.settings.block.attrs["stack"]
	s := m.scope(m.settings)
	stack, ok := s.text(a)
	if !ok {
		return ""
	}
	err := kind.ValidateName(stack)
	switch {
	case err != nil:
		s.wrong(a, "Invalid stack", sentence(err.Error()))
	case len(stack) > maxStack:
		s.wrong(a, "Invalid stack", "A stack's name is written into every node: use at most 128 bytes.")
	}
	return stack
}
