package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// operands are the values that an operator goes through as a whole: the two sides of == and !=, what stands in
// front of a splat, the two results of a condition. In a loop that is the length of the loop times that of the
// value, of which the loop counts only the first (TestExpansionIsBounded: "comparisons in loops").
type operands struct {
	*effort
	at    hcl.Range
	unify bool // cty looks for one type for both
	first cty.Value
}

// operand is one of them. It embeds the original as [watched] does.
type operand struct {
	*hclsyntax.ParenthesesExpr
	*operands
	leads bool // it is evaluated first
}

func (o *operands) wrap(expr *hclsyntax.Expression, leads bool) {
	if _, done := (*expr).(*operand); !done {
		*expr = &operand{&hclsyntax.ParenthesesExpr{Expression: *expr, SrcRange: (*expr).Range()}, o, leads}
	}
}

// Value evaluates the original. A plain value costs nothing: conditions between texts are in every loop.
func (o *operand) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := o.Expression.Value(ctx)
	if diags.HasErrors() {
		v = cty.DynamicVal
	}
	first := o.first
	if o.first = v; o.leads {
		first = cty.NilVal
	}
	w := weigher{loose: true}
	if w.add(v); w.elements > 1 && !o.spend(w.elements*stepEffort) {
		return o.stop(o.advice())
	}
	if pairs := pairsToUnify(first, v); o.unify && pairs > 0 && !o.spend(pairs) {
		return o.stop("The two results of a condition have so many elements that finding one type for both takes minutes. " +
			"Write tolist(...) or tomap(...) around both.")
	}
	return v, diags
}

// stop reports the mistake here, and keeps it for [scope.exhausted]: HCL evaluates both results of a condition
// and forgets what it is told of the one that is not chosen.
func (o *operands) stop(why string) (cty.Value, hcl.Diagnostics) {
	o.why = why
	return cty.DynamicVal, hcl.Diagnostics{errorAt(o.at, "Too many steps", why)}
}

// pairsToUnify is what it costs cty to find a type for both values, in visits. A pair takes about an eighth of
// one. Tuples of one length are unified place by place.
func pairsToUnify(a, b cty.Value) int {
	if a == cty.NilVal || a.Type().Equals(b.Type()) {
		return 0
	}
	if a.Type() == cty.DynamicPseudoType || b.Type() == cty.DynamicPseudoType {
		return 0 // null takes the type of the other one
	}
	return pairsOf([]cty.Type{a.Type(), b.Type()}) / 8
}
