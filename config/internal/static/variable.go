package static

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/locktree/locktree/config/internal/functions"
	"github.com/locktree/locktree/config/internal/syntax"
)

// Variable is a variable block before it has a value.
type Variable struct {
	*Decl
	Type      cty.Type
	defaults  *typeexpr.Defaults
	Sensitive bool
	Nullable  bool
	Fallback  *Given  // its default; nil without one
	Rules     []*Decl // one for each validation block
}

// Given is a value for a variable, and what to show when it is wrong.
type Given struct {
	Value cty.Value
	At    hcl.Range
}

// declareVariables reads what variable blocks say. All of it is constant.
func (r *reading) declareVariables() {
	for _, name := range r.out.Names["var"] {
		d := r.out.Named["var"][name]
		v := &Variable{Decl: d, Type: cty.DynamicPseudoType, Nullable: true}
		if a := d.Block.Arg("type"); a != nil && !r.readType(v, a.Expr) {
			d.Broken = true
		}
		v.Sensitive = r.constantBool(d.Block.Arg("sensitive"), false)
		v.Nullable = r.constantBool(d.Block.Arg("nullable"), true)
		if a := d.Block.Arg("default"); a != nil && !d.Broken {
			v.Fallback = r.fallback(v, a.Expr)
			d.Broken = v.Fallback == nil
		}
		for _, b := range d.Block.Blocks {
			v.Rules = append(v.Rules, &Decl{Addr: d.Addr, Head: b.Head, Block: b, Attrs: b.All()})
		}
		r.out.Variables[name] = v
	}
}

// fallback is the default. It has no scope: it is a constant, so that it can be read without evaluating anything.
func (r *reading) fallback(v *Variable, expr hcl.Expression) *Given {
	value, diags := expr.Value(nil)
	if diags.HasErrors() {
		why := v.NoConstant(diags)
		if strings.HasPrefix(why, "must") {
			why += " Compute it in a local instead."
		}
		r.Errorf(expr.Range(), "Not a constant", "default %s", why)
		return nil
	}
	at := v.Head
	if !v.Sensitive {
		at = expr.Range()
	}
	return v.Fitting(value, at, "the default", r.Report)
}

func (r *reading) readType(v *Variable, expr hcl.Expression) bool {
	if text, ok := constantText(expr); ok && json.IsJSONExpression(expr) {
		if _, diags := syntax.ParseExpression(text, expr.Range().Filename, expr.Range().Start); len(diags) > 0 && syntax.QuotesNothing(diags[0]) {
			r.Add(diags...)
			return false
		}
	}
	switch hcl.ExprAsKeyword(expr) { // Terraform's shorthands
	case "list":
		v.Type = cty.List(cty.DynamicPseudoType)
		return true
	case "map":
		v.Type = cty.Map(cty.DynamicPseudoType)
		return true
	}
	ty, defaults, diags := typeexpr.TypeConstraintWithDefaults(expr)
	r.Add(syntax.Advised(diags)...)
	if !diags.HasErrors() {
		v.Type, v.defaults = ty, defaults
	}
	return !diags.HasErrors()
}

func (r *reading) constantBool(a *syntax.Attribute, def bool) bool {
	if a == nil {
		return def
	}
	v, diags := a.Expr.Value(nil)
	if !diags.HasErrors() {
		if c, err := convert.Convert(v, cty.Bool); err == nil && !c.IsNull() {
			return c.True()
		}
	}
	r.Errorf(a.Expr.Range(), "Wrong type", "%s must be written as true or false: it cannot depend on other values.", a.Name)
	return def
}

// resolveRule resolves the references of a validation block.
func resolveRule(in *Declarations, report *syntax.Report, rule *Decl, name string) bool {
	for _, a := range rule.Attrs {
		for _, t := range a.Expr.Variables() {
			if root := t.RootName(); root != "var" {
				report.Errorf(t.SourceRange(), "Unknown reference", "A validation can refer to variables only: var.%s.", name)
				return false
			}
			if !(resolver{in, report, rule, a}).traversal(t) {
				return false
			}
		}
	}
	return true
}

// Fitting converts a value to the variable's type. If it does not fit, the error points at the place that the value comes from.
func (v *Variable) Fitting(raw cty.Value, at hcl.Range, from string, r *syntax.Report) *Given {
	value, err := v.convert(raw)
	if err != nil {
		r.Errorf(at, "Invalid value for variable", "The value of var.%s, from %s, does not fit its type: %s. Change the value, or the type.", v.Block.Name(), from, ConversionError(err, v.Sensitive || raw.ContainsMarked()))
		return nil
	}
	if v.Sensitive {
		value = value.Mark(functions.Sensitive)
	}
	return &Given{value, at}
}

// convert first applies the type's optional() defaults, which may supply attributes that the conversion requires.
func (v *Variable) convert(raw cty.Value) (cty.Value, error) {
	if raw.IsNull() {
		if !v.Nullable {
			return raw, errors.New("it must not be null")
		}
		return cty.NullVal(v.Type.WithoutOptionalAttributesDeep()), nil
	}
	if v.defaults != nil {
		raw = v.defaults.Apply(raw)
	}
	return convert.Convert(raw, v.Type)
}

// NoConstant says why an expression without a scope has no value.
func (v *Variable) NoConstant(diags hcl.Diagnostics) string {
	switch why := diags[0]; {
	case why.Summary == "Variables not allowed" || why.Summary == "Function calls not allowed":
		return "must be a constant: it cannot refer to other values or call functions."
	case v.Sensitive:
		return "has no result. The reason is not shown because the variable is sensitive."
	default:
		return "has no result: " + syntax.LowerFirst(why.Detail)
	}
}

// fixedReason matches cty's conversion errors that quote only types, and names from the wanted type. For a sensitive value no other
// error is shown: the keys of a map are a part of the secret.
var fixedReason = regexp.MustCompile(`^((attribute "[^"]*"|incorrect [a-z ]+): )*(a (number|bool) is required.*|[a-z ]+ required(, but have [a-z ]+)?|` +
	`attributes? "[^"]*"(,? (and )?"[^"]*")* (is|are) required|all [a-z]+ elements must have the same type|all elements must be [a-z ]+|element types must all match [a-z ]+)$`)

// ConversionError writes the path of an error in front of it: element "b",
// attribute "permits": a number is required.
func ConversionError(err error, secret bool) string {
	why := err.Error()
	if secret && !fixedReason.MatchString(why) {
		why = "the reason is not shown because the value is sensitive"
	}
	var at cty.PathError
	if !errors.As(err, &at) || len(at.Path) == 0 {
		return why
	}
	text := ""
	for _, step := range at.Path {
		switch s := step.(type) {
		case cty.GetAttrStep:
			text += fmt.Sprintf("attribute %q, ", s.Name)
		case cty.IndexStep:
			key, _ := s.Key.Unmark()
			switch {
			case secret || !key.IsKnown() || key.IsNull():
			case key.Type() == cty.String:
				text += fmt.Sprintf("element %q, ", key.AsString())
			case key.Type() == cty.Number:
				text += fmt.Sprintf("element %s, ", key.AsBigFloat().Text('f', -1))
			}
		}
	}
	if text == "" {
		return why
	}
	return text[:len(text)-2] + ": " + why
}

// constantText is the value of an expression that is a string and depends on nothing.
func constantText(expr hcl.Expression) (string, bool) {
	v, diags := expr.Value(nil)
	if diags.HasErrors() || v.Type() != cty.String || v.IsNull() {
		return "", false
	}
	return v.AsString(), true
}
