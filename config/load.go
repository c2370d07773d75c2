package config

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// Load reads the configuration in dir. The diagnostics are sorted by file and line. When they contain an error, the Config
// has only Dir and Sources set, which is what a view needs to show them; it is never nil.
func Load(dir string, opts Options) (*Config, hcl.Diagnostics) {
	d := directories{dir: dir}
	defer d.close()
	fsys, err := d.open(".")
	if err != nil {
		r := &report{}
		r.noDirectory(dir, err)
		return &Config{Dir: dir}, r.sorted()
	}
	return loadTree(fsys, dir, opts, d.open)
}

// directories are the ones of a configuration and its modules. Each is a root of its own, because a module may be beside
// the configuration: a root refuses symbolic links that lead out of it, which no check of names can.
type directories struct {
	dir   string
	roots []*os.Root
}

func (d *directories) open(sub string) (fs.FS, error) {
	root, err := os.OpenRoot(filepath.Join(d.dir, filepath.FromSlash(sub)))
	if err != nil {
		return nil, err
	}
	d.roots = append(d.roots, root)
	return root.FS(), nil
}

func (d *directories) close() {
	for _, r := range d.roots {
		_ = r.Close() // nothing was written
	}
}

func (r *report) noDirectory(dir string, err error) {
	r.errorf(fileStart(dir), "Cannot read the directory", "%s Name a directory that holds *%s files.", sentence(plainError(err)), nativeSuffix)
}

func loadTree(fsys fs.FS, dir string, opts Options, open func(string) (fs.FS, error)) (*Config, hcl.Diagnostics) {
	files := &sources{fsys: fsys, dir: dir, files: map[string]*hcl.File{}, report: &report{dir: dir}}
	m := newModule(files, opts)
	m.open = open
	c := &Config{Dir: dir, Sources: files.files}
	if m.build(c); m.diags.HasErrors() {
		*c = Config{Dir: dir, Sources: files.files}
	}
	return c, m.sorted()
}

// build runs the phases. Each one needs the results of the one before; within a phase everything is checked, whatever is
// wrong with the rest.
func (m *module) build(c *Config) {
	if !m.prepare() {
		return
	}
	m.readInputs()
	m.run()
	m.finish(c)
}

// decoded is what the files of a directory declare.
type decoded struct {
	root       *block // nil when the files do not parse, which has been reported
	incomplete bool
}

// declarations are those of the module's directory, for this block that calls it; nil when going on would only report
// consequences of the errors so far. What a module declares is decoded once, for all of its blocks; the configuration's own, of which
// there may be very much, is left to be collected.
func (m *module) declarations() *block {
	d, known := m.decoded[m.path]
	if !known {
		d = m.decodeFiles()
	}
	if m.incomplete = d.incomplete; m.parent == nil {
		return d.root
	}
	m.decoded[m.path] = d
	return d.root.clone()
}

// decodeFiles reads every file into one block.
func (m *module) decodeFiles() decoded {
	// Errors of the tables are reported only when there are no syntax errors: a block that did not parse is missing, and
	// references to it would be reported as unknown.
	decoding := &report{dir: m.report.dir}
	root := &block{typ: m.language, attrs: map[string]*attribute{}}
	before, empty := m.errors(), true
	var version *hcl.Diagnostic
	for _, name := range m.files.list() {
		body := m.files.parse(name)
		if body == nil {
			continue
		}
		empty = false
		if version == nil {
			version = m.checkVersion(body)
		}
		b := decodeBody(body, m.language, decoding)
		root.blocks = append(root.blocks, b.blocks...)
	}
	if version != nil && m.parent == nil {
		// What a newer version's language looks like to this program is beside the
		// point, so a wrong version is the only error. For a module it is one among others: m.diags holds those of all
		// modules.
		m.diags = nil
	}
	if version != nil {
		m.add(version)
	}
	if empty || version != nil || m.errors() > before {
		return decoded{}
	}
	m.add(decoding.diags...)
	return decoded{root, decoding.incomplete}
}

