package config

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/config/internal/eval"
	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
)

// Load reads the configuration in dir. The diagnostics are sorted by file and line. When they contain an error, the Config
// has only Dir and Sources set, which is what a view needs to show them; it is never nil.
func Load(dir string, opts Options) (*Config, hcl.Diagnostics) {
	d := directories{dir: dir}
	defer d.close()
	return load(dir, opts, d.open)
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

func load(dir string, opts Options, open func(string) (fs.FS, error)) (*Config, hcl.Diagnostics) {
	c, r := &Config{Dir: dir, Sources: map[string]*hcl.File{}}, &syntax.Report{Dir: dir}
	if e := evaluate(c.Sources, r, opts, false, open); e != nil {
		c.build(e)
	}
	if r.Diags.HasErrors() {
		c = &Config{Dir: dir, Sources: c.Sources}
	}
	return c, r.Sorted()
}

// evaluate goes through the phases: first everything is read, then everything is evaluated. Each one needs the results of the one
// before; within a phase everything is checked, whatever is wrong with the rest. It returns nil when there is nothing to be evaluated.
func evaluate(sources map[string]*hcl.File, r *syntax.Report, opts Options, noValues bool, open func(string) (fs.FS, error)) *eval.Evaluation {
	root, err := open(".")
	if err != nil {
		r.NoDirectory(r.Dir, err)
		return nil
	}
	all := static.Read(&syntax.Sources{FS: root, Dir: r.Dir, Files: sources, Report: r}, opts.Version, open)
	if all == nil {
		return nil
	}
	in := eval.Options{Environ: opts.Environ, NoValues: noValues}
	for _, i := range opts.Inputs {
		in.Inputs = append(in.Inputs, eval.Input(i))
	}
	return eval.Evaluate(all, in)
}

// build makes the trees and everything else a Config holds.
func (c *Config) build(e *eval.Evaluation) {
	c.Stack = e.Stack()
	checkNodes(e)
	checkIntents(e)
	if e.Diags.HasErrors() || !e.Explained() {
		return
	}
	c.Ensembles = trees(e, c.Stack)
	c.Outputs = encodeOutputs(e)
	slices.SortFunc(e.Checks, func(a, b plan.Check) int { return cmp.Compare(a.Addr, b.Addr) })
	c.Checks = e.Checks
	if e.Diags.HasErrors() {
		return
	}
	if len(c.Ensembles) > 0 { // outputs belong to the configuration as a whole: one record keeps them
		c.Ensembles[0].Tree.Intent.Outputs = c.Outputs
	}
}
