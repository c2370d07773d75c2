package eval

import (
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/locktree/locktree/config/internal/functions"
	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/recipes/kind"
)

// Options are what an evaluation takes from outside of the files.
type Options struct {
	Inputs  []Input // of the command line, in its order
	Environ []string
	// NoValues: variables without a default, the environment, and all that depends on these have no value. Access lists and
	// servers are not evaluated.
	NoValues bool
}

// Input gives variables their values: exactly one of Var and File is set. A Reader is read in place of the File.
type Input struct {
	Var    string
	File   string
	Reader io.Reader
}

// Load goes through the phases: first everything is read, then everything is evaluated. Each one needs the results of the one
// before; within a phase everything is checked, whatever is wrong with the rest. It returns nil when there is nothing to be
// evaluated.
func Load(sources map[string]*hcl.File, r *syntax.Report, version string, in Options, open func(string) (fs.FS, error)) *Evaluation {
	root, err := open(".")
	if err != nil {
		r.NoDirectory(r.Dir, err)
		return nil
	}
	all := static.Read(&syntax.Sources{FS: root, Dir: r.Dir, Files: sources, Report: r}, version, open)
	if all == nil {
		return nil
	}
	return evaluate(all, in)
}

// evaluate gives everything that is declared its value, and collects the nodes.
func evaluate(all *static.Declarations, opts Options) *Evaluation {
	in := &loading{opts: opts, functions: map[*static.Declarations]map[string]function.Function{}}
	in.root = newEvaluation(all, in, nil, "")
	if !opts.NoValues {
		in.root.readInputs()
	}
	in.root.run()
	return in.root
}

// loading is what all evaluations of one Load share, and what they have found.
type loading struct {
	opts      Options
	root      *Evaluation // of the configuration itself
	expanded  int         // nodes and modules so far
	Instances []*Instance // every node, parents first, in the order of the configuration
	Checks    []plan.Check
	intents
	// functions are those that the expressions of a directory can call.
	functions map[*static.Declarations]map[string]function.Function
}

// Evaluation is one instance of a module, or the configuration itself. It evaluates the declarations of one directory, and never
// changes them.
type Evaluation struct {
	Declared *static.Declarations
	*syntax.Report
	All    *loading     // what all evaluations share
	outer  *Evaluation  // the one with the module block that calls this module; nil: the configuration itself
	call   *static.Decl // that module block
	At     Element      // the element of the for_each of call
	Calls  map[*static.Decl][]*Evaluation
	Prefix string // of its addresses: "" or module.team["search"].
	inputs map[string]input
	unread bool      // a file of variable values could not be read, which has been reported
	home   *Ensemble // the ensemble of top-level nodes that name none

	results []Result // by the number of the declaration
	bad     map[*syntax.Attribute]bool
	Top     Siblings
}

// Result is the value of an evaluated declaration, or its failure.
type Result struct {
	Value  cty.Value
	Failed bool // there is no value, and the reason has been reported
}

// Siblings are the instances of blocks within one instance of the block around them.
type Siblings map[*static.Node][]*Instance

func newEvaluation(of *static.Declarations, in *loading, outer *Evaluation, prefix string) *Evaluation {
	e := &Evaluation{Declared: of, Report: of.Files.Report, All: in, outer: outer, Prefix: prefix, inputs: map[string]input{}, Calls: map[*static.Decl][]*Evaluation{},
		results: make([]Result, len(of.All)), bad: map[*syntax.Attribute]bool{}, Top: Siblings{}}
	if in.functions[of] == nil {
		in.functions[of] = functions.Table(functions.Module{FS: of.Files.FS, Dir: of.Files.Dir, Path: of.Path}, in.opts.Environ)
		if in.opts.NoValues {
			in.functions[of] = functions.WithoutValues(in.functions[of])
		}
	}
	for i, d := range of.All {
		// This placeholder has every type, in case code reads it before the evaluation.
		e.results[i] = Result{cty.DynamicVal, d.Broken}
	}
	return e
}

// The method Of returns the result of a declaration in this evaluation.
func (e *Evaluation) Of(d *static.Decl) *Result { return &e.results[d.Number] }

// isBad reports whether an argument is wrong, in whatever instance of its block. The error has already been reported.
func (e *Evaluation) isBad(a *syntax.Attribute) bool {
	return e.Declared.RefersTo(a).Unresolved || e.bad[a]
}

