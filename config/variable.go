package config

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// variable is a variable block before it has a value.
type variable struct {
	*decl
	typ       cty.Type
	defaults  *typeexpr.Defaults
	sensitive bool
	nullable  bool
	broken    bool      // its declaration is wrong
	rejected  bool      // by a validation rule
	at        hcl.Range // what to show when the value is wrong
}

// evaluateVariable gives a variable its value: the input of the highest
// precedence, or the default.
func (m *module) evaluateVariable(d *decl) {
	v := m.variables[d.block.name()]
	if v.broken {
		d.failed = true
		return
	}
	fallback, ok := cty.NilVal, true
	if a := d.block.attrs["default"]; a != nil {
		at := d.head
		if !v.sensitive {
			at = a.expr.Range()
		}
		// No scope: a default is a constant, so that it can be read without
		// evaluating anything.
		var diags hcl.Diagnostics
		if fallback, diags = a.expr.Value(nil); diags.HasErrors() {
			m.errorf(a.expr.Range(), "Not a constant", "default must be a constant: it cannot refer to other values or call functions. Compute it in a local instead.")
			ok = false
		} else {
			fallback, ok = m.fitting(v, fallback, at, "the default")
		}
	}
	in, given := m.inputs[d.block.name()]
	switch {
	case !ok || in.failed:
		d.failed = true
	case given && !(isNull(in.value) && !v.nullable && fallback != cty.NilVal): // which takes the default, as in Terraform
		at := d.head
		if !v.sensitive && in.rng != nil {
			at = *in.rng
		}
		if d.value, ok = m.fitting(v, in.value, at, in.from); !ok {
			d.failed = true
		}
	case fallback != cty.NilVal:
		d.value = fallback
	default:
		m.noValue(v)
	}
}

func (m *module) isVariable(d *decl) bool {
	v := m.variables[d.block.name()]
	return v != nil && v.decl == d
}

// fitting is a value of the variable's type. at is where to point when it is wrong.
func (m *module) fitting(v *variable, raw cty.Value, at hcl.Range, from string) (cty.Value, bool) {
	name := v.block.name()
	value, err := v.convert(raw)
	if err != nil {
		m.errorf(at, "Invalid value for variable", "The value of var.%s, from %s, does not fit its type: %s. Change the value, or the type.", name, from, conversionError(err, v.sensitive || raw.ContainsMarked()))
		return cty.NilVal, false
	}
	if v.sensitive {
		value = value.Mark(sensitive)
	}
	v.at = at
	return value, true
}

// noValue says where to give a value. Everybody on the machine can read the command line of a running program: nothing
// sensitive belongs on it.
func (m *module) noValue(v *variable) {
	name := v.block.name()
	use := fmt.Sprintf("Use -var '%s=...', a *%s file, or the environment variable %s%s.", name, inputSuffix, envPrefix, name)
	if v.sensitive {
		use = fmt.Sprintf("It is sensitive: use the environment variable %s%s, or -var-file=- and write %s = ... to standard input.", envPrefix, name, name)
	}
	m.errorf(v.head, "No value for variable", "The variable %q has no default and no value was given. %s", name, use)
	v.failed = true
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

// declareVariables reads the arguments of variable blocks that say what a value
// must be. They are constants.
func (m *module) declareVariables() {
	for _, name := range m.names["var"] {
		d := m.named["var"][name]
		v := &variable{decl: d, typ: cty.DynamicPseudoType, nullable: true}
		if a := d.block.attrs["type"]; a != nil {
			v.broken = !m.readType(v, a.expr)
		}
		v.sensitive = m.constantBool(d.block.attrs["sensitive"], false)
		v.nullable = m.constantBool(d.block.attrs["nullable"], true)
		m.variables[name] = v
	}
}

func (m *module) readType(v *variable, expr hcl.Expression) bool {
	switch hcl.ExprAsKeyword(expr) { // Terraform's shorthands
	case "list":
		v.typ = cty.List(cty.DynamicPseudoType)
		return true
	case "map":
		v.typ = cty.Map(cty.DynamicPseudoType)
		return true
	}
	ty, defaults, diags := typeexpr.TypeConstraintWithDefaults(expr)
	m.add(advised(diags)...)
	if !diags.HasErrors() {
		v.typ, v.defaults = ty, defaults
	}
	return !diags.HasErrors()
}

func (m *module) constantBool(a *attribute, def bool) bool {
	if a == nil {
		return def
	}
	v, diags := a.expr.Value(nil)
	if !diags.HasErrors() {
		if c, err := convert.Convert(v, cty.Bool); err == nil && !c.IsNull() {
			return c.True()
		}
	}
	m.errorf(a.expr.Range(), "Wrong type", "%s must be written as true or false: it cannot depend on other values.", a.name)
	return def
}

// validate checks the validation rules when all these variables have their values, because a rule may refer to another
// variable.
func (m *module) validate(variables []*variable) {
	for _, v := range variables {
		for _, b := range v.block.blocks {
			if !v.failed && !m.checkRules(v, b) {
				v.rejected = true
			}
		}
	}
	// After the loop: a rule that refers to a refused variable is checked with its value. If that variable were failed
	// already, the order of declarations would decide how many errors are shown.
	for _, v := range variables {
		v.failed = v.failed || v.rejected
	}
}

// checkRules evaluates one validation block, or a dynamic one.
func (m *module) checkRules(v *variable, b *block) bool {
	rd := &decl{addr: v.addr, head: b.head, attrs: b.all()}
	for _, a := range rd.attrs {
		for _, t := range a.expr.Variables() {
			if root := t.RootName(); root != "var" && root != a.iterator {
				m.errorf(t.SourceRange(), "Unknown reference", "A validation can refer to variables only: var.%s.", v.block.name())
				return false
			}
			if !(resolver{m, rd, a}).traversal(t) {
				return false
			}
		}
	}
	good := true
	for _, rule := range m.expandNested(m.scope(rd), &block{blocks: []*block{b}}, "validation") {
		good = m.checkRule(v, rule.block, rule.s) && good
	}
	return good && !rd.failed
}

// checkRule evaluates one rule.
func (m *module) checkRule(v *variable, rule *block, s scope) bool {
	condition := rule.attrs["condition"]
	ok, valid := s.as(condition, cty.Bool)
	if !valid {
		return false
	}
	if ok, _ = ok.Unmark(); ok.True() {
		return true
	}
	text := "The value breaks a rule of its declaration."
	if message, ok := s.as(rule.attrs["error_message"], cty.String); ok && !message.IsMarked() {
		text = message.AsString()
	}
	m.add(&hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: "Invalid value for variable", Subject: &v.at,
		Detail:     fmt.Sprintf("%s\n\nThis was checked by the validation rule of var.%s at %s.", text, v.block.name(), m.where(rule.head)),
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
