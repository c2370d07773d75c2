package config_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/locktree/locktree/config"
)

// TestLanguageIsTerraforms compares what expressions and variables are worth here with what Terraform made of them,
// which testdata/terraform/record.sh has recorded. What has another value here, and is to keep it, must be listed in
// "help from-terraform", with that value, and nothing else may be. Functions that only one of the two has are listed, too.
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
			theirs = "error" // in other words
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
	_, list, _ := strings.Cut(string(topic), "Their value here follows, with its type:\n")
	require.Equal(t, strings.Join(different, "\n"), strings.TrimRight(list, "\n"))
}

// recordedByTerraform is what stands behind each expression, and behind "functions".
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

// functionsAreListed holds the two lists of functions in the topic: those that only Terraform has, and those that it
// does not have.
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

// variableHere is variable of record.go.
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

// worth is result of record.go.
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
