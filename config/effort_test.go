package config

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/hcl/v2"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// Each of these took minutes or gigabytes. That this test ends is what it is about;
// that it says why is asserted.
func TestExpansionIsBounded(t *testing.T) {
	const big = "  big = join(\"\", [for i in range(1000) : \"0123456789012345678901234567890123456789\"])\n"
	const wide = "  wide = [for p in setproduct(range(100), range(1000)) : p[1]]\n"
	times := func(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+", ", n), ", ") }
	for name, c := range map[string]struct{ src, want string }{
		"loops in loops":        {"locals { a = [for i in range(1000) : [for j in range(1000) : [for k in range(1000) : [for l in range(1000) : 1]]]] }", "Too many steps"},
		"loops for keys":        {"locals { a = {for i in range(1000) : \"k${length([for j in range(1000) : [for k in range(1000) : [for l in range(1000) : 1]]])}\" => i... } }", "Too many steps"},
		"loops in conditions":   {"locals { a = [for i in range(1000) : i if length([for j in range(1000) : [for k in range(1000) : [for l in range(1000) : 1]]]) > 0] }", "Too many steps"},
		"loops in templates":    {"locals { a = \"%{ for i in range(1000) }%{ for j in range(1000) }%{ for k in range(1000) }%{ for l in range(1000) }%{ endfor }%{ endfor }%{ endfor }%{ endfor }\" }", "Too many steps"},
		"loops in a default":    {"variable \"v\" { default = [for i in " + fmt.Sprintf("[%s]", times(1000, "1")) + " : [for j in [" + times(1000, "1") + "] : [for k in [" + times(1000, "1") + "] : 1]]] }", "Not a constant"},
		"loops in a version":    {"locktree { required_version = " + literalLoops + " }", "Invalid version constraint"},
		"loops in a type":       {"variable \"v\" {\n  default = {}\n  type = object({ a = optional(list(any), " + literalLoops + ") })\n}", "Too many steps"},
		"loops in try":          {"locals { a = [for i in range(1000) : try([for j in range(1000) : [for k in range(1000) : [for l in range(1000) : 1]]], 0)] }", "Too many steps"},
		"a mistake in a loop":   {"locals {\n" + wide + "  a = [for w in local.wide : w.nothing]\n}", "Unsupported attribute"},
		"mistakes in a loop":    {"locals {\n" + wide + "  a = {for w in local.wide : w => w.nothing...}\n}", "Unsupported attribute"},
		"functions in loops":    {"locals {\n" + wide + "  a = [for w in local.wide : length(local.wide)]\n}", "steps"},
		"hashes in loops":       {"locals {\n" + big + wide + "  a = [for w in local.wide : length(sha512(\"${local.big}${local.big}${local.big}\"))]\n}", "steps"},
		"texts put together":    {"locals {\n" + big + "  a = length(\"" + strings.Repeat("${local.big}", 1500) + "\")\n}", "Value too large"},
		"texts in a loop":       {"locals {\n" + big + wide + "  a = [for w in local.wide : \"${local.big}!\"]\n}", "Value too large"},
		"text of a loop":        {"locals {\n" + big + wide + "  a = length(\"%{ for w in local.wide }${local.big}!%{ endfor }\")\n}", "Value too large"},
		"concat":                {"locals {\n" + wide + "  a = length(concat(" + times(1000, "local.wide") + "))\n}", "too large"},
		"flatten":               {"locals {\n" + wide + "  a = length(flatten([" + times(1000, "local.wide") + "]))\n}", "too large"},
		"jsonencode":            {"locals {\n" + wide + "  a = length(jsonencode([for i in range(1000) : local.wide]))\n}", "too large"},
		"setproduct":            {"locals {\n" + wide + "  a = length(setproduct(local.wide, local.wide, local.wide))\n}", "more than 1048576"},
		"format width":          {"locals { a = format(\"%2000000000d\", 1) }", "more than 1048576"},
		"format index":          {"locals {\n" + big + "  a = length(format(\"" + strings.Repeat("%[1]s", 200) + "\", local.big))\n}", "more than 1048576"},
		"format of a list":      {"locals {\n" + big + wide + "  a = length(formatlist(\"${local.big}%s\", local.wide))\n}", "more than 67108864"},
		"comparisons in loops":  {"locals {\n" + wide + "  a = [for i in range(1000) : local.wide == [for w in local.wide : w]]\n}", "Too many steps"},
		"conditions in loops":   {"locals {\n" + wide + "  a = [for i in range(1000) : (i == 1 ? local.wide : [for w in local.wide : 2])[0]]\n}", "Too many steps"},
		"splats in loops":       {"locals {\n" + wide + "  a = [for i in range(1000) : local.wide[*]]\n}", "Too many steps"},
		"literals in loops":     {"locals { a = [for i in range(1000) : [" + times(20_000, "1") + "]] }", "Too many steps"},
		"principals":            {"acl \"a\" {\n  grant {\n    to    = [for p in setproduct(range(10), range(1000)) : { name = \"x\", scheme = \"sasl\", id = \"u${p[0]}-${p[1]}\" }]\n    allow = \"admin\"\n  }\n}\nmutex \"m\" { acl = acl.a }", "Access list too long"},
		"format precision":      {"locals { a = format(\"%.2000000000f\", 1) }", "more than 1048576"},
		"range":                 {"locals { a = range(2000000000) }", "more than 1024"},
		"number literal":        {"locals { a = \"x${1e99999999}\" }", "Number too long"},
		"small number literal":  {"locals { a = \"x${1e-99999999}\" }", "Number too long"},
		"number of many digits": {"locals { a = 1" + strings.Repeat("0", 100_000) + " }", "Number too long"},
		"number from text":      {"locals { a = \"x${tonumber(\"1e99999999\")}\" }", "too large"},
		"number from JSON":      {"locals { a = \"x${jsondecode(\"{\\\"a\\\": 1e99999999}\").a}\" }", "too large"},
		"number by multiplying": {"locals {\n  a0 = 1e300\n" + squares(30) + "}", "Value too large"},
		"for_each by dynamic":   {"locals { r = range(1000) }\nprincipal \"p\" {\n  scheme = \"ip\"\n  id = \"10.0.0.1\"\n}\n" + manyDynamic(210), "Too many nodes"},
		"for_each of all":       {"locals {\n" + wide + "}\nmutex \"m\" { for_each = toset([for p in setproduct(range(1000), range(1000)) : \"${p[0]}-${p[1]}\"]) }", "1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			diags := loadHostile("x.locktree.hcl", preamble+c.src)
			require.True(t, diags.HasErrors())
			require.Contains(t, summaries(diags), c.want)
			require.Less(t, len(diags), 20, "one mistake, one message")
			for _, d := range diags {
				require.Less(t, len(d.Detail), 2000)
			}
		})
	}
}