// finish makes the trees and everything else a Config holds.
func (m *module) finish(c *Config) {
	c.Stack = m.stack()
	m.checkNodes()
	m.checkIntents()
	if m.diags.HasErrors() || !m.explained() {
		return
	}
	c.Ensembles = m.trees(c.Stack)
	c.Outputs = m.encodeOutputs()
	slices.SortFunc(m.checks, func(a, b plan.Check) int { return cmp.Compare(a.Addr, b.Addr) })
	c.Checks = m.checks
	if m.diags.HasErrors() {
		return
	}
	if len(c.Ensembles) > 0 { // outputs belong to the configuration as a whole: one index keeps them
		c.Ensembles[0].Tree.Intent.Outputs = c.Outputs
	}
}

// explained fails closed: it returns false, with an error, when something has no value and no reason was reported. What
// fails in silence is missing from all that refers to it, and a lock without its declared access list is open to others.
func (m *module) explained() bool {
	silent := func(failed bool, at hcl.Range, addr any) bool {
		if failed {
			m.errorf(at, "No value",
				"%s could not be evaluated, and no reason was given. This is a bug in locktree: please report it.", addr)
		}
		return failed
	}
	return !slices.ContainsFunc(m.all, func(d *decl) bool { return silent(d.failed, d.head, d.addr) }) &&
		!slices.ContainsFunc(m.instances, func(i *instance) bool { return silent(i.failed, i.decl.head, i.addr) })
}

const maxStack = 128

// stack returns the ownership id. It is the name of a znode.
func (m *module) stack() string {
	if m.settings == nil {
		m.errorf(fileStart(slices.Min(slices.Collect(maps.Keys(m.files.files)))), "No stack", "A configuration must name its stack, so that no other configuration touches its nodes: add locktree { stack = \"NAME\" }.")
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

// checkVersion looks for required_version in a body and nothing else, so that it
// works on a file whose language this program does not know. The diagnostics of the
// two bodies are dropped for that reason: when the version fits, decodeBody finds the same
// errors.
func (m *module) checkVersion(body hcl.Body) *hcl.Diagnostic {
	content, _, _ := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "locktree"}}})
	for _, b := range content.Blocks {
		inner, _, _ := b.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "required_version"}}})
		if a := inner.Attributes["required_version"]; a != nil {
			if d := m.checkConstraint(a); d != nil {
				return d
			}
		}
	}
	return nil
}

func (m *module) checkConstraint(a *hcl.Attribute) *hcl.Diagnostic {
	text, ok := constantText(a.Expr)
	if !ok {
		return errorAt(a.Expr.Range(), "Invalid version constraint", `required_version must be a literal string, such as ">= 1.2.0", because it is read before anything else.`)
	}
	want, err := version.NewConstraint(text)
	if err != nil {
		return errorAt(a.Expr.Range(), "Invalid version constraint", fmt.Sprintf(`%q is not a version constraint: write it as ">= 1.2.0" or "~> 1.2".`, text))
	}
	have, err := version.NewVersion(m.opts.Version)
	if err != nil {
		return nil // a build without a version
	}
	// A pre-release of 1.2.0 speaks the language of 1.2.0.
	if want.Check(have.Core()) {
		return nil
	}
	return errorAt(a.Expr.Range(), "Unsupported locktree version", fmt.Sprintf(
		"This configuration requires locktree %s; this is %s. Install a version that fits, or change required_version.", want, have))
}

// The limits. A configuration is its operator's own code: these catch the file that was not meant and the loop that
// declares more than an ensemble can hold, early and with a place. They do not make a foreign configuration safe to
// evaluate (see SECURITY.md).
const (
	maxFileBytes = 16 << 20 // 100,000 locks written out one by one are about 6 MiB
	maxFiles     = 1000
	maxReadBytes = 1 << 20 // what file() reads; also a ZooKeeper packet
	maxNodes     = 200_000 // nodes, modules and dynamic blocks, after expansion of for_each
	maxCallDepth = 16
	// maxCalls bounds what modules cost that each call the next one twice, before anything is evaluated.
	maxCalls = 2000
)
