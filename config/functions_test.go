package config_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/locktree/locktree/config"
)

// functionCases call the functions that testdata/terraform/language.txt does not call, or not in this way.
var functionCases = map[string][]struct{ expr, want string }{
	"abs":          {{`abs(-1.5)`, `1.5`}},
	"ceil":         {{`ceil(1.2)`, `2`}},
	"floor":        {{`floor(-1.2)`, `-2`}},
	"log":          {{`log(16, 2)`, `4`}},
	"parseint":     {{`parseint("ff", 16)`, `255`}},
	"pow":          {{`pow(2, 10)`, `1024`}},
	"signum":       {{`signum(-3)`, `-1`}},
	"chomp":        {{`chomp("a\n")`, `"a"`}},
	"formatdate":   {{`formatdate("YYYY-MM-DD", "2026-11-27T08:00:00Z")`, `"2026-11-27"`}},
	"formatlist":   {{`formatlist("%s-%d", ["a", "b"], 1)`, `["a-1", "b-1"]`}},
	"indent":       {{`indent(2, "a\nb")`, `"a\n  b"`}},
	"regexall":     {{`regexall("[0-9]", "1a2")`, `["1", "2"]`}},
	"strcontains":  {{`strcontains("abc", "b")`, `true`}, {`strcontains("abc", "d")`, `false`}},
	"strrev":       {{`strrev("añb")`, `"bña"`}},
	"substr":       {{`substr("hello", 1, 3)`, `"ell"`}, {`substr("hello", -2, -1)`, `"lo"`}},
	"timeadd":      {{`timeadd("2026-11-27T08:00:00Z", "90m")`, `"2026-11-27T09:30:00Z"`}},
	"title":        {{`title("two words")`, `"Two Words"`}},
	"trim":         {{`trim("?!a!", "?!")`, `"a"`}},
	"chunklist":    {{`chunklist([1, 2, 3], 2)`, `[[1, 2], [3]]`}},
	"coalescelist": {{`coalescelist([], [1])`, `[1]`}},
	"compact":      {{`compact(["a", "", null])`, `["a"]`}},
	"element":      {{`element(["a", "b"], 3)`, `"b"`}},
	"reverse":      {{`reverse([1, 2])`, `[2, 1]`}},
	"slice":        {{`slice(["a", "b", "c"], 1, 2)`, `["b"]`}},
	"csvdecode":    {{`csvdecode("a,b\n1,2\n")`, `[{"a": "1", "b": "2"}]`}},
	"jsonencode":   {{`jsonencode({ a = ["<", null] })`, `"{\"a\":[\"\\u003c\",null]}"`}},
	"sum":          {{`sum(toset([1, 2]))`, `3`}},
	"endswith":     {{`endswith("abc", "bc")`, `true`}, {`endswith("abc", "b")`, `false`}},
	"startswith":   {{`startswith("abc", "ab")`, `true`}, {`startswith("abc", "b")`, `false`}},
	"tostring": {{`issensitive(tostring(sensitive(2)))`, `true`},
		// tostring and a template give the same text for a number
		{`[for n in [12 * 1000, -7, 0, -0, 1 / 4, 9007199254740992, 9007199254740993, 1e30] : n if "=${tostring(n)}" != "=${n}"]`, `[]`}},
	"znodepath":    {{`znodepath("/a/", "b/c")`, `"/a/b/c"`}, {`znodepath()`, `"/"`}},
	"nonsensitive": {{`nonsensitive(env("PASSWORD"))`, `"correct horse"`}},
	"digest":       {{`nonsensitive(digest("us", "secret"))`, `"us:YH0c/lnVB2oYwTNmbjdFOrkBy7U="`}, {`issensitive(digest("us", "secret"))`, `true`}},
	"env":          {{`issensitive(env("PASSWORD"))`, `true`}, {`try(env("UNSET"), "no")`, `"no"`}},
	"file":         {{`file("text.txt")`, `"hello ${name}"`}, {`file("${path.module}/sub/../text.txt")`, `"hello ${name}"`}},
}

