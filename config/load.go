package config

import (
	"cmp"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/locktree/locktree/config/internal/eval"
	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/recipes/kind"
)

// Load reads the configuration in dir. The diagnostics are sorted by file and line. If they contain an error, the Config has only
// Dir and Sources, which a view needs to show them. It is never nil.
func Load(dir string, opts Options) (*Config, hcl.Diagnostics) {
	d := &syntax.Directories{Dir: dir}
	defer d.Close()
	return load(dir, opts, d.Open)
}

func load(dir string, opts Options, open func(string) (fs.FS, error)) (*Config, hcl.Diagnostics) {
	c, r := &Config{Dir: dir, Sources: map[string]*hcl.File{}}, &syntax.Report{Dir: dir}
	if e := evaluate(c.Sources, r, opts, open); e != nil {
		c.build(e)
	}
	if r.Diags.HasErrors() {
		c = &Config{Dir: dir, Sources: c.Sources}
	}
	return c, r.Sorted()
}

func evaluate(sources map[string]*hcl.File, r *syntax.Report, opts Options, open func(string) (fs.FS, error)) *eval.Evaluation {
	in := eval.Options{Environ: opts.Environ}
	for _, i := range opts.Inputs {
		in.Inputs = append(in.Inputs, eval.Input(i))
	}
	return eval.Load(sources, r, opts.Version, in, open)
}

// build makes the trees and the other contents of a Config.
func (c *Config) build(e *eval.Evaluation) {
	c.Stack = e.Stack()
	checkNodes(e)
	if len(e.All.Moves)+len(e.All.Imports)+len(e.All.Removals) > 0 {
		checkIntents(e)
	}
	if e.Diags.HasErrors() || !e.Explained() {
		return
	}
	c.Ensembles = trees(e, c.Stack)
	c.Outputs = encodeOutputs(e)
	slices.SortFunc(e.All.Checks, func(a, b plan.Check) int { return cmp.Compare(a.Addr, b.Addr) })
	c.Checks = e.All.Checks
	if e.Diags.HasErrors() {
		return
	}
	if len(c.Ensembles) > 0 { // outputs belong to the configuration as a whole: one record keeps them
		c.Ensembles[0].Tree.Intent.Outputs = c.Outputs
	}
}

// spot is the place of a znode.
type spot struct {
	on   *eval.Ensemble
	path string
}

// checkNodes checks the rules between nodes: no two declare one znode, each has an ensemble, and each has an access list, of its
// own, of a namespace around it or of the ensemble.
func checkNodes(e *eval.Evaluation) {
	first := map[spot]*eval.Instance{}
	bare := map[*eval.Ensemble]*eval.Instance{}
	for _, i := range e.All.Instances {
		if i.Path != "" && i.Ensemble != nil {
			w := spot{i.Ensemble, i.Path}
			if other := first[w]; other != nil {
				duplicatePath(e, other, i)
			} else {
				first[w] = i
			}
		}
		if i.Ensemble != nil && i.Policy == nil && !i.Failed && bare[i.Ensemble] == nil {
			bare[i.Ensemble] = i
		}
	}
	e.CheckHomes()
	for _, name := range e.Declared.Names["ensemble"] {
		d := e.Declared.Named["ensemble"][name]
		on := eval.EnsembleValue(e.Of(d).Value)
		if i := bare[on]; i != nil && len(ownACL(on)) == 0 && on.Access == nil && !e.Of(d).Failed {
			e.Errorf(i.Node.Head, "Node without an access list",
				"%s has no access list and inherits none from a namespace, and ensemble.%s has neither admins nor an auth block whose identity could get all rights. "+
					"Declare admins there, set acl = acl.NAME on its namespace, or declare one that lets everybody in with allow_world = true.", i.Addr, name)
		}
	}
}

func duplicatePath(e *eval.Evaluation, first, second *eval.Instance) {
	at := second.Node.Head
	if second.Addr.Block() == first.Addr.Block() {
		e.Errorf(at, "Duplicate path", "%s and %s would both be the znode %s. Use each.key in name.", first.Addr, second.Addr, second.Path)
	} else {
		e.Errorf(at, "Duplicate path", "%s would be the znode %s, which is already %s at %s. Set name = ... on one of them.",
			second.Addr, second.Path, first.Addr, e.Where(first.Node.Head))
	}
}

