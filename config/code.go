package config

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

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

	roots map[*Ensemble]string
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
	d := directories{dir: dir}
	defer d.close()
	code := &Code{}
	c, diags := d.load(opts, code)
	code.Sources = c.Sources
	return code, diags
}

// anyElement stands for the elements of a for_each that are not known.
var anyElement = element{value: cty.DynamicVal, any: true}

func hasUnknownKeys(v cty.Value) bool {
	return !v.IsKnown() || v.Type().IsSetType() && !v.IsWhollyKnown()
}

func (v *variable) unknown() *given {
	value := cty.UnknownVal(v.typ.WithoutOptionalAttributesDeep())
	if v.sensitive {
		value = value.Mark(sensitive)
	}
	return &given{value, v.head}
}

// isUnseen reports whether no program sees what is declared: who may use a lock, and what an apply does besides.
func (d *decl) isUnseen() bool {
	return d.block != nil && slices.Contains([]string{"principal", "acl", "check", "import", "removed"}, d.block.typ.name)
}

// withoutEnvironment returns the functions as they are where values may be unknown. Ours take for granted that what is in a list
// is known; hcl's and cty's do not.
func withoutEnvironment(table map[string]function.Function) map[string]function.Function {
	table = maps.Clone(table)
	for _, name := range []string{"alltrue", "anytrue", "coalesce", "issensitive", "length", "lookup", "nonsensitive", "sensitive", "sum", "tolist", "tomap", "toset", "tostring"} {
		known := table[name]
		params := slices.Clone(known.Params())
		for i := range params {
			params[i].AllowUnknown, params[i].AllowDynamicType = true, true
		}
		rest := known.VarParam()
		if rest != nil {
			rest.AllowUnknown, rest.AllowDynamicType = true, true
		}
		table[name] = function.New(&function.Spec{
			Params: params, VarParam: rest,
			Type: func(args []cty.Value) (cty.Type, error) {
				if slices.ContainsFunc(args, func(v cty.Value) bool { return !v.IsWhollyKnown() }) {
					return cty.DynamicPseudoType, nil
				}
				return known.ReturnTypeForValues(args)
			},
			Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
				if ty == cty.DynamicPseudoType {
					return cty.DynamicVal, nil
				}
				return known.Call(args)
			},
		})
	}
	table["env"] = function.New(&function.Spec{
		Params: []function.Parameter{{Name: "name", Type: cty.String, AllowMarked: true}}, Type: function.StaticReturnType(cty.String),
		Impl: func([]cty.Value, cty.Type) (cty.Value, error) { return cty.UnknownVal(cty.String), nil },
	})
	return table
}

// unknown reports whether an argument has no value here. Its errors have been reported.
func (s scope) unknown(a *attribute) bool {
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
	if !s.unknown(s.d.block.arg("root")) {
		s.evaluateRoot(e)
		if s.code.roots == nil {
			s.code.roots = map[*Ensemble]string{}
		}
		s.code.roots[e] = e.Root
	}
	e.Root = "/"
	if len(s.names["ensemble"]) == 1 {
		s.home = e
	}
	s.r.value = cty.CapsuleVal(ensembleType, e)
}

// finishCode makes what a Code holds.
func (e *evaluation) finishCode(c *Config) {
	e.checkHomes()
	if a := e.settings; a != nil && e.scope(a).unknown(a.block.arg("stack")) {
		e.errorf(a.block.arg("stack").expr.Range(), "Not known to programs", "The name of the stack depends on %s. Write it out, or give the variables defaults.", e.reasons(a.block.arg("stack")))
	}
	if e.diags.HasErrors() || !e.explained() {
		return
	}
	e.code.Stack = c.Stack
	for _, name := range slices.Sorted(maps.Keys(e.named["ensemble"])) {
		on := ensembleValue(e.of(e.named["ensemble"][name]).value)
		b := blocks{on, c.Stack}
		e.code.Ensembles = append(e.code.Ensembles, &CodeEnsemble{Name: name, Root: e.code.roots[on],
			Blocks: b.of([]*evaluation{e}, false), Nodes: b.nodes(e.instances)})
	}
	for _, d := range e.outputs {
		if o := e.codeOutput(d); o.Name != "" {
			e.code.Outputs = append(e.code.Outputs, o)
		}
	}
	slices.SortFunc(e.code.Outputs, func(a, b CodeOutput) int { return cmp.Compare(a.Name, b.Name) })
	for _, m := range e.moves {
		e.code.Moves = append(e.code.Moves, m.Move)
	}
}

// blocks makes the blocks that are on one ensemble.
type blocks struct {
	on    *Ensemble
	stack string
}

