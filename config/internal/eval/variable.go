package eval

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config/internal/functions"
	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/config/internal/syntax"
)

// evaluateVariables gives the variables their values, and checks their rules when all of them have one, because a rule may refer
// to another variable.
func evaluateVariables(e *Evaluation) {
	values := map[*static.Variable]*static.Given{}
	for _, name := range e.Declared.Names["var"] {
		v := e.Declared.Variables[name]
		if v.Broken {
			continue
		}
		if values[v] = valueOf(e, v); values[v] == nil {
			e.Of(v.Decl).Failed = true
		} else {
			e.Of(v.Decl).Value = values[v].Value
		}
	}
	var rejected []*static.Variable
	for _, name := range e.Declared.Names["var"] {
		v := e.Declared.Variables[name]
		if values[v] == nil {
			continue
		}
		for _, rule := range v.Rules {
			if !keeps(e, v, rule, values[v].At) {
				rejected = append(rejected, v)
			}
		}
	}
	// After the loop: a rule that refers to a refused variable is checked with its value. If that variable were failed
	// already, the order of declarations would decide how many errors are shown.
	for _, v := range rejected {
		e.Of(v.Decl).Failed = true
	}
}

// valueOf is the input of the highest precedence, or the default; nil when there is none, which has been reported.
func valueOf(e *Evaluation, v *static.Variable) *static.Given {
	in, set := e.inputs[v.Block.Name()]
	switch {
	case in.failed:
		return nil
	case set && !(isNull(in.value) && !v.Nullable && v.Fallback != nil): // which takes the default, as in Terraform
		at := v.Head
		if !v.Sensitive && in.rng != nil {
			at = *in.rng
		}
		return v.Fitting(in.value, at, in.from, e.Report)
	case v.Fallback == nil && e.opts.NoValues && e.outer == nil:
		return unknownValue(v)
	case v.Fallback == nil && !e.unread: // the value may be where nothing could be read
		noValue(v, e.Report)
	}
	return v.Fallback
}

// keeps reports whether a variable keeps the rules of a block. at is where its value comes from.
func keeps(e *Evaluation, v *static.Variable, rule *static.Decl, at hcl.Range) bool {
	return !rule.Broken && keepsRule(e.apart(rule), v, rule.Block, at)
}

func keepsRule(s scope, v *static.Variable, rule *syntax.Block, at hcl.Range) bool {
	condition := rule.Arg("condition")
	ok, valid := s.as(condition, cty.Bool)
	if !valid {
		return !s.r.Failed // not known yet
	}
	if ok, _ = ok.Unmark(); ok.True() {
		return true
	}
	text := "The value breaks a rule of its declaration."
	if message, ok := s.as(rule.Arg("error_message"), cty.String); ok && !message.IsMarked() {
		text = message.AsString()
	}
	s.Add(&hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: "Invalid value for variable", Subject: &at,
		Detail:     fmt.Sprintf("%s\n\nThis was checked by the validation rule of var.%s at %s.", text, v.Block.Name(), s.Where(rule.Head)),
		Expression: condition.Expr, EvalContext: s.ctx,
	})
	return false
}

// noValue says where to give a value. Everybody on the machine can read the command line of a running program: nothing
// sensitive belongs on it.
func noValue(v *static.Variable, r *syntax.Report) {
	name := v.Block.Name()
	use := fmt.Sprintf("Use -var '%s=...', a *%s file, or the environment variable %s%s.", name, inputSuffix, envPrefix, name)
	if v.Sensitive {
		use = fmt.Sprintf("It is sensitive: use the environment variable %s%s, or -var-file=- and write %s = ... to standard input.", envPrefix, name, name)
	}
	r.Errorf(v.Head, "No value for variable", "The variable %q has no default and no value was given. %s", name, use)
}

// unknownValue is that of a variable without a default, where no values are given.
func unknownValue(v *static.Variable) *static.Given {
	value := cty.UnknownVal(v.Type.WithoutOptionalAttributesDeep())
	if v.Sensitive {
		value = value.Mark(functions.Sensitive)
	}
	return &static.Given{Value: value, At: v.Head}
}
