package config

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

	"github.com/locktree/locktree/plan"
)

// variable is a variable block before it has a value.
type variable struct {
	*decl
	typ       cty.Type
	defaults  *typeexpr.Defaults
	sensitive bool
	nullable  bool
	fallback  *given  // its default; nil without one
	rules     []*decl // one for each validation block
}

// given is a value for a variable, and what to show when it is wrong.
type given struct {
	value cty.Value
	at    hcl.Range
}

// evaluateVariables gives the variables their values, and checks their rules when all of them have one, because a rule may refer
// to another variable.
func (e *evaluation) evaluateVariables() {
	values := map[*variable]*given{}
	for _, name := range e.names["var"] {
		v := e.variables[name]
		if v.broken {
			continue
		}
		if e.own(plan.Addr(e.prefix+v.addr), func() { values[v] = e.valueOf(v) }); values[v] == nil {
			e.of(v.decl).failed = true
		} else {
			e.of(v.decl).value = values[v].value
		}
	}
	var rejected []*variable
	for _, name := range e.names["var"] {
		v := e.variables[name]
		if values[v] == nil {
			continue
		}
		for _, rule := range v.rules {
			e.own(plan.Addr(e.prefix+v.addr), func() {
				if !e.keeps(v, rule, values[v].at) {
					rejected = append(rejected, v)
				}
			})
		}
	}
	// After the loop: a rule that refers to a refused variable is checked with its value. If that variable were failed
	// already, the order of declarations would decide how many errors are shown.
	for _, v := range rejected {
		e.of(v.decl).failed = true
	}
}

// valueOf is the input of the highest precedence, or the default; nil when there is none, which has been reported.
func (e *evaluation) valueOf(v *variable) *given {
	in, set := e.inputs[v.block.name()]
	switch {
	case in.failed:
		return nil
	case set && !(isNull(in.value) && !v.nullable && v.fallback != nil): // which takes the default, as in Terraform
		at := v.head
		if !v.sensitive && in.rng != nil {
			at = *in.rng
		}
		return v.fitting(in.value, at, in.from, e.report)
	case v.fallback == nil && e.code != nil && e.outer == nil:
		return v.unknown()
	case v.fallback == nil && !e.unread: // the value may be where nothing could be read
		v.noValue(e.report)
	}
	return v.fallback
}

// fitting is a value of the variable's type. at is where to point when it is wrong.
func (v *variable) fitting(raw cty.Value, at hcl.Range, from string, r *report) *given {
	value, err := v.convert(raw)
	if err != nil {
		r.errorf(at, "Invalid value for variable", "The value of var.%s, from %s, does not fit its type: %s. Change the value, or the type.", v.block.name(), from, conversionError(err, v.sensitive || raw.ContainsMarked()))
		return nil
	}
	if v.sensitive {
		value = value.Mark(sensitive)
	}
	return &given{value, at}
}

// noValue says where to give a value. Everybody on the machine can read the command line of a running program: nothing
// sensitive belongs on it.
func (v *variable) noValue(r *report) {
	name := v.block.name()
	use := fmt.Sprintf("Use -var '%s=...', a *%s file, or the environment variable %s%s.", name, inputSuffix, envPrefix, name)
	if v.sensitive {
		use = fmt.Sprintf("It is sensitive: use the environment variable %s%s, or -var-file=- and write %s = ... to standard input.", envPrefix, name, name)
	}
	r.errorf(v.head, "No value for variable", "The variable %q has no default and no value was given. %s", name, use)
}

// convert applies the type's optional() defaults first: they may supply what the
// conversion would miss.
func (v *variable) convert(raw cty.Value) (cty.Value, error) {
	if raw.IsNull() {
		if !v.nullable {
			return raw, errors.New("it must not be null")
		}
		return cty.NullVal(v.typ.WithoutOptionalAttributesDeep()), nil
	}
	if v.defaults != nil {
		raw = v.defaults.Apply(raw)
	}
	return convert.Convert(raw, v.typ)
}

// declareVariables reads what variable blocks say. All of it is constant.
func (r *reading) declareVariables() {
	for _, name := range r.names["var"] {
		d := r.named["var"][name]
		v := &variable{decl: d, typ: cty.DynamicPseudoType, nullable: true}
		if a := d.block.arg("type"); a != nil && !r.readType(v, a.expr) {
			d.broken = true
		}
		v.sensitive = r.constantBool(d.block.arg("sensitive"), false)
		v.nullable = r.constantBool(d.block.arg("nullable"), true)
		if a := d.block.arg("default"); a != nil && !d.broken {
			v.fallback = r.fallback(v, a.expr)
			d.broken = v.fallback == nil
		}
		for _, b := range d.block.blocks {
			v.rules = append(v.rules, &decl{addr: d.addr, head: b.head, block: b, attrs: b.all()})
		}
		r.variables[name] = v
	}
}

