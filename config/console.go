package config

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// consoleFile is what diagnostics call the expression that is evaluated.
const consoleFile = "<console>"

// Console evaluates expressions against a configuration, as if each stood in an
// argument at the top of it. It contacts no server and changes nothing. It is
// not safe for use by several goroutines.
type Console struct {
	m     *module
	roots []*os.Root // open as long as the console is: file() reads through them
}

// OpenConsole loads the configuration in dir. When the diagnostics contain an
// error the console only answers Sources. Close it in any case.
func OpenConsole(dir string, opts Options) (*Console, hcl.Diagnostics) {
	r := &report{}
	c := &Console{m: newModule(&sources{dir: dir, files: map[string]*hcl.File{}, report: r}, opts)}
	root, err := c.open(dir)
	if err != nil {
		r.errorf(fileStart(dir), "Cannot read the directory", "%s Name a directory that holds *%s files.", sentence(plainError(err)), nativeSuffix)
		return c, r.sorted()
	}
	c.m.files.fsys = root
	c.m.open = func(sub string) (fs.FS, error) { return c.open(filepath.Join(dir, filepath.FromSlash(sub))) }
	c.m.build(&Config{Dir: dir})
	return c, c.m.sorted()
}

func (c *Console) open(dir string) (fs.FS, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	c.roots = append(c.roots, root)
	return root.FS(), nil
}

// Close releases the directories.
func (c *Console) Close() {
	for _, r := range c.roots {
		_ = r.Close() // nothing was written
	}
}

// Sources are the files, and the last expression, by the name diagnostics use.
func (c *Console) Sources() map[string]*hcl.File { return c.m.files.files }

// Eval evaluates one expression and returns its value in the notation of the
// language, over several lines where it has parts. What is sensitive is written
// as "(sensitive value)".
func (c *Console) Eval(src string) (string, hcl.Diagnostics) {
	m := c.m
	*m.report = report{short: m.short}
	m.files.files[consoleFile] = &hcl.File{Bytes: []byte(src)}
	v, ok := c.value(src)
	if !ok {
		return "", m.sorted()
	}
	return valueText(v), m.sorted()
}

func (c *Console) value(src string) (cty.Value, bool) {
	m := c.m
	expr, diags := hclsyntax.ParseExpression([]byte(src), consoleFile, hcl.InitialPos)
	m.add(causes(diags)...)
	if diags.HasErrors() {
		return cty.NilVal, false
	}
	a := &attribute{name: "the value", expr: expr, rng: expr.Range()}
	d := &decl{addr: "console", head: a.rng, attrs: []*attribute{a}}
	// As resolve does for arguments; the declarations are evaluated, so that there is nothing to wait for.
	good := true
	for _, t := range expr.Variables() {
		r := resolver{m, d, a}
		good = r.traversal(t) && good
	}
	if !good {
		return cty.NilVal, false
	}
	return m.scope(d).value(a)
}