// literalLoops needs no value, no function and no context to take hours.
var literalLoops = func() string {
	list := "[" + strings.Repeat("1,", 1000) + "]"
	return "[for i in " + list + " : [for j in " + list + " : [for k in " + list + " : 1]]]"
}()

// loadHostile loads with a part of the effort, which takes that part of the time.
func loadHostile(name, src string) hcl.Diagnostics {
	_, diags := loadWithin(maxEffort/25, fstest.MapFS{name: {Data: []byte(src)}}, Options{Environ: testEnviron})
	return diags
}

func loadWithin(left int, fsys fstest.MapFS, opts Options) (*Config, hcl.Diagnostics) {
	files := &sources{fsys: fsys, dir: ".", files: map[string]*hcl.File{}, report: &report{}}
	m, c := newModule(files, opts), &Config{Sources: files.files}
	m.effort.left = left
	m.open = func(sub string) (fs.FS, error) { return nil, fs.ErrNotExist }
	if m.build(c); m.hasErrors() {
		c = &Config{Sources: files.files}
	}
	return c, m.sorted()
}

func squares(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  a%d = local.a%d * local.a%d\n", i+1, i, i)
	}
	return b.String()
}

func manyDynamic(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "acl \"a%d\" {\n  dynamic \"grant\" {\n    for_each = local.r\n    content {\n      to = [principal.p]\n      allow = \"observe\"\n    }\n  }\n}\n", i)
	}
	return b.String()
}

// What people write is far from the limits, and nothing about it changes.
func TestCountedExpressionsMeanWhatTheyMeant(t *testing.T) {
	c := mustLoad(t, `
locals {
  teams = { for t in ["a", "b"] : t => [for i in range(3) : "${t}-${i}" if i != 1] }
  text  = "%{ for t, l in local.teams }${t}=${join("+", l)};%{ endfor }"
  tried = [for x in [{ a = 1 }, {}, { a = 3 }] : try(x.a, 0)]
  again = try([for x in [{}] : x.a], [for x in [1, 2] : x * 2])
  group = { for i in range(4) : (i % 2 == 0 ? "even" : "odd") => i... }
}
output "o" {
  value = jsonencode([local.teams, local.text, local.tried, local.again, local.group])
}
`)
	require.JSONEq(t, `[{"a":["a-0","a-2"],"b":["b-0","b-2"]},"a=a-0+a-2;b=b-0+b-2;",[1,0,3],[2,4],{"even":[0,2],"odd":[1,3]}]`, unquoted(t, c.Outputs[0].Value))
}

