package config

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// consoleFile is what diagnostics call the expression that is evaluated.
const consoleFile = "<console>"

// Console evaluates expressions against a configuration, as if each were in an
// argument at the top of it. It contacts no server and changes nothing. It is
// not safe for use by several goroutines.
type Console struct {
	*build
	dirs directories // open as long as the console is: file() reads through them
}

// OpenConsole loads the configuration in dir. When the diagnostics contain an
// error only Sources may be called. Close it in any case.
func OpenConsole(dir string, opts Options) (*Console, hcl.Diagnostics) {
	c := &Console{dirs: directories{dir: dir}}
	c.build = newBuild(nil, dir, opts, c.dirs.open)
	root, err := c.dirs.open(".")
	if err != nil {
		c.noDirectory(dir, err)
		return c, c.sorted()
	}
	c.files.fsys = root
	c.run(&Config{Dir: dir})
	return c, c.sorted()
}

// Close releases the directories.
func (c *Console) Close() { c.dirs.close() }

// Sources are the files, and the last expression, by the name diagnostics use.
func (c *Console) Sources() map[string]*hcl.File { return c.files.files }

// Eval evaluates one expression and returns its value in the notation of the
// language, over several lines where it has parts. What is sensitive is written
// as "(sensitive value)".
func (c *Console) Eval(src string) (string, hcl.Diagnostics) {
	*c.report = report{dir: c.dir}
	c.files.files[consoleFile] = &hcl.File{Bytes: []byte(src)}
	v, ok := c.value(src)
	if !ok {
		return "", c.sorted()
	}
	return valueText(v), c.sorted()
}

func (c *Console) value(src string) (cty.Value, bool) {
	expr, diags := hclsyntax.ParseExpression([]byte(src), consoleFile, hcl.InitialPos)
	c.add(causes(diags)...)
	if diags.HasErrors() {
		return cty.NilVal, false
	}
	a := &attribute{name: "the value", expr: expr}
	d := &decl{addr: "console", head: expr.Range(), attrs: []*attribute{a}}
	// As resolve does for arguments; the declarations are evaluated, so that there is nothing to wait for.
	good := true
	for _, t := range expr.Variables() {
		good = resolver{c.root.declarations, c.report, d, a}.traversal(t) && good
	}
	if !good {
		return cty.NilVal, false
	}
	return c.root.apart(d).value(a)
}

// valueText writes a value as the language would. A list, set or map that no
// literal makes says which function does: tolist([...]).
func valueText(v cty.Value) string {
	ty := v.Type()
	switch {
	case !v.IsMarked() && !v.IsNull() && ty == cty.String && strings.HasSuffix(v.AsString(), "\n") && !strings.ContainsAny(v.AsString(), "\r\x1b"):
		mark := "EOT" // a heredoc shows several lines as they are
		for strings.Contains("\n"+v.AsString(), "\n"+mark) {
			mark += "_"
		}
		return "<<" + mark + "\n" + v.AsString() + mark
	default:
		return string(hclwrite.Format([]byte(literal(v))))
	}
}

// literal is the value without a layout.
func literal(v cty.Value) string {
	switch ty := v.Type(); {
	case v.IsMarked():
		return "(sensitive value)"
	case policyValue(v) != nil:
		return "acl." + policyValue(v).name
	case ensembleValue(v) != nil:
		return "ensemble." + ensembleValue(v).Name
	case v.IsNull() || ty.IsPrimitiveType():
		return string(hclwrite.TokensForValue(v).Bytes())
	case ty.IsObjectType():
		return parts(v, "{", "}")
	case ty.IsMapType():
		return parts(v, "tomap({", "})")
	case ty.IsListType():
		return parts(v, "tolist([", "])")
	case ty.IsSetType():
		return parts(v, "toset([", "])")
	case ty.IsTupleType():
		return parts(v, "[", "]")
	default:
		return ty.FriendlyName()
	}
}

func parts(v cty.Value, open, end string) string {
	var b strings.Builder
	for it := v.ElementIterator(); it.Next(); {
		key, e := it.Element()
		switch name := key; {
		case !strings.HasSuffix(open, "{"):
			b.WriteString(literal(e) + ",\n")
		case hclsyntax.ValidIdentifier(name.AsString()):
			b.WriteString(name.AsString() + " = " + literal(e) + "\n")
		default:
			b.WriteString(literal(name) + " = " + literal(e) + "\n")
		}
	}
	if b.Len() == 0 {
		return open + end
	}
	return open + "\n" + b.String() + end
}
