package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// effort is what all evaluations of one Load may still cost, in visits of one
// element. HCL has no way to stop an evaluation, and three "for" expressions in each
// other over a list of a thousand are a billion steps; so parts of the expressions
// are replaced by ones that count (see [effort.watch]), and so are the functions.
type effort struct {
	left int
	why  string // it is used up, where there is more to say than that
}

// A visit takes 50 to 200 ns. A step of a loop makes a context and calls at least
// one expression, which is some ten times that. So is the comparison of two elements, 0.7 us.
const (
	maxEffort  = 50_000_000
	stepEffort = 10
)

func (e *effort) spend(n int) bool {
	e.left -= n
	return e.left >= 0
}

// advice is what to do when nothing is left.
func (e *effort) advice() string {
	if e.why != "" {
		return e.why
	}
	return fmt.Sprintf(effortAdvice, maxEffort/1_000_000)
}

const effortAdvice = "All expressions together may visit some %d million elements. Nest fewer \"for\" expressions, over shorter lists, or name what they have in common in a local."

// watch replaces the parts of an expression that repeat or multiply. It must be
// called after the references were resolved, and may be called again. Expressions of
// JSON files must go through [counted] first, unless they are evaluated without a
// context, where hcl/json takes texts as they are.
func (e *effort) watch(expr hcl.Expression) {
	node, ok := expr.(hclsyntax.Node)
	if !ok {
		return
	}
	_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.ForExpr:
			r := &repeat{effort: e, at: n.SrcRange, vars: []string{n.KeyVar, n.ValVar}}
			r.wrap(&n.CollExpr, true)
			r.wrap(&n.KeyExpr, false)
			r.wrap(&n.ValExpr, false)
			r.wrap(&n.CondExpr, false)
		case *hclsyntax.TemplateExpr:
			r := &repeat{effort: e, at: n.SrcRange, text: maxTextBytes}
			if len(n.Parts) < 2 {
				break // nothing is put together
			}
			for i := range n.Parts {
				r.wrap(&n.Parts[i], i == 0)
			}
		case *hclsyntax.BinaryOpExpr:
			if n.Op == hclsyntax.OpEqual || n.Op == hclsyntax.OpNotEqual {
				c := &operands{effort: e, at: n.SrcRange}
				c.wrap(&n.LHS, true)
				c.wrap(&n.RHS, false)
			}
		case *hclsyntax.ConditionalExpr:
			c := &operands{effort: e, at: n.SrcRange, unify: true}
			c.wrap(&n.TrueResult, true)
			c.wrap(&n.FalseResult, false)
		case *hclsyntax.SplatExpr:
			c := &operands{effort: e, at: n.SrcRange}
			c.wrap(&n.Source, true)
		case *hclsyntax.FunctionCallExpr:
			if _, ok := pure[n.Name]; !ok {
				break // try and its like are given expressions, and list(string) is a type
			}
			r := &repeat{effort: e, at: n.Range(), args: true}
			for i := range n.Args {
				r.wrap(&n.Args[i], i == 0)
			}
		}
		return nil
	})
}

// evaluated is the expression of an argument that is about to be evaluated.
func (s *session) evaluated(a *attribute) hcl.Expression {
	if a.value == nil {
		a.value = counted(a.expr)
		s.effort.watch(a.value)
	}
	return a.value
}

// repeat is one "for" expression, one text with references, or the arguments of one
// function call, while it is evaluated. One state for each is enough: no expression is evaluated
// inside of itself, since nobody can declare a function and a template cannot render templates.
//
// The trees are shared, though: those of a module that is called twice, and of its instances, are
// the same, which is why wrap looks whether it has been there and why the first part starts anew.
type repeat struct {
	*effort
	at      hcl.Range
	args    bool    // of a function
	text    int     // most bytes of text; 0 for a for expression
	bytes   int     // of text so far
	sum     weigher // of arguments so far
	stopped bool    // by the first mistake: HCL would report it for each element

	vars  []string       // of a for expression
	marks cty.ValueMarks // of its collection
}

