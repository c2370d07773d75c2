package generate

import (
	"cmp"
	"io/fs"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config/internal/eval"
	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// Code is what programs can be compiled against: what a configuration says when its variables have their defaults. A variable
// without a default has no value, and all that depends on it has no value. The environment and the root of an ensemble have no
// value either, because they differ from place to place.
type Code struct {
	Stack     string
	Ensembles []*Ensemble // by name
	Outputs   []Output    // by name, without sensitive ones
	Moves     []plan.Move // in the order of the configuration
	Sources   map[string]*hcl.File
}

// Ensemble is what is declared on an ensemble.
type Ensemble struct {
	Name   string
	Root   string // the default; "" if there is none
	Blocks []*Block
	// Nodes are the nodes whose keys are known, sorted by path. Paths begin at the root. A parameter that is not known has its
	// default, or 1 if it is a number and the lock would be invalid otherwise.
	Nodes []plan.Node
}

// Block is a block of a configuration that declares nodes, or a module that has such blocks.
type Block struct {
	Addr     plan.Addr  // without keys
	Kind     *kind.Kind // nil: a module, which is no node
	Label    string
	Repeated bool     // it has for_each
	Keys     []string // the known keys, sorted; a variable may give others
	Name     Name
	Fields   []kind.Field // the parameters that have the same value for all keys, whatever the variables
	Blocks   []*Block
}

// Name is how the name of a block's node is made: Before, the key if HasKey, and After. If Listed is set, no rule gives the
// names; those of the known keys are in Ensemble.Nodes.
type Name struct {
	Before, After  string
	HasKey, Listed bool
}

// Output is an output. It has a Value, or an Ensemble and a Path, or a reason in Unknown.
type Output struct {
	Name, Description string
	Value             cty.Value // wholly known
	Ensemble, Path    string    // the output is the path of a node
	Unknown           string    // why there is no value: what it depends on
}

// Load reads the configuration in dir without any values for its variables. version is of this program, for required_version.
func Load(dir, version string) (*Code, hcl.Diagnostics) {
	d := &syntax.Directories{Dir: dir}
	defer d.Close()
	return load(dir, version, d.Open)
}

func load(dir, version string, open func(string) (fs.FS, error)) (*Code, hcl.Diagnostics) {
	c, r := &Code{Sources: map[string]*hcl.File{}}, &syntax.Report{Dir: dir}
	if e := eval.Load(c.Sources, r, version, eval.Options{NoValues: true}, open); e != nil {
		c.build(e)
	}
	return c, r.Sorted()
}

// build makes what a Code holds.
func (c *Code) build(e *eval.Evaluation) {
	stack := e.Stack()
	e.CheckHomes()
	if e.Diags.HasErrors() || !e.Explained() {
		return
	}
	c.Stack = stack
	for _, name := range slices.Sorted(maps.Keys(e.Declared.Named["ensemble"])) {
		on := eval.EnsembleValue(e.Of(e.Declared.Named["ensemble"][name]).Value)
		b := blocks{on, c.Stack}
		c.Ensembles = append(c.Ensembles, &Ensemble{Name: name, Root: on.DefaultRoot,
			Blocks: b.declaredIn([]*eval.Evaluation{e}, false), Nodes: b.nodes(e.All.Instances)})
	}
	for _, d := range e.Declared.Outputs {
		if o := outputOf(e, d); o.Name != "" {
			c.Outputs = append(c.Outputs, o)
		}
	}
	slices.SortFunc(c.Outputs, func(a, b Output) int { return cmp.Compare(a.Name, b.Name) })
	for _, m := range e.All.Moves {
		c.Moves = append(c.Moves, m.Move)
	}
}

// outputOf is an output; without a name if it is sensitive or null.
func outputOf(e *eval.Evaluation, d *static.Decl) Output {
	v := e.Of(d).Value
	if v.ContainsMarked() || v.IsKnown() && v.IsNull() {
		return Output{}
	}
	o := Output{Name: d.Block.Name()}
	o.Description, _ = e.Text(d, d.Block.Arg("description"))
	if v.IsWhollyKnown() {
		o.Value = v
		return o
	}
	a := d.Block.Arg("value")
	if i := pathOf(e, a); i != nil {
		o.Ensemble, o.Path = i.Ensemble.Name, i.Path
		return o
	}
	o.Unknown = eval.Reasons(e, a)
	return o
}

// pathOf returns the node whose path an argument is, or nil if it is another value.
func pathOf(e *eval.Evaluation, a *syntax.Attribute) *eval.Instance {
	ref, ok := a.Expr.(*hclsyntax.ScopeTraversalExpr)
	if !ok || len(ref.Traversal) < 2 || static.StepNameOf(ref.Traversal[len(ref.Traversal)-1]) != "path" {
		return nil
	}
	node := &syntax.Attribute{Expr: &hclsyntax.ScopeTraversalExpr{Traversal: ref.Traversal[:len(ref.Traversal)-1]}}
	addr, ok := static.ParseAddress(&syntax.Report{}, node)
	if !ok { // an expression that is not an address is no error here
		return nil
	}
	for _, i := range e.All.Instances {
		if i.Addr == addr && i.Path != "" {
			return i
		}
	}
	return nil
}
