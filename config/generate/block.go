package generate

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config/internal/eval"
	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// blocks makes the blocks that are on one ensemble.
type blocks struct {
	on    *eval.Ensemble
	stack string
}

// declaredIn returns the blocks that are declared in one directory. keyed means that a for_each is around them.
func (b blocks) declaredIn(all []*eval.Evaluation, keyed bool) (out []*Block) {
	for _, n := range all[0].Declared.Nodes {
		var at []eval.Siblings
		for _, e := range all {
			at = append(at, e.Top)
		}
		if block := b.node(all[0], n, at, keyed); block != nil {
			out = append(out, block)
		}
	}
	for _, name := range all[0].Declared.Names["module"] {
		d := all[0].Declared.Named["module"][name]
		var inside []*eval.Evaluation
		for _, e := range all {
			inside = append(inside, e.Calls[d]...)
		}
		if len(inside) == 0 {
			continue
		}
		prefix := strings.ReplaceAll(strings.TrimSuffix(inside[0].Prefix, "."), "[*]", "")
		block := &Block{Addr: plan.Addr(prefix).Block(), Label: name, Repeated: d.ForEach != nil}
		for _, e := range inside {
			block.know(e.At)
		}
		if block.Blocks = b.declaredIn(inside, keyed || block.Repeated); len(block.Blocks) > 0 {
			out = append(out, block)
		}
	}
	return out
}

// know adds a key to the block's known keys.
func (b *Block) know(e eval.Element) {
	if i, known := slices.BinarySearch(b.Keys, e.Key); b.Repeated && !e.Any && !known {
		b.Keys = slices.Insert(b.Keys, i, e.Key)
	}
}

// node makes the Block of node n from its instances; nil if it is on another ensemble.
func (b blocks) node(e *eval.Evaluation, n *static.Node, at []eval.Siblings, keyed bool) *Block {
	var all []*eval.Instance
	var inside []eval.Siblings
	block := &Block{Kind: n.Kind, Label: n.Label, Repeated: n.Attr("for_each") != nil}
	for _, s := range at {
		for _, i := range s[n] {
			if i.Ensemble != b.on {
				continue
			}
			all, inside = append(all, i), append(inside, i.Inside)
			if block.Repeated {
				block.know(*i.Each)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	block.Addr = plan.Addr(strings.ReplaceAll(string(all[0].Addr), "[*]", "")).Block()
	block.Name = nameOf(e, block.Addr, n, all, keyed || block.Repeated)
	for at, f := range all[0].Params.Fields() {
		differs := func(i *eval.Instance) bool {
			return slices.Contains(i.Unknown, f.Name) || i.Params.Fields()[at].Get() != f.Get()
		}
		if !f.Derived && !slices.ContainsFunc(all, differs) {
			block.Fields = append(block.Fields, f)
		}
	}
	for _, c := range n.Children {
		if in := b.node(e, c, inside, keyed || block.Repeated); in != nil {
			block.Blocks = append(block.Blocks, in)
		}
	}
	return block
}

// nameOf is how the names of a block's nodes are made.
func nameOf(e *eval.Evaluation, block plan.Addr, n *static.Node, all []*eval.Instance, keyed bool) Name {
	a := n.Attr("name")
	if a == nil && n.Attr("for_each") != nil {
		return Name{Before: n.Label + "-", HasKey: true}
	}
	if a == nil {
		return Name{Before: n.Label}
	}
	if name, ok := template(a.Expr); ok && (!name.HasKey || n.Attr("for_each") != nil) {
		return name
	}
	keys := func(i *eval.Instance) bool { return i.Nameless || i.Any && n.Attr("for_each") != nil }
	if slices.ContainsFunc(all, keys) {
		why := []*syntax.Attribute{a}
		for in := n; in != nil; in = in.Parent {
			why = append(why, in.Attr("for_each"))
		}
		e.Errorf(a.Expr.Range(), "Not known to programs", "The name of %s depends on %s, so no program could be compiled with it. "+
			"Give it a name that depends only on each.key, or give the variables defaults. The root may differ between environments: it is an argument of the code.", block, eval.Reasons(e, why...))
		return Name{}
	}
	if keyed && !all[0].Any {
		return Name{Listed: true}
	}
	return Name{Before: all[0].Name} // the name is the same for all keys
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
			if key, ok := syntax.StepName(p.Traversal, 1); p.Traversal.RootName() != "each" || !ok || key != "key" || name.HasKey {
				return name, false
			}
			name.HasKey = true
		default:
			return name, false
		}
	}
	return name, true
}

// nodes are the nodes of the ensemble, with the payloads that an apply would write, as far as values are known. An unknown
// parameter has its default, or 1 if it is a number and the lock would be invalid otherwise.
func (b blocks) nodes(all []*eval.Instance) (out []plan.Node) {
	for _, i := range all {
		if i.Ensemble != b.on || i.Path == "" {
			continue
		}
		for _, f := range i.Params.Fields() { // for example, the permits of a semaphore family have no default
			if slices.Contains(i.Unknown, f.Name) && f.Number && kind.Validate(i.Params) != nil {
				_ = f.Set(1)
			}
		}
		out = append(out, plan.Node{Path: i.Path, Addr: i.Addr, Payload: &kind.Payload{Params: i.Params, Protect: i.Protect,
			Owner: kind.Owner{Stack: b.stack, Addr: string(i.Addr)}}})
	}
	slices.SortFunc(out, func(a, b plan.Node) int { return strings.Compare(a.Path, b.Path) })
	return out
}
