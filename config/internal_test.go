package config

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config/internal/eval"
	"github.com/locktree/locktree/config/internal/forms"
	"github.com/locktree/locktree/config/internal/functions"
	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/recipes/kind"
)

// LoadFS is [Load] on any file system, which must hold every module; dir is what
// diagnostics call it.
func LoadFS(fsys fs.FS, dir string, opts Options) (*Config, hcl.Diagnostics) {
	return load(dir, opts, within(fsys))
}

func within(fsys fs.FS) func(sub string) (fs.FS, error) {
	return func(sub string) (fs.FS, error) {
		if !fs.ValidPath(sub) {
			return nil, fs.ErrNotExist
		}
		return fs.Sub(fsys, sub)
	}
}

// Repeats is how many errors of one kind are shown for one place.
const Repeats = syntax.Repeats

// DigestID is what digest() makes.
var DigestID = functions.DigestID

// Expressions evaluates expressions as if each were in an argument at the top of a configuration.
type Expressions struct {
	*syntax.Report
	root *eval.Evaluation
	dirs syntax.Directories // open until it is closed: file() reads through them
}

// OpenExpressions loads the configuration in dir. Close the result in any case.
func OpenExpressions(dir string, opts Options) (*Expressions, error) {
	x := &Expressions{Report: &syntax.Report{Dir: dir}, dirs: syntax.Directories{Dir: dir}}
	_, err := x.dirs.Open(".")
	if err == nil {
		if x.root = evaluate(map[string]*hcl.File{}, x.Report, opts, x.dirs.Open); x.root != nil {
			(&Config{}).build(x.root)
		}
	}
	return x, err
}

// Close releases the directories.
func (x *Expressions) Close() { x.dirs.Close() }

// Wrong reports whether the configuration has errors.
func (x *Expressions) Wrong() bool { return x.Diags.HasErrors() }

// Value is the value of an expression, or false if there is an error.
func (x *Expressions) Value(src string) (cty.Value, bool) {
	expr, diags := hclsyntax.ParseExpression([]byte(src), "<expression>", hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilVal, false
	}
	a := &syntax.Attribute{Name: "the value", Expr: expr}
	d := &static.Decl{Addr: "expression", Head: expr.Range(), Attrs: []*syntax.Attribute{a}}
	if !x.root.Declared.Resolve(x.Report, d, a) { // the declarations are evaluated, so nothing waits
		return cty.NilVal, false
	}
	return x.root.Value(d, a)
}

// RolePerms are a role's permissions on a namespace and on a lock node.
func RolePerms(word string) (namespace, lock kind.Perm) {
	p, _ := forms.Role(word).Perms()
	return p.Namespace, p.Lock
}

// Functions are the names of the functions that an expression can call, sorted.
func Functions() []string { return slices.Sorted(maps.Keys(functions.Table(functions.Module{}, nil))) }

// Nothing is left out of a configuration without a message, even if a failure has given no reason.
func TestWhatFailsInSilenceIsAnError(t *testing.T) {
	for _, fail := range []func(e *eval.Evaluation){
		func(e *eval.Evaluation) { e.Of(e.Declared.Named["local"]["a"]).Failed = true },
		func(e *eval.Evaluation) { e.All.Instances[0].Failed = true },
	} {
		files := fstest.MapFS{"x.locktree.hcl": {Data: []byte("locktree { stack = \"s\" }\nensemble \"e\" {\nauth \"digest\" {\nusername = \"u\"\npassword = \"p\"\n}\n}\nlocals { a = 1 }\nmutex \"m\" {}\n")}}
		r, c := &syntax.Report{Dir: "."}, &Config{}
		e := evaluate(map[string]*hcl.File{}, r, Options{}, within(files))
		require.False(t, r.Diags.HasErrors())
		fail(e)
		c.build(e)
		require.Contains(t, fmt.Sprint(r.Sorted().Errs()), "no reason was given")
		require.Empty(t, c.Ensembles)
	}
}