// trees returns the ensembles with their declarations.
func trees(e *eval.Evaluation, stack string) []*Ensemble {
	var blocks []*eval.Ensemble
	var out []*Ensemble
	drafts := map[*eval.Ensemble]*plan.Draft{}
	for _, name := range slices.Sorted(maps.Keys(e.Declared.Named["ensemble"])) {
		on := eval.EnsembleValue(e.Of(e.Declared.Named["ensemble"][name]).Value)
		drafts[on] = plan.NewTree(stack, on.Root)
		drafts[on].Tree.Ensemble = name
		made := ensembleOf(on)
		made.Tree = drafts[on].Tree
		blocks, out = append(blocks, on), append(out, made)
	}
	checkRoots(e, blocks)
	own := map[*eval.Ensemble]kind.List{}
	for _, on := range blocks {
		own[on] = ownACL(on) // once and not for each node, because ownACL hashes passwords
	}
	// Add the nodes in the order of the tree, so that each one goes to the end of the list.
	byPath := slices.SortedFunc(slices.Values(e.All.Instances), func(a, b *eval.Instance) int { return strings.Compare(a.Path, b.Path) })
	origins := map[*static.Node]string{} // one text for all instances of a block
	for _, i := range byPath {
		if origins[i.Node] == "" {
			origins[i.Node] = e.Where(i.Node.Head)
		}
		if _, err := drafts[i.Ensemble].Add(i.Addr, i.Params, i.PlanNode(origins[i.Node], own[i.Ensemble])); err != nil {
			e.Errorf(i.Node.Head, "No node", "%s This is a bug in locktree: please report it.", explain.Sentence(err.Error()))
		}
	}
	if len(e.All.Moves)+len(e.All.Imports)+len(e.All.Removals) > 0 {
		have := declaredBy(e)
		for i, on := range blocks {
			out[i].Tree.Intent = intentOf(e, on, have)
		}
	}
	nodeless := map[plan.Addr]bool{}
	for _, m := range e.All.ModuleAddrs {
		nodeless[m.Instance] = false
	}
	for _, block := range e.All.Barren {
		nodeless[block] = true
	}
	for i, on := range blocks {
		tree := out[i].Tree
		tree.Intent.Nodeless = nodeless
		tree.Intent.Access, tree.EnsembleID = on.Access, on.ID
		for _, other := range out {
			if other.Tree != tree {
				tree.Intent.Elsewhere = append(tree.Intent.Elsewhere, other.Tree)
			}
		}
	}
	return out
}

// checkRoots refuses two ensembles if one would take the other's nodes for its own: both have the mark of the stack.
func checkRoots(e *eval.Evaluation, all []*eval.Ensemble) {
	for i, on := range all {
		for _, other := range all[:i] {
			shared := slices.IndexFunc(on.Servers, func(s string) bool { return slices.Contains(other.Servers, s) })
			if shared >= 0 && (kind.Below(on.Root, other.Root) || kind.Below(other.Root, on.Root)) {
				e.Errorf(on.DeclRange, "Ensembles overlap", "ensemble %q keeps its nodes below %s and ensemble %q below %s, both on %s, so each would remove what is declared for the other. "+
					"Give them roots that are not inside each other, or declare everything for one of them.", on.Name, on.Root, other.Name, other.Root, on.Servers[shared])
				break
			}
		}
	}
}

// encodeOutputs returns the outputs in the form that a plan stores.
func encodeOutputs(e *eval.Evaluation) []plan.Output {
	out := make([]plan.Output, 0, len(e.Declared.Outputs))
	for _, d := range e.Declared.Outputs {
		v := e.Of(d).Value
		o := plan.Output{Name: d.Block.Name(), Sensitive: v.IsMarked(), From: nodesOf(e.Declared, d)}
		if !o.Sensitive {
			var err error
			if o.Type, err = ctyjson.MarshalType(v.Type()); err == nil {
				o.Value, err = ctyjson.Marshal(v, v.Type())
			}
			if err != nil {
				e.Errorf(d.Head, "Wrong type", "The value of output %q cannot be written as JSON: %s.", d.Block.Name(), err)
				continue
			}
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b plan.Output) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// nodesOf are the blocks of nodes that an output comes from, the addresses sorted. The references of those blocks are not
// followed. A module is one vertex: an output that uses a module comes from all nodes in it and from all of its arguments.
func nodesOf(in *static.Declarations, output *static.Decl) []plan.Addr {
	type at struct {
		d      *static.Decl
		prefix string // address of the module block around, and a dot: several such blocks may call one directory
	}
	found, seen := map[plan.Addr]bool{}, map[at]bool{}
	var visit func(in *static.Declarations, d *static.Decl, prefix string)
	visit = func(in *static.Declarations, d *static.Decl, prefix string) {
		switch {
		case seen[at{d, prefix}]:
			return
		case d.Node != nil:
			found[plan.Addr(prefix+d.Addr)] = true
			return
		case d.Child != nil:
			for _, inner := range d.Child.All {
				if inner.Node != nil || inner.IsModule() {
					visit(d.Child, inner, prefix+d.Addr+".")
				}
			}
		}
		seen[at{d, prefix}] = true
		for _, e := range in.Edges(d) {
			visit(in, e.To, prefix)
		}
	}
	visit(in, output, "")
	return slices.Sorted(maps.Keys(found))
}