func evalIn(t *testing.T, dir, expr string) (string, string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.locktree.hcl"), []byte(preamble+"output \"o\" {\n  value = "+expr+"\n}\n"), 0o666))
	c, diags := config.Load(dir, config.Options{Environ: testEnviron})
	if diags.HasErrors() {
		return "", render(t, c, diags)
	}
	return string(c.Outputs[0].Value), ""
}

func TestEachFunctionReturnsItsValue(t *testing.T) {
	dir := writeDir(t, map[string]string{"text.txt": "hello ${name}", "sub/x": ""})
	for name, cases := range functionCases {
		for _, c := range cases {
			got, problem := evalIn(t, dir, c.expr)
			require.Empty(t, problem, "%s: %s", name, c.expr)
			require.JSONEq(t, c.want, got, c.expr)
		}
	}
}

func TestEveryFunctionIsTested(t *testing.T) {
	recorded := strings.Join(slices.Collect(maps.Keys(recordedByTerraform(t))), "\n")
	for _, name := range config.Functions() {
		require.True(t, functionCases[name] != nil || regexp.MustCompile(`\b`+name+`\(`).MatchString(recorded), name)
	}
}

// hcl suggested a different name each time, however unlike the given one.
func TestSuggestionForAnUnknownFunctionIsAlwaysTheSame(t *testing.T) {
	for range 20 {
		_, diags := loadText(preamble+"locals {\n  a = foo(1)\n  b = max1(1)\n}\n", config.Options{Environ: testEnviron})
		require.Len(t, diags, 2)
		require.Equal(t, `There is no function named "foo".`, diags[0].Detail)
		require.Equal(t, `There is no function named "max1". Did you mean "max"?`, diags[1].Detail)
	}
}

func TestFunctionErrorsSayWhatToDo(t *testing.T) {
	dir := writeDir(t, map[string]string{"binary": "\xff\xfe", "sub/x": ""})
	require.NoError(t, os.Symlink(filepath.Join(writeDir(t, map[string]string{"secret": "canary"}), "secret"), filepath.Join(dir, "link")))
	for expr, want := range map[string]string{
		`env("UNSET")`:                      "export it",
		`file("/etc/hostname")`:             "only files in the directory of the module",
		`file("../x")`:                      "only files in the directory of the module",
		`file("link")`:                      "cannot read link", // to a file outside
		`file("none")`:                      "no such file",
		`file("binary")`:                    "is not valid UTF-8",
		`digest("a:b", "c")`:                "colon",
		`znodepath("a", "..")`:              "no relative paths",
		`znodepath("zookeeper", "quota")`:   "belongs to ZooKeeper",
		`sum(["x"])`:                        "a number is required",
		`sum({})`:                           "list of number required",
		`sum([])`:                           "sum(concat([0], ...))",
		`coalesce(null, "")`:                "every argument is null or an empty string",
		`lookup({}, "a")`:                   "write lookup(MAP, KEY, DEFAULT)",
		`lookup({}, "a", 1, 2)`:             "one default at most",
		`lookup([], "a", 1)`:                "must be a map",
		`lookup(tomap({ a = 1 }), "a", [])`: "must be of the type of the elements: number required",
		`length(1)`:                         "must be a string, a list",
		`replace("a", "/(/", "b")`:          "not a regular expression",
	} {
		_, problem := evalIn(t, dir, expr)
		require.Contains(t, problem, want, expr)
		require.NotContains(t, problem, "canary")
	}
}

