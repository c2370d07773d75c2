package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
)

// native is an expression in native syntax. In a JSON file each string is a template, which hcl/json parses anew for
// each evaluation and shows to nobody, so that markLoops could not reach its loops; here each is parsed once, with the
// same ranges. Only evaluate the result: whatever reads a string as a reference, a type or an address needs the original.
//
// It differs from hcl/json where that is worse: a sensitive key marks the object, where hcl/json panics, and of two
// keys that only turn out to be the same the last one counts, as in native syntax.
func native(expr hcl.Expression) hcl.Expression {
	if !json.IsJSONExpression(expr) {
		return expr
	}
	return fromJSON(expr)
}

// written is the native form of what is read and not evaluated: an address. In a JSON file it is a string. What is no
// string, or does not parse, is returned as it is, for the caller to refuse.
func written(expr hcl.Expression) hcl.Expression {
	if !json.IsJSONExpression(expr) {
		return expr
	}
	v, diags := expr.Value(nil) // without a context strings come as they are
	if diags.HasErrors() || v.IsNull() || v.Type() != cty.String {
		return expr
	}
	parsed, diags := hclsyntax.ParseExpression([]byte(v.AsString()), expr.Range().Filename, expr.Range().Start)
	if diags.HasErrors() {
		return expr
	}
	return parsed
}

func fromJSON(expr hcl.Expression) hclsyntax.Expression {
	if items := expr.(interface{ ExprList() []hcl.Expression }).ExprList(); items != nil {
		list := &hclsyntax.TupleConsExpr{SrcRange: expr.Range(), OpenRange: expr.StartRange()}
		for _, e := range items {
			list.Exprs = append(list.Exprs, fromJSON(e))
		}
		return list
	}
	if pairs := expr.(interface{ ExprMap() []hcl.KeyValuePair }).ExprMap(); pairs != nil {
		return objectFromJSON(expr, pairs)
	}
	v, diags := expr.Value(nil) // without a context strings come as they are
	if diags.HasErrors() || v.IsNull() || v.Type() != cty.String {
		return &hclsyntax.LiteralValueExpr{Val: v, SrcRange: expr.Range()}
	}
	start := expr.Range().Start // at the quotation mark
	start.Byte, start.Column = start.Byte+1, start.Column+1
	text, diags := hclsyntax.ParseTemplate([]byte(v.AsString()), expr.Range().Filename, start)
	if diags.HasErrors() {
		return &wrongText{&hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: expr.Range()}, diags}
	}
	return text
}

func objectFromJSON(expr hcl.Expression, pairs []hcl.KeyValuePair) hclsyntax.Expression {
	object := &hclsyntax.ObjectConsExpr{SrcRange: expr.Range(), OpenRange: expr.StartRange()}
	first := map[string]hcl.Range{}
	for _, p := range pairs {
		name, _ := p.Key.Value(nil)
		if at, twice := first[name.AsString()]; twice {
			return &wrongText{
				&hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: p.Key.Range()},
				hcl.Diagnostics{errorAt(p.Key.Range(), "Duplicate object attribute",
					fmt.Sprintf("%q is set a second time here; the first is on line %d. Remove one of the two.", name.AsString(), at.Start.Line))},
			}
		}
		first[name.AsString()] = p.Key.Range()
		object.Items = append(object.Items, hclsyntax.ObjectConsItem{KeyExpr: fromJSON(p.Key), ValueExpr: fromJSON(p.Value)})
	}
	return object
}

// wrongText is what no expression could be made of. It says so when it is evaluated,
// which is when hcl/json would have.
type wrongText struct {
	*hclsyntax.LiteralValueExpr
	diags hcl.Diagnostics
}

func (w *wrongText) Value(*hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	return cty.DynamicVal, w.diags
}
