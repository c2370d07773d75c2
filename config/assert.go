package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/locktree/locktree/plan"
)

// evaluateCheck evaluates the assertions of a check block. What is wrong with a
// value there is a warning: a check must never be what stops an apply. A name
// that does not exist is an error as everywhere.
func (m *module) evaluateCheck(d *decl) {
	s := m.scope(d)
	c := plan.Check{Addr: plan.Addr(m.prefix + d.addr), Origin: m.where(d.head), Verdict: plan.CheckPass}
	asserts := m.expandNested(s, d.block, "assert")
	// The blocks and not asserts: a dynamic one may well have no elements.
	if len(d.block.blocks) == 0 {
		m.errorf(d.head, "No assertions", "A check without an assertion checks nothing: add assert { condition = ..., error_message = ... }.")
	}
	for _, a := range asserts {
		m.evaluateAssert(a.s, a.block, &c)
	}
	m.checks = append(m.checks, c)
}

func (m *module) evaluateAssert(s scope, b *block, c *plan.Check) {
	condition := b.attrs["condition"]
	holds, ok := s.doubtful(condition, cty.Bool)
	switch {
	case !ok:
		c.Verdict = plan.CheckError
		c.Problems = append(c.Problems, "The condition could not be evaluated.")
		return
	case holds.True():
		return
	}
	text := "An assertion does not hold."
	if message, ok := s.doubtful(b.attrs["error_message"], cty.String); ok {
		text = message.AsString()
	}
	if c.Verdict == plan.CheckPass {
		c.Verdict = plan.CheckFail
	}
	c.Problems = append(c.Problems, text)
	r := condition.expr.Range()
	m.add(&hcl.Diagnostic{
		Severity: hcl.DiagWarning, Summary: "Check block assertion failed", Subject: &r,
		Detail:     fmt.Sprintf("%s%s", text, s.about(condition)),
		Expression: condition.expr, EvalContext: s.ctx,
	})
}

// doubtful evaluates an argument of an assertion, without marks: only whether it
// holds is shown, and a message that repeats a secret is replaced.
func (s scope) doubtful(a *attribute, want cty.Type) (cty.Value, bool) {
	if a == nil || s.waits(a) {
		return cty.NilVal, false
	}
	v, diags := s.evaluate(a)
	marked := v.ContainsMarked()
	v, _ = v.UnmarkDeep()
	if !diags.HasErrors() {
		var err error
		if v, err = convert.Convert(v, want); err != nil || v.IsNull() {
			diags = append(diags, errorAt(a.expr.Range(), "Wrong type", a.name+" must be "+typeName(want)+"."))
		}
	}
	for _, d := range diags {
		d.Severity = hcl.DiagWarning
		d.Detail += s.about(a) + " The check could not be made."
	}
	s.m.add(diags...)
	if marked && want == cty.String {
		v = cty.StringVal("The message of this assertion is not shown because it contains something sensitive.")
	}
	return v, len(diags) == 0
}
