package functions

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan/explain"
)

var makeSensitive = computing(func(args []cty.Value) (cty.Value, error) { return args[0].Mark(Sensitive), nil }, nil, *markParam("value"))

// makeNonsensitive takes every mark off: for a value that was computed from a secret and is not secret.
var makeNonsensitive = computing(func(args []cty.Value) (cty.Value, error) {
	v, _ := args[0].UnmarkDeep()
	return v, nil
}, nil, *markParam("value"))

var isSensitive = ofType(cty.Bool, func(args []cty.Value) (cty.Value, error) { return cty.BoolVal(args[0].IsMarked()), nil }, *markParam("value"))

// digest is ZooKeeper's digest id of a user: "user:base64(sha1(user:password))". It
// is sensitive: a weak password can be guessed from it.
var digest = text([]string{"user", "password"}, cty.String, func(args []string) (cty.Value, error) {
	if args[0] == "" || strings.Contains(args[0], ":") {
		return cty.NilVal, plain{errors.New("the user name must not be empty and cannot contain a colon")}
	}
	return cty.StringVal(DigestID(args[0], args[1])).Mark(Sensitive), nil
})

// plain is a function's error without a sensitive argument in its text.
type plain struct{ error }

// Mark is the type of our marks on values.
type Mark string

// Sensitive marks a value that must not be shown.
const Sensitive Mark = "sensitive"

// DigestID is what DigestAuthenticationProvider.generateDigest computes.
func DigestID(user, password string) string {
	sum := sha1.Sum([]byte(user + ":" + password))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// fixedReasons are the errors of hcl whose details have only fixed words, types, and names from the source or from a function's
// declaration. Only their details are shown where the expression mentions something sensitive. Other errors quote a key, an
// argument or a reason that may be sensitive; a new version of hcl may quote more.
var fixedReasons = map[string]bool{
	"Attempt to get attribute from null value": true, "Attempt to index null value": true, "Call to unknown function": true, "Condition is null": true,
	"Incorrect condition type": true, "Invalid expanding argument value": true, "Invalid operand": true, "Invalid template interpolation value": true,
	"Iteration over non-iterable value": true, "Iteration over null value": true, "Missing map element": true, "Not enough function arguments": true, "Null condition": true,
	"Null value as key": true, "Operation failed": true, "Splat of null value": true, "Too many function arguments": true, "Unknown variable": true,
	"Unsupported attribute": true,
}

const withheld = "The reason is not shown because it could contain a sensitive value. To see it, evaluate the expression with another value."

// advise returns a diagnostic of hcl with advice and without a sensitive value. It never cuts secrets out of a finished message:
// that would damage other words, and the gaps would give the secret away.
func advise(d *hcl.Diagnostic, ctx *hcl.EvalContext, secret bool) *hcl.Diagnostic {
	var failed error
	if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d); ok {
		failed = call.FunctionCallError()
	}
	// HCL takes the marks off the elements of a "for" and puts them on its result. So in the loop, which has a context of its own,
	// no function sees what is sensitive.
	loop := d.EvalContext != ctx
	c := *d
	switch {
	case secret && !fixedReasons[d.Summary] && (loop || !errors.As(failed, new(plain))):
		c.Detail = withheld
	case errors.As(failed, new(function.PanicError)): // log(-1, 2) panics
		c.Detail = "There is no result for these arguments."
	}
	if call, ok := d.Expression.(*hclsyntax.FunctionCallExpr); ok && d.Summary == "Call to unknown function" {
		// If there are several near names, hcl suggests another one each time.
		c.Detail = fmt.Sprintf("There is no function named %q.%s", call.Name, explain.DidYouMean(call.Name, slices.Collect(maps.Keys(ctx.Functions))))
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
