package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/plan"
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
	roots := []*os.Root{root}
	defer func() {
		for _, r := range roots {
			_ = r.Close() // nothing was written
		}
	}()
	return loadTree(root.FS(), dir, opts, func(sub string) (fs.FS, error) {
		// A module may stand beside the configuration, so its root is one of its own.
		r, err := os.OpenRoot(filepath.Join(dir, filepath.FromSlash(sub)))
		if err != nil {
			return nil, err
		}
		roots = append(roots, r)
		return r.FS(), nil
	})
}

// loadFS is load on any file system, which must hold every module; dir is what
// diagnostics call it.
func loadFS(fsys fs.FS, dir string, opts Options) (*Config, hcl.Diagnostics) {
	return loadTree(fsys, dir, opts, func(sub string) (fs.FS, error) {
		if !fs.ValidPath(sub) {
			return nil, fs.ErrNotExist
		}
		return fs.Sub(fsys, sub)
	})
}

func loadTree(fsys fs.FS, dir string, opts Options, open func(string) (fs.FS, error)) (*Config, hcl.Diagnostics) {
	files := &sources{fsys: fsys, dir: dir, files: map[string]*hcl.File{}, report: &report{}}
	m := newModule(files, opts)
	m.open = open
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
	if !m.prepare() {
		return
	}
	m.readInputs()
	m.run()
	m.finish(c)
}

// parsedFile is one file of a directory.
type parsedFile struct {
	body     hcl.Body
	override bool
}

// parseFiles parses a directory once, however often it is called. It answers nil
// when going on would only report what follows from what is wrong already.
func (m *module) parseFiles() []parsedFile {
	if files, ok := m.parsed[m.path]; ok {
		return files
	}
	m.parsed[m.path] = nil
	before := m.errors()
	primary, overrides := m.files.list()
	var files []parsedFile
	for i, name := range append(primary, overrides...) {
		if body := m.files.parse(name); body != nil {
			files = append(files, parsedFile{body, i >= len(primary)})
		}
	}
	for _, p := range files {
		if d := m.checkVersion(p.body); d != nil {
			if m.parent == nil {
				// What a newer version's language looks like to this program is beside
				// the point, so nothing else is said when the version is wrong.
				m.diags = nil
			}
			m.add(d)
			return nil
		}
	}
	if m.errors() == before {
		m.parsed[m.path] = files
	}
	return m.parsed[m.path]
}

// decodeFiles reads every file into one block, nil when there is none to read.
func (m *module) decodeFiles() *block {
	files := m.parseFiles()
	if len(files) == 0 {
		return nil
	}
	m.report.incomplete = false
	root := &block{typ: m.language, attrs: map[string]*attribute{}}
	for _, p := range files {
		b := decodeBody(p.body, m.language, m.report)
		if p.override {
			root.override(b, m.report)
		} else {
			root.blocks = append(root.blocks, b.blocks...)
		}
	}
	m.incomplete = m.report.incomplete
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
	m.checkIntents()
	if m.hasErrors() {
		return
	}
	c.Ensembles = m.trees(c.Stack)
	c.Outputs = m.encodeOutputs()
	slices.SortFunc(m.checks, func(a, b plan.Check) int { return strings.Compare(a.Addr, b.Addr) })
	c.Checks = m.checks
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
