package functions

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
)

// Compute is expr.Value with diagnostics that say what to type next and quote nothing sensitive. src is the text of
// the expression.
func Compute(expr hcl.Expression, ctx *hcl.EvalContext, src []byte) (v cty.Value, diags hcl.Diagnostics) {
	if json.IsJSONExpression(expr) {
		defer func() {
			if recover() != nil { // hcl/json takes the text of a key without looking at its marks
				v, diags = cty.DynamicVal, hcl.Diagnostics{syntax.ErrorAt(expr.Range(), "Sensitive value",
					"A key of an object in JSON syntax cannot be sensitive. If it is not secret, wrap it in nonsensitive(...).")}
			}
		}()
	}
	v, diags = expr.Value(ctx)
	secret := len(diags) > 0 && mentionsSecret(expr, ctx, src)
	for i, d := range diags {
		diags[i] = explain(d, ctx, secret)
	}
	return v, diags
}

// fixedReasons are the errors of hcl whose details consist of fixed words, types and names that stand in the source or in
// the declaration of a function. Only their details are shown where the expression mentions something sensitive: what others quote
// (a key, an argument, the reason that a function gives) may be it, and a new version of hcl may quote more.
var fixedReasons = map[string]bool{
	"Attempt to get attribute from null value": true, "Attempt to index null value": true, "Call to unknown function": true, "Condition is null": true,
	"Incorrect condition type": true, "Invalid expanding argument value": true, "Invalid operand": true, "Invalid template interpolation value": true,
	"Iteration over non-iterable value": true, "Iteration over null value": true, "Missing map element": true, "Not enough function arguments": true, "Null condition": true,
	"Null value as key": true, "Operation failed": true, "Splat of null value": true, "Too many function arguments": true, "Unknown variable": true,
	"Unsupported attribute": true,
}

const withheld = "The reason is not shown because it could contain a sensitive value. To see it, evaluate the expression with another value."

// explain returns a diagnostic of hcl with advice and without a sensitive value. Nothing searches a finished message for secrets:
// that would damage other words and give them away.
func explain(d *hcl.Diagnostic, ctx *hcl.EvalContext, secret bool) *hcl.Diagnostic {
	var failed error
	if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d); ok {
		failed = call.FunctionCallError()
	}
	// HCL takes the marks off what a "for" goes through and puts them on its result: in the loop, which has a context of its own,
	// no function sees what is sensitive.
	loop := d.EvalContext != ctx
	c := *d
	switch {
	case secret && !fixedReasons[d.Summary] && (loop || !errors.As(failed, new(plain))):
		c.Detail = withheld
	case errors.As(failed, new(function.PanicError)): // as of log(-1, 2)
		c.Detail = "There is no result for these arguments."
	}
	if call, ok := d.Expression.(*hclsyntax.FunctionCallExpr); ok && d.Summary == "Call to unknown function" {
		// Of several names hcl suggests another one each time.
		c.Detail = fmt.Sprintf("There is no function named %q.%s", call.Name, plan.DidYouMean(call.Name, slices.Collect(maps.Keys(ctx.Functions))))
	}
	if secret && loop {
		c.Expression, c.EvalContext = nil, nil
	}
	return syntax.Advise(&c)
}

// secretFunctions return values that are sensitive, whatever they are given.
var secretFunctions = regexp.MustCompile(`\b(env|digest|sensitive)\s*\(`)

func mentionsSecret(expr hcl.Expression, ctx *hcl.EvalContext, src []byte) bool {
	return secretFunctions.Match(src) || slices.ContainsFunc(expr.Variables(), func(t hcl.Traversal) bool {
		v, _ := t.TraverseAbs(ctx)
		return v.ContainsMarked()
	})
}
