package config

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/plan"
)

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
func (e *evaluation) readInputs() {
	for _, set := range e.opts.Environ {
		name, text, ok := strings.Cut(set, "=")
		if name, ours := strings.CutPrefix(name, envPrefix); ok && ours && e.variables[name] != nil {
			// The environment is shared: a name that is not one of our variables is no error.
			e.inputs[name] = e.parseInput(e.variables[name], text, "the environment variable "+envPrefix+name)
		}
		if name, theirs := strings.CutPrefix(name, "TF_VAR_"); theirs && e.variables[name] != nil {
			e.add(warningAt(e.variables[name].head, "A variable of Terraform is not read", fmt.Sprintf("TF_VAR_%s is set, and only Terraform reads it. Call it %s%s.", name, envPrefix, name)))
		}
	}
	theirs, _ := e.files.ending("terraform.tfvars", ".auto.tfvars")
	for _, file := range theirs {
		if len(e.variables) > 0 {
			e.add(warningAt(fileStart(e.files.display(file)), "A file of Terraform is not read", "Only Terraform reads this file. Call it NAME"+inputSuffix+", or name it with -var-file."))
		}
	}
	files, _ := e.files.ending(inputSuffix, inputSuffix+".json")
	for _, file := range files {
		e.readInputFile(e.files.display(file), func() ([]byte, error) { return readText(e.files.fsys, file) })
	}
	for _, in := range e.opts.Inputs {
		if in.File != "" {
			e.readInputFile(in.File, in.read)
		} else {
			e.readSetting(in.Var)
		}
	}
}

func (in Input) read() ([]byte, error) {
	if in.Reader != nil {
		src, err := readAtMost(in.Reader)
		return plainText(src), err
	}
	return readText(system{}, in.File)
}

// readSetting takes one NAME=VALUE of the command line.
func (e *evaluation) readSetting(setting string) {
	at := fileStart("-var")
	name, text, ok := strings.Cut(setting, "=")
	if !ok {
		e.errorf(at, "Invalid -var option", "A -var option is NAME=VALUE; this one has no equals sign. Most shells need quotes around all of it.")
		return
	}
	name = strings.TrimSpace(name)
	v := e.variables[name]
	if v == nil {
		e.errorf(at, "Value for undeclared variable", "There is no variable %q.%s", name, hint(name, e.names["var"], "None is declared."))
		return
	}
	e.inputs[name] = e.parseInput(v, text, "the option -var")
}

// parseInput reads a value that is outside a file, as Terraform does. Text is
// taken as it is where the type is a string, a number or a bool, or where none is
// declared; for every other type, any included, it must be an expression.
func (e *evaluation) parseInput(v *variable, text, from string) input {
	name := v.block.name()
	if err := TextError(text); err != nil {
		e.errorf(v.head, "Invalid value for variable", "The value of var.%s, from %s, %v.", name, from, err)
		return input{failed: true}
	}
	if v.typ.IsPrimitiveType() || v.block.arg("type") == nil {
		return input{value: cty.StringVal(text), from: from}
	}
	expr, diags := parseExpression(text, from, hcl.InitialPos)
	if diags.HasErrors() && quotesNothing(diags[0]) {
		e.errorf(v.head, diags[0].Summary, "In the value of var.%s, from %s: %s", name, from, lowerFirst(diags[0].Detail))
		return input{failed: true}
	}
	if diags.HasErrors() {
		why := ": " + lowerFirst(diags[0].Summary)
		if v.sensitive {
			why = ""
		}
		e.errorf(v.head, "Invalid value for variable", "The value of var.%s, from %s, is not an expression of the configuration language%s. Write a string as \"a\", a list as [\"a\", \"b\"], a map as { a = 1 }.", name, from, why)
		return input{failed: true}
	}
	return e.constant(v, expr, from, v.head)
}

// constant is the value of an expression that is in no configuration.
func (e *evaluation) constant(v *variable, expr hcl.Expression, from string, at hcl.Range) input {
	value, diags := expr.Value(nil)
	if !diags.HasErrors() {
		return input{value: value, from: from}
	}
	e.errorf(at, "Invalid value for variable", "The value of var.%s at %s %s", v.block.name(), from, v.noConstant(diags))
	return input{failed: true}
}

// noConstant says why an expression without a scope has no value.
func (v *variable) noConstant(diags hcl.Diagnostics) string {
	switch why := diags[0]; {
	case why.Summary == "Variables not allowed" || why.Summary == "Function calls not allowed":
		return "must be a constant: it cannot refer to other values or call functions."
	case v.sensitive:
		return "has no result. The reason is not shown because the variable is sensitive."
	default:
		return "has no result: " + lowerFirst(why.Detail)
	}
}

// readInputFile reads a file of values. Snippets may show its text only when it names no sensitive variable and has no
// syntax error that could hide one.
func (e *evaluation) readInputFile(shown string, read func() ([]byte, error)) {
	src, err := read()
	if err != nil {
		e.errorf(fileStart(shown), "Cannot read the file", "%s", plan.Sentence(plainError(err)))
		e.unread = true
		return
	}
	isJSON := strings.HasSuffix(shown, ".json")
	file, diags := parseFile(src, shown, isJSON)
	if diags.HasErrors() {
		e.unread = true
		for _, d := range diags {
			// hcl quotes the text around some syntax errors. The place is in the text, because without its source it is not shown.
			at := subject(d)
			detail := fmt.Sprintf("This file of variable values has a syntax error in line %d, column %d.", at.Start.Line, at.Start.Column)
			if quotesNothing(d) {
				detail = fmt.Sprintf("In line %d, column %d: %s", at.Start.Line, at.Start.Column, lowerFirst(d.Detail))
			}
			e.add(errorAt(at, d.Summary, detail))
		}
		return
	}
	attrs, diags := file.Body.JustAttributes()
	e.add(diags...)
	quotable := true
	for name, a := range attrs {
		v := e.variables[name]
		if v == nil {
			e.add(warningAt(a.NameRange, "Value for undeclared variable",
				fmt.Sprintf("There is no variable %q, so its value is not used.%s", name, hint(name, e.names["var"], "None is declared."))))
			// It may be a misspelt sensitive one, whose value would be quoted.
			quotable = quotable && plan.DidYouMean(name, e.names["var"]) == ""
			continue
		}
		quotable = quotable && !v.sensitive
		e.inputs[name] = e.fileInput(v, a, e.where(a.Range))
	}
	if quotable {
		e.files.files[shown] = file
	}
}

func (e *evaluation) fileInput(v *variable, a *hcl.Attribute, from string) input {
	r := a.Expr.Range()
	at := r
	if v.sensitive {
		at = v.head
	}
	in := e.constant(v, a.Expr, from, at)
	in.rng = &r
	return in
}