// fallback is the default. It has no scope: it is a constant, so that it can be read without evaluating anything.
func (r *reading) fallback(v *variable, expr hcl.Expression) *given {
	value, diags := expr.Value(nil)
	if diags.HasErrors() {
		why := v.noConstant(diags)
		if strings.HasPrefix(why, "must") {
			why += " Compute it in a local instead."
		}
		r.errorf(expr.Range(), "Not a constant", "default %s", why)
		return nil
	}
	at := v.head
	if !v.sensitive {
		at = expr.Range()
	}
	return v.fitting(value, at, "the default", r.report)
}

func (r *reading) readType(v *variable, expr hcl.Expression) bool {
	if text, ok := constantText(expr); ok && json.IsJSONExpression(expr) {
		if _, diags := parseExpression(text, expr.Range().Filename, expr.Range().Start); len(diags) > 0 && quotesNothing(diags[0]) {
			r.add(diags...)
			return false
		}
	}
	switch hcl.ExprAsKeyword(expr) { // Terraform's shorthands
	case "list":
		v.typ = cty.List(cty.DynamicPseudoType)
		return true
	case "map":
		v.typ = cty.Map(cty.DynamicPseudoType)
		return true
	}
	ty, defaults, diags := typeexpr.TypeConstraintWithDefaults(expr)
	r.add(advised(diags)...)
	if !diags.HasErrors() {
		v.typ, v.defaults = ty, defaults
	}
	return !diags.HasErrors()
}

func (r *report) constantBool(a *attribute, def bool) bool {
	if a == nil {
		return def
	}
	v, diags := a.expr.Value(nil)
	if !diags.HasErrors() {
		if c, err := convert.Convert(v, cty.Bool); err == nil && !c.IsNull() {
			return c.True()
		}
	}
	r.errorf(a.expr.Range(), "Wrong type", "%s must be written as true or false: it cannot depend on other values.", a.name)
	return def
}

// resolveRule resolves the references of a validation block.
func (r *reading) resolveRule(rule *decl, name string) bool {
	for _, a := range rule.attrs {
		for _, t := range a.expr.Variables() {
			if root := t.RootName(); root != "var" {
				r.errorf(t.SourceRange(), "Unknown reference", "A validation can refer to variables only: var.%s.", name)
				return false
			}
			if !(resolver{r.declarations, r.report, rule, a}).traversal(t) {
				return false
			}
		}
	}
	return true
}

// keeps reports whether a variable keeps the rules of a block. at is where its value comes from.
func (e *evaluation) keeps(v *variable, rule *decl, at hcl.Range) bool {
	return !rule.broken && e.apart(rule).keepsRule(v, rule.block, at)
}

func (s scope) keepsRule(v *variable, rule *block, at hcl.Range) bool {
	condition := rule.arg("condition")
	ok, valid := s.as(condition, cty.Bool)
	if !valid {
		return !s.r.failed // not known yet
	}
	if ok, _ = ok.Unmark(); ok.True() {
		return true
	}
	text := "The value breaks a rule of its declaration."
	if message, ok := s.as(rule.arg("error_message"), cty.String); ok && !message.IsMarked() {
		text = message.AsString()
	}
	s.add(&hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: "Invalid value for variable", Subject: &at,
		Detail:     fmt.Sprintf("%s\n\nThis was checked by the validation rule of var.%s at %s.", text, v.block.name(), s.where(rule.head)),
		Expression: condition.expr, EvalContext: s.ctx,
	})
	return false
}

// fixedReason matches what cty's package convert says of a value that does not fit a type, in types and in names that stand in the
// wanted type. Of a sensitive value nothing else is shown: the keys of a map are a part of the secret.
var fixedReason = regexp.MustCompile(`^((attribute "[^"]*"|incorrect [a-z ]+): )*(a (number|bool) is required.*|[a-z ]+ required(, but have [a-z ]+)?|` +
	`attributes? "[^"]*"(,? (and )?"[^"]*")* (is|are) required|all [a-z]+ elements must have the same type|all elements must be [a-z ]+|element types must all match [a-z ]+)$`)

// conversionError writes the path of an error in front of it: element "b",
// attribute "permits": a number is required.
func conversionError(err error, secret bool) string {
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