// TestLanguageIsTerraforms compares the values of expressions and variables with those of Terraform, which testdata/terraform/record.sh has
// recorded. "help from-terraform" must list exactly the values that are meant to differ, as they are here. It lists the functions that
// only one of the two has, too.
func TestLanguageIsTerraforms(t *testing.T) {
	topic, err := os.ReadFile("../cmd/locktree/internal/help/topics/from-terraform.txt")
	require.NoError(t, err)
	expressions := expressionsIn(t, "", "")
	recorded := recordedByTerraform(t)
	require.Greater(t, len(recorded), 450)
	var different []string
	for _, given := range slices.Sorted(maps.Keys(recorded)) {
		theirs := recorded[given]
		if given == "functions" {
			functionsAreListed(t, string(topic), strings.Fields(theirs))
			continue
		}
		if strings.HasPrefix(theirs, "error") {
			theirs = "error" // the words may differ
		}
		ours := ""
		if strings.HasPrefix(given, "variable | ") {
			ours = variableHere(t, given)
		} else {
			ours = worth(expressions, given)
		}
		if ours != theirs {
			different = append(different, "    "+given+"  "+ours)
		}
	}
	_, list, _ := strings.Cut(string(topic), "Each line shows an expression, and its type and value in locktree:\n")
	require.Equal(t, strings.Join(different, "\n"), strings.TrimRight(list, "\n"))
}

// recordedByTerraform has the recorded text for each expression, and for "functions".
func recordedByTerraform(t testing.TB) map[string]string {
	text, err := os.ReadFile("../testdata/terraform/language.txt")
	require.NoError(t, err)
	recorded := map[string]string{}
	lines := strings.Split(string(text), "\n")
	for i, given := range lines[:len(lines)-1] {
		if theirs, ok := strings.CutPrefix(lines[i+1], "\t"); ok && !strings.HasPrefix(given, "\t") && given != "version" {
			recorded[given] = theirs
		}
	}
	return recorded
}

// functionsAreListed checks the topic's two lists of functions: those that only Terraform has, and those that it does not have.
func functionsAreListed(t *testing.T, topic string, theirs []string) {
	ours, but := config.Functions(), func(all, some []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(f string) bool { return slices.Contains(some, f) })
	}
	for before, want := range map[string][]string{"these functions:\n": but(theirs, ours), "more here:": but(ours, theirs)} {
		_, list, found := strings.Cut(topic, before)
		require.True(t, found, before)
		list, _, _ = strings.Cut(list, ".")
		require.Equal(t, want, strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(" \n,", r) }), before)
	}
}

// expressionsIn evaluates expressions in a configuration like that of record.go.
func expressionsIn(t *testing.T, root, child string, opts ...func(*config.Options)) *config.Expressions {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.locktree.hcl": "locktree { stack = \"s\" }\nensemble \"main\" {}\n" + root, "m/m.locktree.hcl": child,
		"note.txt": "one\ntwo\n", "t.tmpl": "%{ for x in xs }<${x}>%{ endfor }",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	var o config.Options
	for _, f := range opts {
		f(&o)
	}
	c, err := config.OpenExpressions(dir, o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// variableHere does what variable of record.go does.
func variableHere(t *testing.T, line string) string {
	part := strings.Split(line, " | ")
	declaration, value := "variable \"x\" {\n"+strings.ReplaceAll(part[1], "; ", "\n")+"\n}\n", part[3]
	root, child, expression := declaration, "", "var.x"
	give := func(*config.Options) {}
	switch part[2] {
	case "environment":
		give = func(o *config.Options) { o.Environ = []string{"LOCKTREE_VAR_" + "x=" + value} }
	case "file":
		give = func(o *config.Options) {
			o.Inputs = []config.Input{{File: "x" + ".auto.ltvars", Reader: strings.NewReader("x = " + value + "\n")}}
		}
	case "argument":
		root = "module \"m\" {\n  source = \"./m\"\n  x = " + value + "\n}\n"
		child, expression = declaration+"output \"x\" { value = var.x }\n", "module.m.x"
	}
	c := expressionsIn(t, root, child, give)
	if c.Wrong() {
		return "error"
	}
	return worth(c, expression)
}

// worth does what result of record.go does.
func worth(c *config.Expressions, expression string) string {
	v, ok := c.Value(expression)
	if !ok {
		return "error"
	}
	v, marks := v.UnmarkDeep()
	typ, err := ctyjson.MarshalType(v.Type())
	if err != nil {
		return "error"
	}
	value, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		return "error"
	}
	text := string(typ) + " " + string(value)
	if len(marks) > 0 {
		text += " sensitive"
	}
	return text
}