// of are the blocks of instances of one directory. keyed: there is for_each around them.
func (b blocks) of(all []*evaluation, keyed bool) (out []*Block) {
	for _, n := range all[0].nodes {
		var at []siblings
		for _, e := range all {
			at = append(at, e.top)
		}
		if block := b.node(all[0], n, at, keyed); block != nil {
			out = append(out, block)
		}
	}
	for _, name := range all[0].names["module"] {
		d := all[0].named["module"][name]
		var inside []*evaluation
		for _, e := range all {
			inside = append(inside, e.calls[d]...)
		}
		if len(inside) == 0 {
			continue
		}
		prefix := strings.ReplaceAll(strings.TrimSuffix(inside[0].prefix, "."), "[*]", "")
		block := &Block{Addr: plan.Addr(prefix).Block(), Label: name, Repeated: d.forEach != nil}
		for _, e := range inside {
			block.know(e.at)
		}
		if block.Blocks = b.of(inside, keyed || block.Repeated); len(block.Blocks) > 0 {
			out = append(out, block)
		}
	}
	return out
}

// know adds a key.
func (b *Block) know(e element) {
	if i, known := slices.BinarySearch(b.Keys, e.key); b.Repeated && !e.any && !known {
		b.Keys = slices.Insert(b.Keys, i, e.key)
	}
}

