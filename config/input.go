package config

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
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
func (m *module) readInputs() {
	for _, e := range m.opts.Environ {
		name, text, ok := strings.Cut(e, "=")
		if name, ours := strings.CutPrefix(name, envPrefix); ok && ours && m.variables[name] != nil {
			// The environment is shared: a name that is not one of our variables is no error.
			m.inputs[name] = m.parseInput(m.variables[name], text, "the environment variable "+envPrefix+name)
		}
	}
	for _, file := range m.autoFiles() {
		m.readInputFile(m.files.display(file), func() ([]byte, error) { return readLimited(m.files.fsys, file, maxFileBytes) })
	}
	for _, in := range m.opts.Inputs {
		if in.File != "" {
			m.readInputFile(in.File, in.read)
		} else {
			m.readSetting(in.Var)
		}
	}
}

func (m *module) autoFiles() []string {
	entries, err := fs.ReadDir(m.files.fsys, ".")
	if err != nil {
		return nil // list has reported it
	}
	var out []string
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".json")
		if strings.HasSuffix(name, inputSuffix) && !strings.HasPrefix(name, ".") && !e.IsDir() {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out
}

func (in Input) read() ([]byte, error) {
	if in.Reader != nil {
		return readAtMost(in.Reader, maxFileBytes)
	}
	name := filepath.Clean(in.File)
	return readLimited(os.DirFS(filepath.Dir(name)), filepath.Base(name), maxFileBytes)
}

// readSetting takes one NAME=VALUE of the command line.
func (m *module) readSetting(setting string) {
	at := fileStart("-var")
	name, text, ok := strings.Cut(setting, "=")
	if !ok {
		m.errorf(at, "Invalid -var option", "A -var option is NAME=VALUE; this one has no equals sign. Most shells need quotes around all of it.")
		return
	}
	name = strings.TrimSpace(name)
	v := m.variables[name]
	if v == nil {
		m.errorf(at, "Value for undeclared variable", "There is no variable %q.%s", name, hint(name, m.names["var"], "None is declared."))
		return
	}
	m.inputs[name] = m.parseInput(v, text, "the option -var")
}

// parseInput reads a value that is outside a file, as Terraform does. Text is
// taken as it is where the type is a string, a number or a bool, or where none is
// declared; for every other type, any included, it must be an expression.
func (m *module) parseInput(v *variable, text, from string) input {
	if v.typ.IsPrimitiveType() || v.block.attrs["type"] == nil {
		return input{value: cty.StringVal(text), from: from}
	}
	name := v.block.name()
	expr, diags := hclsyntax.ParseExpression([]byte(text), from, hcl.InitialPos)
	var value cty.Value
	if !diags.HasErrors() {
		value, diags = expr.Value(nil)
	}
	if !diags.HasErrors() {
		return input{value: value, from: from}
	}
	why := ": " + lowerFirst(diags[0].Summary)
	if v.sensitive {
		why = ""
	}
	m.errorf(v.head, "Invalid value for variable", "The value of var.%s, from %s, is not an expression of the configuration language%s. Write a string as \"a\", a list as [\"a\", \"b\"], a map as { a = 1 }.", name, from, why)
	return input{failed: true}
}

// readInputFile reads a file of values. Snippets may show its text only when it names no sensitive variable and has no
// syntax error that could hide one.
func (m *module) readInputFile(shown string, read func() ([]byte, error)) {
	src, err := read()
	if err != nil {
		m.errorf(fileStart(shown), "Cannot read the file", "%s", sentence(plainError(err)))
		return
	}
	isJSON := strings.HasSuffix(shown, ".json")
	file, diags := parseFile(src, shown, isJSON)
	if diags.HasErrors() {
		for _, d := range diags {
			// hcl quotes the text around some syntax errors. The place is in the text, because without its source it is not shown.
			at := subject(d)
			m.add(errorAt(at, d.Summary, fmt.Sprintf("This file of variable values has a syntax error in line %d, column %d.", at.Start.Line, at.Start.Column)))
		}
		return
	}
	attrs, diags := file.Body.JustAttributes()
	m.add(diags...)
	quotable := true
	for name, a := range attrs {
		v := m.variables[name]
		if v == nil {
			m.add(warningAt(a.NameRange, "Value for undeclared variable",
				fmt.Sprintf("There is no variable %q, so its value is not used.%s", name, hint(name, m.names["var"], "None is declared."))))
			// It may be a misspelt sensitive one, whose value would be quoted.
			quotable = quotable && plan.DidYouMean(name, m.names["var"]) == ""
			continue
		}
		quotable = quotable && !v.sensitive
		m.inputs[name] = m.fileInput(v, a, m.where(a.Range))
	}
	if quotable {
		m.files.files[shown] = file
	}
}

func (m *module) fileInput(v *variable, a *hcl.Attribute, from string) input {
	value, diags := a.Expr.Value(nil)
	if !diags.HasErrors() {
		r := a.Expr.Range()
		return input{value: value, from: from, rng: &r}
	}
	at := a.Expr.Range()
	if v.sensitive {
		at = v.head
	}
	m.errorf(at, "Not a constant", "The value of var.%s at %s must be a constant: it cannot refer to other values or call functions.", v.block.name(), from)
	return input{failed: true}
}
