package eval

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config/internal/functions"
	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan/explain"
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
	// Rejected variables fail only after the loop, so that every rule can use their values. Otherwise the order of
	// declarations would decide how many errors are shown.
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
	case set && !(isNull(in.value) && !v.Nullable && v.Fallback != nil): // a null takes the default if the variable is not nullable, as in Terraform
		at := v.Head
		if !v.Sensitive && in.rng != nil {
			at = *in.rng
		}
		return v.Fitting(in.value, at, in.from, e.Report)
	case v.Fallback == nil && e.All.opts.NoValues && e.outer == nil:
		unknown := cty.UnknownVal(v.Type.WithoutOptionalAttributesDeep())
		if v.Sensitive {
			unknown = unknown.Mark(functions.Sensitive)
		}
		return &static.Given{Value: unknown, At: v.Head}
	case v.Fallback == nil && !e.unread: // a file of values that could not be read may have the value
		noValue(v, e.Report)
	}
	return v.Fallback
}

// keeps reports whether a variable keeps the rule of a block. An error points at the place that the value comes from.
func keeps(e *Evaluation, v *static.Variable, rule *static.Decl, at hcl.Range) bool {
	return !rule.Broken && keepsRule(e.outsideGraph(rule), v, rule.Block, at)
}

func keepsRule(s scope, v *static.Variable, rule *syntax.Block, at hcl.Range) bool {
	condition := rule.Arg("condition")
	ok, valid := s.valueAs(condition, cty.Bool)
	if !valid {
		return !s.r.Failed // no value and no error: the rule cannot be checked yet
	}
	if ok, _ = ok.Unmark(); ok.True() {
		return true
	}
	text := "The value breaks a rule of its declaration."
	if message, ok := s.valueAs(rule.Arg("error_message"), cty.String); ok && !message.IsMarked() {
		text = message.AsString()
	}
	s.in.Add(&hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: "Invalid value for variable", Subject: &at,
		Detail:     fmt.Sprintf("%s\n\nThis was checked by the validation rule of var.%s at %s.", text, v.Block.Name(), s.in.Where(rule.Head)),
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

const (
	envPrefix   = "LOCKTREE_VAR_"
	inputSuffix = ".auto.ltvars"
)

// input is a value given for a variable.
type input struct {
	value  cty.Value
	from   string     // for messages
	rng    *hcl.Range // in a file; nil otherwise
	failed bool       // it could not be read, which has been reported
}

// readInputs collects the values of variables. Later sources win, in Terraform's
// order: environment, *.auto.ltvars in name order, then -var and -var-file as they
// are on the command line.
func (e *Evaluation) readInputs() {
	for _, set := range e.All.opts.Environ {
		name, text, ok := strings.Cut(set, "=")
		if name, ours := strings.CutPrefix(name, envPrefix); ok && ours && e.Declared.Variables[name] != nil {
			// The environment is shared: a name that is not one of our variables is no error.
			e.inputs[name] = e.parseInput(e.Declared.Variables[name], text, "the environment variable "+envPrefix+name)
		}
		if name, theirs := strings.CutPrefix(name, "TF_VAR_"); theirs && e.Declared.Variables[name] != nil {
			e.Add(syntax.WarningAt(e.Declared.Variables[name].Head, "A variable of Terraform is not read", fmt.Sprintf("TF_VAR_%s is set, and only Terraform reads it. Call it %s%s.", name, envPrefix, name)))
		}
	}
	theirs, _ := e.Declared.Files.Ending("terraform.tfvars", ".auto.tfvars")
	for _, file := range theirs {
		if len(e.Declared.Variables) > 0 {
			e.Add(syntax.WarningAt(syntax.FileStart(e.Declared.Files.Display(file)), "A file of Terraform is not read", "Only Terraform reads this file. Call it NAME"+inputSuffix+", or name it with -var-file."))
		}
	}
	files, _ := e.Declared.Files.Ending(inputSuffix, inputSuffix+".json")
	for _, file := range files {
		e.readInputFile(e.Declared.Files.Display(file), func() ([]byte, error) { return syntax.ReadText(e.Declared.Files.FS, file) })
	}
	for _, in := range e.All.opts.Inputs {
		if in.File != "" {
			e.readInputFile(in.File, in.read)
		} else {
			e.readSetting(in.Var)
		}
	}
}

func (in Input) read() ([]byte, error) {
	if in.Reader != nil {
		return syntax.ReadTextFrom(in.Reader)
	}
	return syntax.ReadTextFile(in.File)
}

// readSetting takes one NAME=VALUE of the command line.
func (e *Evaluation) readSetting(setting string) {
	at := syntax.FileStart("-var")
	name, text, ok := strings.Cut(setting, "=")
	if !ok {
		e.Errorf(at, "Invalid -var option", "A -var option is NAME=VALUE; this one has no equals sign. Most shells need quotes around all of it.")
		return
	}
	name = strings.TrimSpace(name)
	v := e.Declared.Variables[name]
	if v == nil {
		e.Errorf(at, "Value for undeclared variable", "There is no variable %q.%s", name, syntax.Hint(name, e.Declared.Names["var"], "None is declared."))
		return
	}
	e.inputs[name] = e.parseInput(v, text, "the option -var")
}

// parseInput reads a value that is outside a file, as Terraform does. If the type is a string, a number or a bool, or none is
// declared, the text is taken as it is. For every other type, and for the type "any", the text must be an expression.
func (e *Evaluation) parseInput(v *static.Variable, text, from string) input {
	name := v.Block.Name()
	if err := syntax.TextError(text); err != nil {
		e.Errorf(v.Head, "Invalid value for variable", "The value of var.%s, from %s, %v.", name, from, err)
		return input{failed: true}
	}
	if v.Type.IsPrimitiveType() || v.Block.Arg("type") == nil {
		return input{value: cty.StringVal(text), from: from}
	}
	expr, diags := syntax.ParseExpression(text, from, hcl.InitialPos)
	if diags.HasErrors() && syntax.QuotesNothing(diags[0]) {
		e.Errorf(v.Head, diags[0].Summary, "In the value of var.%s, from %s: %s", name, from, syntax.LowerFirst(diags[0].Detail))
		return input{failed: true}
	}
	if diags.HasErrors() {
		why := ": " + syntax.LowerFirst(diags[0].Summary)
		if v.Sensitive {
			why = ""
		}
		e.Errorf(v.Head, "Invalid value for variable", "The value of var.%s, from %s, is not an expression of the configuration language%s. Write a string as \"a\", a list as [\"a\", \"b\"], a map as { a = 1 }.", name, from, why)
		return input{failed: true}
	}
	return e.constant(v, expr, from, v.Head)
}

// constant is the value of an expression that is in no configuration.
func (e *Evaluation) constant(v *static.Variable, expr hcl.Expression, from string, at hcl.Range) input {
	value, diags := expr.Value(nil)
	if !diags.HasErrors() {
		return input{value: value, from: from}
	}
	e.Errorf(at, "Invalid value for variable", "The value of var.%s at %s %s", v.Block.Name(), from, v.NoConstant(diags))
	return input{failed: true}
}

// readInputFile reads a file of values. Snippets may show its text only when it names no sensitive variable and has no
// syntax error that could hide one.
func (e *Evaluation) readInputFile(shown string, read func() ([]byte, error)) {
	src, err := read()
	if err != nil {
		e.Errorf(syntax.FileStart(shown), "Cannot read the file", "%s", explain.Sentence(syntax.PlainError(err)))
		e.unread = true
		return
	}
	isJSON := strings.HasSuffix(shown, ".json")
	file, diags := syntax.ParseFile(src, shown, isJSON)
	if diags.HasErrors() {
		e.unread = true
		for _, d := range diags {
			// hcl quotes the text around some syntax errors. The detail names line and column, because no source is shown for this
			// place.
			at := syntax.Subject(d)
			detail := fmt.Sprintf("This file of variable values has a syntax error in line %d, column %d.", at.Start.Line, at.Start.Column)
			if syntax.QuotesNothing(d) {
				detail = fmt.Sprintf("In line %d, column %d: %s", at.Start.Line, at.Start.Column, syntax.LowerFirst(d.Detail))
			}
			e.Add(syntax.ErrorAt(at, d.Summary, detail))
		}
		return
	}
	attrs, diags := file.Body.JustAttributes()
	e.Add(diags...)
	quotable := true
	for name, a := range attrs {
		v := e.Declared.Variables[name]
		if v == nil {
			e.Add(syntax.WarningAt(a.NameRange, "Value for undeclared variable",
				fmt.Sprintf("There is no variable %q, so its value is not used.%s", name, syntax.Hint(name, e.Declared.Names["var"], "None is declared."))))
			// It may be a misspelt sensitive one, whose value would be quoted.
			quotable = quotable && explain.DidYouMean(name, e.Declared.Names["var"]) == ""
			continue
		}
		quotable = quotable && !v.Sensitive
		e.inputs[name] = e.fileInput(v, a, e.Where(a.Range))
	}
	if quotable {
		e.Declared.Files.Files[shown] = file
	}
}

func (e *Evaluation) fileInput(v *static.Variable, a *hcl.Attribute, from string) input {
	r := a.Expr.Range()
	at := r
	if v.Sensitive {
		at = v.Head
	}
	in := e.constant(v, a.Expr, from, at)
	in.rng = &r
	return in
}