// node is the block of n in these places; nil if it is on another ensemble.
func (b blocks) node(e *evaluation, n *nodeDecl, at []siblings, keyed bool) *Block {
	var all []*instance
	var inside []siblings
	block := &Block{Kind: n.kind, Label: n.label, Repeated: n.attr("for_each") != nil}
	for _, s := range at {
		for _, i := range s[n] {
			if i.ensemble != b.on {
				continue
			}
			all, inside = append(all, i), append(inside, i.inside)
			if block.Repeated {
				block.know(*i.each)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	block.Addr = plan.Addr(strings.ReplaceAll(string(all[0].addr), "[*]", "")).Block()
	block.Name = e.nameOf(block.Addr, n, all, keyed || block.Repeated)
	for at, f := range all[0].params.Fields() {
		differs := func(i *instance) bool {
			return slices.Contains(i.unknown, f.Name) || i.params.Fields()[at].Get() != f.Get()
		}
		if !slices.ContainsFunc(all, differs) {
			block.Fields = append(block.Fields, f)
		}
	}
	for _, c := range n.children {
		if in := b.node(e, c, inside, keyed || block.Repeated); in != nil {
			block.Blocks = append(block.Blocks, in)
		}
	}
	return block
}

// nameOf is how the names of a block's nodes are made.
func (e *evaluation) nameOf(block plan.Addr, n *nodeDecl, all []*instance, keyed bool) Name {
	a := n.attr("name")
	if a == nil && n.attr("for_each") != nil {
		return Name{Before: n.label + "-", HasKey: true}
	}
	if a == nil {
		return Name{Before: n.label}
	}
	if name, ok := template(a.expr); ok && (!name.HasKey || n.attr("for_each") != nil) {
		return name
	}
	keys := func(i *instance) bool { return i.nameless || i.any && n.attr("for_each") != nil }
	if slices.ContainsFunc(all, keys) {
		why := []*attribute{a}
		for in := n; in != nil; in = in.parent {
			why = append(why, in.attr("for_each"))
		}
		e.errorf(a.expr.Range(), "Not known to programs", "The name of %s depends on %s, so no program could be compiled with it. "+
			"Give it a name that depends on each.key alone, or the variables defaults. What differs between environments can be in the root, which is an argument of the code.", block, e.reasons(why...))
		return Name{}
	}
	if keyed && !all[0].any {
		return Name{Listed: true}
	}
	return Name{Before: all[0].name} // one that stands for others has it whatever their keys are
}

// template reads a name that is written with literals and at most one each.key.
func template(expr hcl.Expression) (name Name, ok bool) {
	parts := []hclsyntax.Expression{}
	switch e := expr.(type) {
	case *hclsyntax.TemplateExpr:
		parts = e.Parts
	case *hclsyntax.TemplateWrapExpr:
		parts = append(parts, e.Wrapped)
	case hclsyntax.Expression:
		parts = append(parts, e)
	default:
		return name, false
	}
	for _, p := range parts {
		switch p := p.(type) {
		case *hclsyntax.LiteralValueExpr:
			if p.Val.Type() != cty.String || p.Val.IsNull() {
				return name, false
			}
			if name.HasKey {
				name.After += p.Val.AsString()
			} else {
				name.Before += p.Val.AsString()
			}
		case *hclsyntax.ScopeTraversalExpr:
			if key, ok := word(p.Traversal, 1); p.Traversal.RootName() != "each" || !ok || key != "key" || name.HasKey {
				return name, false
			}
			name.HasKey = true
		default:
			return name, false
		}
	}
	return name, true
}

// nodes are the nodes of the ensemble, with what an apply would write.
func (b blocks) nodes(all []*instance) (out []plan.Node) {
	for _, i := range all {
		if i.ensemble != b.on || i.path == "" {
			continue
		}
		for _, f := range i.params.Fields() { // as the permits of a family of semaphores, which have no default there
			if slices.Contains(i.unknown, f.Name) && f.Number && kind.Validate(i.params) != nil {
				_ = f.Set(1)
			}
		}
		out = append(out, plan.Node{Path: i.path, Addr: i.addr, Payload: &kind.Payload{Params: i.params, Protect: i.protect,
			Owner: kind.Owner{Stack: b.stack, Addr: string(i.addr)}}})
	}
	slices.SortFunc(out, func(a, b plan.Node) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// codeOutput is an output; without a name if it is sensitive or null.
func (e *evaluation) codeOutput(d *decl) CodeOutput {
	v := e.of(d).value
	if v.ContainsMarked() || v.IsKnown() && v.IsNull() {
		return CodeOutput{}
	}
	o := CodeOutput{Name: d.block.name()}
	o.Description, _ = e.scope(d).text(d.block.arg("description"))
	if v.IsWhollyKnown() {
		o.Value = v
		return o
	}
	a := d.block.arg("value")
	if i := e.pathOf(a); i != nil {
		for name, d := range e.named["ensemble"] {
			if ensembleValue(e.of(d).value) == i.ensemble {
				o.Ensemble, o.Path = name, i.path
			}
		}
		return o
	}
	o.Unknown = e.reasons(a)
	return o
}

// pathOf is the node whose path an argument is, nil if it is anything else.
func (e *evaluation) pathOf(a *attribute) *instance {
	ref, ok := a.expr.(*hclsyntax.ScopeTraversalExpr)
	if !ok || nameOf(ref.Traversal[len(ref.Traversal)-1]) != "path" {
		return nil
	}
	var addr plan.Addr
	for i := 0; i+1 < len(ref.Traversal)-1; i += 2 {
		typ, label := nameOf(ref.Traversal[i]), nameOf(ref.Traversal[i+1])
		if addr = addr.Child(typ, label); typ == "" || label == "" {
			return nil
		}
		if key, ok := word(ref.Traversal, i+2); ok && nameOf(ref.Traversal[i+2]) == "" {
			addr = addr.Instance(key)
			i++
		}
	}
	for _, i := range e.instances {
		if i.addr == addr && i.path != "" {
			return i
		}
	}
	return nil
}

// reasons says what arguments refer to that has no value here, in this module or where the module is called.
func (e *evaluation) reasons(all ...*attribute) string {
	r := reasons{map[string]bool{}, map[*result]bool{}, false}
	for _, a := range all {
		r.attribute(e, a)
	}
	for in := e; in.call != nil && len(r.found) == 0; in = in.outer {
		r.attribute(in.outer, in.call.forEach)
	}
	switch names := slices.Sorted(maps.Keys(r.found)); {
	case len(names) > 1:
		return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
	case len(names) == 1:
		return names[0]
	case r.nodes:
		return "the root"
	}
	return "what is known only when it is applied"
}

var environment = regexp.MustCompile(`\benv\s*\(`)

type reasons struct {
	found map[string]bool
	seen  map[*result]bool
	nodes bool // one of those seen is a node, whose path begins with the root
}

func (r *reasons) attribute(e *evaluation, a *attribute) {
	if a == nil {
		return
	}
	if environment.Match(e.files.text(a.expr.Range())) {
		r.found["the environment"] = true
	}
	for _, d := range a.deps {
		r.declaration(e, d)
	}
}

func (r *reasons) declaration(e *evaluation, d *decl) {
	if r.seen[e.of(d)] || d.isUnseen() || strings.HasPrefix(d.addr, "ensemble.") {
		return // no name depends on access lists and servers
	}
	r.seen[e.of(d)] = true
	r.nodes = r.nodes || d.node != nil || d.isModule()
	v := e.variables[strings.TrimPrefix(d.addr, "var.")]
	if v == nil || v.decl != d {
		for _, a := range d.attrs {
			r.attribute(e, a)
		}
		return
	}
	if e.outer == nil && v.fallback == nil {
		r.found[d.addr] = true
	}
	if e.outer != nil {
		r.attribute(e.outer, e.call.block.arg(v.block.name()))
	}
}
