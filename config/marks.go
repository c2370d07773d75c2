package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// evaluable is the expression of an argument, ready for evaluation.
func (a *attribute) evaluable() hcl.Expression {
	if a.value == nil {
		a.value = native(a.expr)
		markLoops(a.value)
	}
	return a.value
}

// markLoops makes the loops of an expression keep secrets. HCL takes the marks off what a "for" goes through and puts
// them on the result: in between, an error would quote an element of a sensitive list, and functions would not know
// that they are given one. So the parts of a loop are replaced by ones that mark its variables. References must have
// been resolved before; a second call changes nothing.
func markLoops(expr hcl.Expression) {
	node, ok := expr.(hclsyntax.Node)
	if !ok {
		return
	}
	_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		if n, ok := n.(*hclsyntax.ForExpr); ok {
			l := &loop{vars: []string{n.KeyVar, n.ValVar}}
			l.wrap(&n.CollExpr, true)
			l.wrap(&n.KeyExpr, false)
			l.wrap(&n.ValExpr, false)
			l.wrap(&n.CondExpr, false)
		}
		return nil
	})
}

// loop is a "for" expression while it is evaluated. One state is enough: no expression is evaluated inside itself,
// because nobody can declare a function and a template cannot render templates.
type loop struct {
	vars  []string
	marks cty.ValueMarks // of its collection
}

// loopPart is a part of a loop. It embeds the original in parentheses: HCL's walks then meet it as if nothing
// surrounded it.
type loopPart struct {
	*hclsyntax.ParenthesesExpr
	*loop
	collection bool
}

func (l *loop) wrap(expr *hclsyntax.Expression, collection bool) {
	if *expr == nil {
		return
	}
	if _, done := (*expr).(*loopPart); !done {
		*expr = &loopPart{&hclsyntax.ParenthesesExpr{Expression: *expr, SrcRange: (*expr).Range()}, l, collection}
	}
}

// Value evaluates the original. HCL makes a context for each step of a loop.
func (p *loopPart) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if p.collection {
		v, diags := p.Expression.Value(ctx)
		_, p.marks = v.Unmark()
		return v, diags
	}
	if len(p.marks) > 0 {
		for _, name := range p.vars {
			if v, ok := ctx.Variables[name]; ok {
				ctx.Variables[name] = v.WithMarks(p.marks)
			}
		}
	}
	return p.Expression.Value(ctx)
}
