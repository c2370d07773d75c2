package config

import (
	"cmp"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// Load reads the configuration in dir. The diagnostics are sorted by file and line. When they contain an error, the Config
// has only Dir and Sources set, which is what a view needs to show them; it is never nil.
func Load(dir string, opts Options) (*Config, hcl.Diagnostics) {
	d, l := directories{dir: dir}, newLoading(dir, opts)
	defer d.close()
	return l.load(d.open), l.sorted()
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
	r.errorf(fileStart(dir), "Cannot read the directory", "%s Name a directory that holds *%s files.", plan.Sentence(plainError(err)), nativeSuffix)
}

func newLoading(dir string, opts Options) *loading {
	return &loading{report: &report{dir: dir}, opts: opts, owners: map[*hcl.Diagnostic]plan.Addr{}}
}

func (l *loading) load(open func(string) (fs.FS, error)) *Config {
	c := &Config{Dir: l.dir, Sources: map[string]*hcl.File{}}
	if fsys, err := open("."); err != nil {
		l.noDirectory(l.dir, err)
	} else if l.run(fsys, c, open); l.diags.HasErrors() {
		*c = Config{Dir: l.dir, Sources: c.Sources}
	}
	return c
}

// run goes through the phases: first everything is read, then everything is evaluated. Each one needs the results of the one before;
// within a phase everything is checked, whatever is wrong with the rest.
func (l *loading) run(fsys fs.FS, c *Config, open func(string) (fs.FS, error)) {
	reader := &reader{report: l.report, opts: l.opts, code: l.code, open: open, known: map[string]*declarations{}}
	files := &sources{fsys: fsys, dir: c.Dir, files: c.Sources, report: l.report}
	// What is refused for the number of its modules is not evaluated: those below the refused calls may be called any number of times.
	if all := reader.directory(files, ".", nil); all != nil && !reader.refused {
		l.root = newEvaluation(all, l, nil, "")
		if l.code == nil {
			l.root.readInputs()
		}
		if l.given != nil {
			l.given(l.root)
		}
		l.root.run()
		l.root.finish(c)
	}
}

// finish makes the trees and everything else a Config holds.
func (e *evaluation) finish(c *Config) {
	c.Stack = e.stack()
	if e.code != nil {
		e.finishCode(c)
		return
	}
	e.checkNodes()
	e.checkIntents()
	if e.diags.HasErrors() || !e.explained() {
		return
	}
	c.Ensembles = e.trees(c.Stack)
	c.Outputs = e.encodeOutputs()
	slices.SortFunc(e.checks, func(a, b plan.Check) int { return cmp.Compare(a.Addr, b.Addr) })
	c.Checks = e.checks
	if e.diags.HasErrors() {
		return
	}
	if len(c.Ensembles) > 0 { // outputs belong to the configuration as a whole: one record keeps them
		c.Ensembles[0].Tree.Intent.Outputs = c.Outputs
	}
}

const maxStack = 128

// stack returns the ownership id. It is the name of a znode.
func (e *evaluation) stack() string {
	if e.settings == nil {
		e.errorf(fileStart(slices.Min(slices.Collect(maps.Keys(e.files.files)))), "No stack", "A configuration must name its stack, so that no other configuration touches its nodes: add locktree { stack = \"NAME\" }.")
		return ""
	}
	a := e.settings.block.arg("stack")
	s := e.scope(e.settings)
	stack, ok := s.text(a)
	if !ok {
		return ""
	}
	err := kind.ValidateName(stack)
	switch {
	case err != nil:
		s.wrong(a, "Invalid stack", plan.Sentence(err.Error()))
	case len(stack) > maxStack:
		s.wrong(a, "Invalid stack", "A stack's name is written into every node: use at most 128 bytes.")
	}
	return stack
}

// The limits. A configuration is its operator's own code: these catch the file that was not meant and the loop that
// declares more than an ensemble can hold, early and with a place. They do not make a foreign configuration safe to
// evaluate (see SECURITY.md).
const (
	maxFileBytes = 16 << 20 // 100,000 locks written out one by one are about 6 MiB; also what file() reads, so 200,000 names
	maxFiles     = 1000
	maxNodes     = 200_000 // nodes and modules, after expansion of for_each
	maxCallDepth = 16
	// maxCalls bounds what modules cost that each call the next one twice, before anything is evaluated.
	maxCalls = 2000
)