// run gives every declaration its value and collects the nodes. Variables come first, because a rule may refer to any of them.
func (e *Evaluation) run() {
	evaluateVariables(e)
	for _, d := range e.Declared.Steps {
		if evaluate := evaluatorOf(d); evaluate != nil && !(e.All.opts.NoValues && isUnseen(d)) {
			evaluate(e.scope(d))
		}
	}
	e.collectInstances(e.Declared.Nodes, e.Top)
}

// evaluatorOf is how a declaration gets its value; nil where there is nothing to evaluate, or where another step does it.
func evaluatorOf(d *static.Decl) func(scope) {
	switch {
	case d.Block == nil:
		return func(s scope) {
			if v, ok := s.value(s.d.Attrs[0]); ok {
				s.r.Value = v
			}
		}
	case d.Node != nil:
		return evaluateNode
	}
	switch d.Block.Type.Name {
	case "principal":
		return func(s scope) { forElements(s, evaluatePrincipal) }
	case "acl":
		return func(s scope) { forElements(s, evaluateACL) }
	case "ensemble":
		return evaluateEnsemble
	case "output":
		return evaluateOutput
	case "check":
		return evaluateCheck
	case "module":
		return evaluateCall
	case "moved":
		return evaluateMoved
	case "removed":
		return evaluateRemoved
	case "import":
		return evaluateImport
	}
	return nil
}

// collectInstances collects the instances of nodes and of those in them, parents first, in the order of the configuration.
func (e *Evaluation) collectInstances(nodes []*static.Node, at Siblings) {
	for _, n := range nodes {
		for _, i := range at[n] {
			i.Failed = e.Of(n.Decl).Failed
			e.All.Instances = append(e.All.Instances, i)
			i.orders()
			e.collectInstances(n.Children, i.Inside)
		}
	}
}

// instances returns all instances of a node inside the instances of outer, in the order of the configuration and of their keys.
func (s Siblings) instances(n, outer *static.Node) []*Instance {
	if n.Parent == outer {
		return s[n]
	}
	var out []*Instance
	for _, at := range s.instances(n.Parent, outer) {
		out = append(out, at.Inside[n]...)
	}
	return out
}

// Explained fails closed: it returns false, with an error, when something has no value and no reason was reported. A declaration
// that fails in silence is missing from all that refers to it, and a lock without its declared access list is open to others.
func (e *Evaluation) Explained() bool {
	sound := true
	silent := func(failed bool, at hcl.Range, addr any) {
		if failed && sound {
			sound = false
			e.Errorf(at, "No value",
				"%s could not be evaluated, and no reason was given. This is a bug in locktree: please report it.", addr)
		}
	}
	for _, d := range e.Declared.All {
		silent(e.Of(d).Failed, d.Head, d.Addr)
	}
	for _, i := range e.All.Instances {
		silent(i.Failed, i.Node.Head, i.Addr)
	}
	return sound
}

const maxStack = 128

// Stack returns the ownership id. It is the name of a znode.
func (e *Evaluation) Stack() string {
	if e.Declared.Settings == nil {
		e.Errorf(syntax.FileStart(slices.Min(slices.Collect(maps.Keys(e.Declared.Files.Files)))), "No stack", "A configuration must name its stack, so that no other configuration touches its nodes: add locktree { stack = \"NAME\" }.")
		return ""
	}
	a := e.Declared.Settings.Block.Arg("stack")
	s := e.scope(e.Declared.Settings)
	stack, ok := s.text(a)
	if !ok {
		if s.isUnknown(a) {
			e.Errorf(a.Expr.Range(), "Not known to programs", "The name of the stack depends on %s. Write it out, or give the variables defaults.", Reasons(e, a))
		}
		return ""
	}
	err := kind.ValidateName(stack)
	switch {
	case err != nil:
		s.reportWrong(a, "Invalid stack", explain.Sentence(err.Error()))
	case len(stack) > maxStack:
		s.reportWrong(a, "Invalid stack", "A stack's name is written into every node: use at most 128 bytes.")
	}
	return stack
}

// CheckHomes reports nodes without an ensemble.
func (e *Evaluation) CheckHomes() {
	homeless := e.Declared.Nodes
	if len(homeless) == 0 && len(e.All.Instances) > 0 {
		homeless = []*static.Node{e.All.Instances[0].Node}
	}
	if len(homeless) > 0 && len(e.Declared.Names["ensemble"]) == 0 && !e.Declared.Incomplete {
		e.Errorf(homeless[0].Head, "No ensemble", "No ensemble is declared for the nodes: add ensemble \"main\" { servers = [\"HOST:PORT\"] }.")
	}
}
