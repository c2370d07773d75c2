package config

import (
	"cmp"
	"io/fs"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// Code is what programs can be compiled against: what a configuration says whatever values its variables get. A variable has its
// default here; one without a default has no value, nor has anything that depends on it. The same holds for the environment and
// for the root of an ensemble, which are other ones elsewhere.
type Code struct {
	Stack     string
	Ensembles []*CodeEnsemble // by name
	Outputs   []CodeOutput    // by name, without sensitive ones
	Moves     []plan.Move     // in the order of the configuration
	Sources   map[string]*hcl.File
}

// CodeEnsemble is what is declared on an ensemble.
type CodeEnsemble struct {
	Name   string
	Root   string // the default; "" if there is none
	Blocks []*Block
	// Nodes are the nodes whose keys are known, sorted by path. Paths begin at the root. A parameter that is not known has its
	// default, a required one the least value.
	Nodes []plan.Node
}

// Block is a block of a configuration that declares nodes, or a module that has such blocks.
type Block struct {
	Addr     plan.Addr  // without keys
	Kind     *kind.Kind // nil: a module, which is no node
	Label    string
	Repeated bool     // it has for_each
	Keys     []string // that are known, sorted; others are possible where a variable gives them
	Name     Name
	Fields   []kind.Field // the parameters that have the same value for all keys, whatever the variables
	Blocks   []*Block
}

// Name is how the name of a block's node is made: Before, the key if HasKey, and After. Listed names have no such rule:
// those of the known keys are in CodeEnsemble.Nodes.
type Name struct {
	Before, After  string
	HasKey, Listed bool
}

// CodeOutput is an output. Exactly one of the last three fields is set.
type CodeOutput struct {
	Name, Description string
	Value             cty.Value // wholly known
	Ensemble, Path    string    // it is the path of a node
	Unknown           string    // why there is no value: what it depends on
}

// LoadCode reads the configuration in dir without any values for its variables: those of opts are not used, and neither is
// what else [Load] reads them from.
func LoadCode(dir string, opts Options) (*Code, hcl.Diagnostics) {
	d, l := directories{dir: dir}, newLoading(dir, opts)
	defer d.close()
	return l.loadCode(d.open)
}

func (l *loading) loadCode(open func(string) (fs.FS, error)) (*Code, hcl.Diagnostics) {
	l.code = &Code{}
	l.code.Sources = l.load(open).Sources
	return l.code, l.Sorted()
}

// anyElement stands for the elements of a for_each that are not known.
var anyElement = element{value: cty.DynamicVal, any: true}

func hasUnknownKeys(v cty.Value) bool {
	return !v.IsKnown() || v.Type().IsSetType() && !v.IsWhollyKnown()
}

// isUnseen reports whether no program sees what is declared: who may use a lock, and what an apply does besides.
func isUnseen(d *static.Decl) bool {
	return d.Block != nil && slices.Contains([]string{"principal", "acl", "check", "import", "removed"}, d.Block.Type.Name)
}

// unknown reports whether an argument has no value here. Its errors have been reported.
func (s scope) unknown(a *syntax.Attribute) bool {
	if s.code == nil || a == nil || s.isBad(a) {
		return false
	}
	v, ok := s.value(a)
	return ok && !v.IsWhollyKnown()
}

// hide takes from what a reference to a node offers whatever is not known.
func (i *instance) hide(attrs map[string]cty.Value) {
	attrs["path"] = cty.UnknownVal(cty.String)
	if i.nameless {
		attrs["name"] = cty.UnknownVal(cty.String)
	}
	for _, name := range i.unknown {
		attrs[name] = cty.UnknownVal(attrs[name].Type())
	}
}

// codeEnsemble evaluates nothing of an ensemble but its root. Paths begin there.
func (s scope) codeEnsemble(e *Ensemble) {
	if !s.unknown(s.d.Block.Arg("root")) {
		s.evaluateRoot(e)
		e.defaultRoot = e.Root
	}
	e.Root = "/"
	if len(s.Names["ensemble"]) == 1 {
		s.home = e
	}
	s.r.value = cty.CapsuleVal(ensembleType, e)
}

// finishCode makes what a Code holds.
func (e *evaluation) finishCode(c *Config) {
	e.checkHomes()
	if a := e.Settings; a != nil && e.scope(a).unknown(a.Block.Arg("stack")) {
		e.Errorf(a.Block.Arg("stack").Expr.Range(), "Not known to programs", "The name of the stack depends on %s. Write it out, or give the variables defaults.", e.reasons(a.Block.Arg("stack")))
	}
	if e.Diags.HasErrors() || !e.explained() {
		return
	}
	e.code.Stack = c.Stack
	for _, name := range slices.Sorted(maps.Keys(e.Named["ensemble"])) {
		on := ensembleValue(e.of(e.Named["ensemble"][name]).value)
		b := blocks{on, c.Stack}
		e.code.Ensembles = append(e.code.Ensembles, &CodeEnsemble{Name: name, Root: on.defaultRoot,
			Blocks: b.of([]*evaluation{e}, false), Nodes: b.nodes(e.instances)})
	}
	for _, d := range e.Outputs {
		if o := e.codeOutput(d); o.Name != "" {
			e.code.Outputs = append(e.code.Outputs, o)
		}
	}
	slices.SortFunc(e.code.Outputs, func(a, b CodeOutput) int { return cmp.Compare(a.Name, b.Name) })
	for _, m := range e.moves {
		e.code.Moves = append(e.code.Moves, m.Move)
	}
}
