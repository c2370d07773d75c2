// Command record reads language.txt and writes it with what Terraform makes of each line. It is compiled inside
// Terraform's module, by record.sh.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	version "github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/hashicorp/terraform/internal/addrs"
	"github.com/hashicorp/terraform/internal/configs"
	"github.com/hashicorp/terraform/internal/lang"
	"github.com/hashicorp/terraform/internal/terraform"
)

func main() {
	log.SetOutput(io.Discard)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		line := in.Text()
		if strings.HasPrefix(line, "\t") {
			continue // recorded before
		}
		fmt.Println(line)
		switch {
		case line == "version":
			fmt.Printf("\t%s\n", os.Args[1])
		case line == "functions":
			var names []string
			for name := range (&lang.Scope{BaseDir: "."}).Functions() {
				// list and map say that they are no more.
				if !strings.Contains(name, "::") && name != "list" && name != "map" {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			fmt.Printf("\t%s\n", strings.Join(names, " "))
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "variable | "):
			part := strings.Split(line, " | ")
			fmt.Printf("\t%s\n", variable(strings.ReplaceAll(part[1], "; ", "\n"), part[2], part[3]))
		default:
			fmt.Printf("\t%s\n", result(evaluate("", "", nil, line)))
		}
	}
}

// variable declares var.x with a body, and gives it a value in one of the ways there are.
func variable(body, how, value string) string {
	declaration := "variable \"x\" {\n" + body + "\n}\n"
	switch how {
	case "argument":
		return result(evaluate("module \"m\" {\n  source = \"./m\"\n  x = "+value+"\n}\n", declaration+"output \"x\" { value = var.x }\n", nil, "module.m.x"))
	case "environment":
		return result(evaluate(declaration, "", func(v *configs.Variable) (cty.Value, error) {
			out, diags := v.ParsingMode.Parse("x", value)
			return out, asError(diags)
		}, "var.x"))
	case "file":
		return result(evaluate(declaration, "", func(*configs.Variable) (cty.Value, error) {
			expr, diags := hclsyntax.ParseExpression([]byte(value), "file", hcl.InitialPos)
			if diags.HasErrors() {
				return cty.NilVal, diags
			}
			out, diags := expr.Value(nil)
			return out, asError(diags)
		}, "var.x"))
	}
	panic(how)
}

func asError(diags hcl.Diagnostics) error {
	if diags.HasErrors() {
		return diags
	}
	return nil
}

// evaluate evaluates an expression in a configuration.
func evaluate(root, child string, input func(*configs.Variable) (cty.Value, error), expression string) (cty.Value, error) {
	dir, err := os.MkdirTemp("", "record")
	if err != nil {
		log.Panic(err)
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{"main.tf": root, "m/m.tf": child, "note.txt": "one\ntwo\n", "t.tmpl": "%{ for x in xs }<${x}>%{ endfor }"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			log.Panic(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			log.Panic(err)
		}
	}
	if err := os.Chdir(dir); err != nil {
		log.Panic(err)
	}
	parser := configs.NewParser(nil)
	module, diags := parser.LoadConfigDir(".")
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	config, diags := configs.BuildConfig(module, configs.ModuleWalkerFunc(func(*configs.ModuleRequest) (*configs.Module, *version.Version, hcl.Diagnostics) {
		m, diags := parser.LoadConfigDir("m")
		return m, nil, diags
	}), nil)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	inputs := terraform.InputValues{}
	for name, v := range module.Variables {
		value, err := input(v)
		if err != nil {
			return cty.NilVal, err
		}
		inputs[name] = &terraform.InputValue{Value: value, SourceType: terraform.ValueFromEnvVar}
	}
	core, problems := terraform.NewContext(&terraform.ContextOpts{})
	if problems.HasErrors() {
		return cty.NilVal, problems.Err()
	}
	scope, problems := core.Eval(config, nil, addrs.RootModuleInstance, &terraform.EvalOpts{SetVariables: inputs})
	if problems.HasErrors() {
		return cty.NilVal, problems.Err()
	}
	expr, diags := hclsyntax.ParseExpression([]byte(expression), "expression", hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	v, problems := scope.EvalExpr(expr, cty.DynamicPseudoType)
	if problems.HasErrors() {
		return cty.NilVal, problems.Err()
	}
	return v, nil
}

// result is one line: the type and the value, or that there is none.
func result(v cty.Value, err error) string {
	if err != nil {
		text, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
		return "error: " + text
	}
	v, marks := v.UnmarkDeep()
	typ, err := ctyjson.MarshalType(v.Type())
	if err != nil {
		return "error: " + err.Error()
	}
	value, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		return "error: " + err.Error()
	}
	if !json.Valid(value) {
		log.Panic(string(value))
	}
	text := string(typ) + " " + string(value)
	if len(marks) > 0 {
		text += " sensitive"
	}
	return text
}
