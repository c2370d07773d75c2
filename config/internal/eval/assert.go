package eval

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
)

// evaluateCheck evaluates the assertions of a check block. An error of a value in it is a warning: a check must never stop an
// apply. A name that does not exist is an error as everywhere.
func evaluateCheck(s scope) {
	d := s.d
	c := plan.Check{Addr: plan.Addr(s.in.Prefix + d.Addr), Origin: s.in.Where(d.Head), Verdict: plan.CheckPass}
	if len(d.Block.Blocks) == 0 {
		s.in.Errorf(d.Head, "No assertions", "A check without an assertion checks nothing: add assert { condition = ..., error_message = ... }.")
	}
	for _, b := range d.Block.Blocks {
		evaluateAssert(s, b, &c, checkFailure)
	}
	s.in.All.Checks = append(s.in.All.Checks, c)
}

// failure says how an assertion that does not hold is reported.
type failure struct {
	severity hcl.DiagnosticSeverity
	summary  string
}

var checkFailure = failure{severity: hcl.DiagWarning, summary: "Check block assertion failed"}

func evaluateAssert(s scope, b *syntax.Block, c *plan.Check, as failure) {
	condition := b.Arg("condition")
	holds, ok := doubtful(s, condition, cty.Bool, as.severity)
	switch {
	case !ok:
		c.Verdict = plan.CheckError
		c.Problems = append(c.Problems, "The condition could not be evaluated.")
		return
	case holds.True():
		return
	}
	text := "An assertion does not hold."
	if message, ok := doubtful(s, b.Arg("error_message"), cty.String, as.severity); ok {
		text = message.AsString()
	}
	if c.Verdict == plan.CheckPass {
		c.Verdict = plan.CheckFail
	}
	c.Problems = append(c.Problems, text)
	r := condition.Expr.Range()
	s.in.Add(&hcl.Diagnostic{
		Severity: as.severity, Summary: as.summary, Subject: &r,
		Detail:     fmt.Sprintf("%s%s", text, s.instanceNote(condition)),
		Expression: condition.Expr, EvalContext: s.ctx,
	})
}

// doubtful evaluates an argument of an assertion, and removes its marks. No secret is shown:
// a condition tells only whether it holds, and a message that contains a secret is replaced.
func doubtful(s scope, a *syntax.Attribute, want cty.Type, severity hcl.DiagnosticSeverity) (cty.Value, bool) {
	if a == nil || s.isWaiting(a) {
		return cty.NilVal, false
	}
	v, diags := s.result(a)
	marked := v.ContainsMarked()
	v, _ = v.UnmarkDeep()
	if !diags.HasErrors() {
		var err error
		if v, err = convert.Convert(v, want); err != nil || v.IsNull() {
			diags = append(diags, syntax.ErrorAt(a.Expr.Range(), "Wrong type", a.Name+" must be "+typeName(want)+"."))
		}
	}
	for _, d := range diags {
		d.Severity = severity
		d.Detail += s.instanceNote(a) + " The check could not be made."
	}
	s.in.Add(diags...)
	if marked && want == cty.String {
		v = cty.StringVal("The message of this assertion is not shown because it contains something sensitive.")
	}
	return v, len(diags) == 0
}
