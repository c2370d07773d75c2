package generate

import (
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/locktree/locktree/config/internal/eval"
	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/config/internal/syntax"
)

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

// pathOf is the node whose path an argument is, nil if it is anything else.
func pathOf(e *eval.Evaluation, a *syntax.Attribute) *eval.Instance {
	ref, ok := a.Expr.(*hclsyntax.ScopeTraversalExpr)
	if !ok || len(ref.Traversal) < 2 || static.StepNameOf(ref.Traversal[len(ref.Traversal)-1]) != "path" {
		return nil
	}
	node := &syntax.Attribute{Expr: &hclsyntax.ScopeTraversalExpr{Traversal: ref.Traversal[:len(ref.Traversal)-1]}}
	addr, ok := static.ParseAddress(&syntax.Report{}, node)
	if !ok { // which is no error here
		return nil
	}
	for _, i := range e.Instances {
		if i.Addr == addr && i.Path != "" {
			return i
		}
	}
	return nil
}