// watched is an expression that is a part of a repeat. It embeds the original in
// parentheses: HCL's walks then meet it as if nothing stood around it.
type watched struct {
	*hclsyntax.ParenthesesExpr
	*repeat
	first bool // its evaluation begins the repeat anew
	cost  int  // of one evaluation
}

func (r *repeat) wrap(expr *hclsyntax.Expression, first bool) {
	if *expr == nil {
		return
	}
	if _, done := (*expr).(*watched); done {
		return
	}
	cost := stepEffort
	if r.text == 0 && !r.args && !first {
		cost = max(cost, size(*expr))
	}
	*expr = &watched{&hclsyntax.ParenthesesExpr{Expression: *expr, SrcRange: (*expr).Range()}, r, first, cost}
}

// size is how many parts an expression is written with, each of which a step of a loop evaluates: a list of
// 100,000 literals is no repetition by itself, but one in a loop is ("literals in loops").
func size(expr hclsyntax.Expression) int {
	n := 0
	_ = hclsyntax.VisitAll(expr, func(hclsyntax.Node) hcl.Diagnostics { n++; return nil })
	return n
}

// Value evaluates the original, unless it is of no use any more.
func (w *watched) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if w.first {
		w.stopped, w.bytes, w.sum = false, 0, weigher{loose: true}
	}
	if w.stopped {
		return cty.DynamicVal, nil
	}
	if !w.spend(w.cost) {
		return w.stop("Too many steps", w.advice())
	}
	w.mark(ctx)
	v, diags := w.Expression.Value(ctx)
	if diags.HasErrors() && (!w.first || w.text > 0 || w.args) {
		w.stopped = true
	}
	if w.args && !diags.HasErrors() {
		// Before cty sees them, which looks for marks in each element first.
		if err := w.charge(&w.sum, v); err != nil {
			return w.stop("Expression too large", sentence(err.Error()))
		}
		return v, diags
	}
	if w.first && w.text == 0 {
		_, w.marks = v.Unmark()
		return v, diags // the collection, which is no text that is put together
	}
	if plain, _ := v.Unmark(); plain.Type() == cty.String && plain.IsKnown() && !plain.IsNull() {
		w.bytes += len(plain.AsString())
	}
	limit := w.text
	if limit == 0 {
		limit = maxValueBytes
	}
	if w.bytes > limit {
		return w.stop("Value too large", fmt.Sprintf("The texts put together here have more than %d MiB. Split it up.", limit>>20))
	}
	return v, diags
}

// mark gives the variables of a loop the marks of what it goes through. HCL takes them off and puts them on
// the result, so that a mistake in the loop would quote an element of a sensitive list, and functions would
// not know what they are given. ctx is of this step, which HCL made for it.
func (w *watched) mark(ctx *hcl.EvalContext) {
	if w.first || len(w.marks) == 0 {
		return
	}
	for _, name := range w.vars {
		if v, ok := ctx.Variables[name]; ok {
			ctx.Variables[name] = v.WithMarks(w.marks)
		}
	}
}

func (r *repeat) stop(summary, detail string) (cty.Value, hcl.Diagnostics) {
	r.stopped = true
	return cty.DynamicVal, hcl.Diagnostics{errorAt(r.at, summary, detail)}
}

// charge is what values cost that go into a function or come out of it: they are gone
// through at least once, by cty for their marks if by nobody else. sum is of those so
// far.
func (e *effort) charge(sum *weigher, values ...cty.Value) error {
	before := *sum
	for _, v := range values {
		sum.add(v)
	}
	switch {
	case sum.over():
		return fmt.Errorf("the values are too large: a function takes and gives at most %d elements, %d MiB in all, %d MiB in one text and numbers of %d digits", maxValueElements, maxValueBytes>>20, maxTextBytes>>20, maxDigits)
	case !e.spend(sum.elements - before.elements + (sum.bytes-before.bytes)/64):
		return fmt.Errorf("too many steps: "+lowerFirst(effortAdvice), maxEffort/1_000_000)
	}
	return nil
}