// hcl/json parses a text anew for each evaluation, so that nobody could count what its
// loops do; numbers are looked at before they are parsed.
func TestExpansionInJSONIsBounded(t *testing.T) {
	const loops = `${[for i in range(1000) : [for j in range(1000) : [for k in range(1000) : [for l in range(1000) : 1]]]]}`
	for name, c := range map[string]struct{ value, want string }{
		"number":                 {`1e99999999`, "Number too long"},
		"in a text":              {`"x${1e99999999}"`, "Number too long"},
		"functions":              {`"${length([for i in setproduct(range(100), range(1000)) : length(range(1000))])}"`, "steps"},
		"loops":                  {`"` + loops + `"`, "Too many steps"},
		"loops in an object":     {`{"a": [1, {"b": "` + loops + `"}]}`, "Too many steps"},
		"loops in a key":         {`{"x${length(` + strings.Trim(loops, "${}") + `)}": 1}`, "Too many steps"},
		"beside a broken text":   {`["${", "` + loops + `"]`, "Too many steps"},
		"loops in a template":    {`"%{ for i in range(1000) }%{ for j in range(1000) }%{ for k in range(1000) }%{ for l in range(1000) }%{ endfor }%{ endfor }%{ endfor }%{ endfor }"`, "Too many steps"},
		"brackets":               {`"${` + strings.Repeat("(", 1000) + `"`, "Nested too deeply"},
		"brackets by their code": {`"${` + strings.Repeat(`\u0028`, 1000) + `"`, "Nested too deeply"},
	} {
		t.Run(name, func(t *testing.T) {
			diags := loadHostile("x.locktree.json", `{"locktree": {"stack": "s"}, "locals": {"a": `+c.value+`}}`)
			require.Contains(t, summaries(diags), c.want)
			require.Less(t, len(diags), 20)
		})
	}
}

// The password is evaluated once more, to see whether it stands in the file.
func TestLiteralPasswordInJSONIsCounted(t *testing.T) {
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 1000), ",") + "]"
	loops := "${[for i in " + list + " : [for j in " + list + " : [for k in " + list + " : 1]]]}"
	diags := loadHostile("x.locktree.json", `{"locktree": {"stack": "s"}, "ensemble": {"main": {"servers": ["127.0.0.1:1"], "auth": {"digest": {"username": "u", "password": "`+loops+`"}}}}}`)
	require.Contains(t, summaries(diags), "Too many steps")
}

// What is parsed for evaluation means what hcl/json makes of it.
func TestJSONExpressionsMeanWhatTheyMeant(t *testing.T) {
	for _, value := range []string{
		`null`, `true`, `-1.5`, `""`, `"text"`, `"$${x} %%{y}"`, `"\u00e9\n"`, `[]`, `{}`, `[[], {}, null]`, `"${1 + 1}"`, `"a${1 + 1}b"`,
		`{"${upper("k")}": ["${[for x in [1, 2] : x * 2]}", "%{ for x in [1, 2] }${x};%{ endfor }"], "plain": {"//": 1}}`,
	} {
		file, diags := hcljson.Parse([]byte(`{"a": `+strings.ReplaceAll(value, `upper("k")`, `upper(\"k\")`)+`}`), "x.json")
		require.False(t, diags.HasErrors(), "%s: %v", value, diags)
		attrs, diags := file.Body.JustAttributes()
		require.False(t, diags.HasErrors(), "%s: %v", value, diags)
		ctx := &hcl.EvalContext{Functions: map[string]function.Function{"upper": stdlib.UpperFunc}}
		want, diags := attrs["a"].Expr.Value(ctx)
		require.False(t, diags.HasErrors(), "%s: %v", value, diags)
		got, diags := counted(attrs["a"].Expr).Value(ctx)
		require.False(t, diags.HasErrors(), "%s: %v", value, diags)
		require.True(t, want.RawEquals(got), "%s: %#v, %#v", value, want, got)
	}
}

// hcl/json panics on a key that is sensitive.
func TestKeysOfJSONObjects(t *testing.T) {
	load := func(object string) hcl.Diagnostics {
		return loadHostile("x.locktree.json", `{"locktree": {"stack": "s"}, "variable": {"s": {"default": "x", "sensitive": true}},
  "locals": {"a": `+object+`}, "output": {"o": {"value": "${local.a.x}"}}}`)
	}
	require.Contains(t, summaries(load(`{"${var.s}": 1}`)), "ensitive")
	require.Contains(t, summaries(load(`{"x": 1, "x": 2}`)), "Duplicate object attribute")
	require.Empty(t, load(`{"x": 1}`))
}

func unquoted(t *testing.T, value []byte) string {
	t.Helper()
	v, diags := parsedText(string(value))
	require.False(t, diags.HasErrors(), "%v", diags)
	return v
}

func parsedText(text string) (string, hcl.Diagnostics) {
	v, err := parseValue(text, "test")
	if err != nil {
		return "", hcl.Diagnostics{{Severity: hcl.DiagError, Summary: err.Error()}}
	}
	return v.AsString(), nil
}
