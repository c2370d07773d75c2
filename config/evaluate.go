package config

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// evaluate is expr.Value with diagnostics that say what to type next and quote nothing sensitive. src is the text of
// the expression.
func evaluate(expr hcl.Expression, ctx *hcl.EvalContext, src []byte) (v cty.Value, diags hcl.Diagnostics) {
	if json.IsJSONExpression(expr) {
		defer func() {
			if recover() != nil { // hcl/json takes the text of a key without looking at its marks
				v, diags = cty.DynamicVal, hcl.Diagnostics{errorAt(expr.Range(), "Sensitive value",
					"A key of an object in JSON syntax cannot be sensitive. If it is not secret, wrap it in nonsensitive(...).")}
			}
		}()
	}
	v, diags = expr.Value(ctx)
	mentions := sync.OnceValue(func() bool { return mentionsSecret(expr, ctx, src) })
	for i, d := range diags {
		diags[i] = advise(discreet(d, ctx, mentions))
	}
	return v, diags
}

const (
	withheld = "The reason is not shown because it could contain a sensitive value. To see it, evaluate the expression with another value."
	// quotedKey is how convert.MismatchMessage names a key; names of attributes, which it quotes as well, are in the type.
	quotedKey = `element "`
)

// discreet returns a diagnostic of hcl without what it quotes of a sensitive value. Marks decide whether a value is
// sensitive, never its text: to look for secrets in finished messages would damage other words and give them away.
//
// HCL takes the marks off what a "for" goes through and puts them on its result. Inside a loop, which has a context of
// its own, everything therefore counts as sensitive when anything that the argument mentions is.
func discreet(d *hcl.Diagnostic, ctx *hcl.EvalContext, mentions func() bool) *hcl.Diagnostic {
	call, called := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d)
	failed := called && call.FunctionCallError() != nil
	quotes := failed || d.Summary == "Duplicate object key" || d.Summary == "Inconsistent conditional result types" || strings.Contains(d.Detail, quotedKey)
	inner := d.EvalContext != nil && d.EvalContext != ctx
	c := *d
	switch {
	case (quotes || inner) && concernsSecret(d, ctx, mentions):
		if inner {
			c.Expression, c.EvalContext = nil, nil
		}
		if quotes {
			c.Detail = withheld
		}
	case failed && errors.As(call.FunctionCallError(), new(function.PanicError)): // as of log(-1, 2)
		c.Detail = "There is no result for these arguments."
	}
	return &c
}

// secretFunctions return values that are sensitive, whatever they are given.
var secretFunctions = regexp.MustCompile(`\b(env|digest|sensitive)\s*\(`)

func mentionsSecret(expr hcl.Expression, ctx *hcl.EvalContext, src []byte) bool {
	return secretFunctions.Match(src) || slices.ContainsFunc(expr.Variables(), func(t hcl.Traversal) bool {
		v, _ := t.TraverseAbs(ctx)
		return v.ContainsMarked()
	})
}

func concernsSecret(d *hcl.Diagnostic, ctx *hcl.EvalContext, mentions func() bool) bool {
	if d.EvalContext != ctx {
		return mentions()
	}
	parts := []hcl.Expression{d.Expression}
	switch e := d.Expression.(type) {
	case *hclsyntax.ConditionalExpr:
		parts = []hcl.Expression{e.TrueResult, e.FalseResult}
	case *hclsyntax.FunctionCallExpr:
		parts = e.ExprCall().Arguments
	}
	for _, e := range parts {
		if v, diags := e.Value(ctx); v.ContainsMarked() || diags.HasErrors() && mentions() {
			return true
		}
	}
	return false
}
