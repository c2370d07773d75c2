package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
)

// writeDir writes files into a new directory.
func writeDir(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	return dir
}

const showsX = preamble + `
variable "x" { default = "default" }
output "x" { value = var.x }
`

// Each source is added in turn; the one added last must win, whatever is below it.
func TestVariableSourcesWinInTerraformsOrder(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "given.ltvars")
	second := filepath.Join(t.TempDir(), "second.ltvars.json")
	require.NoError(t, os.WriteFile(outside, []byte(`x = "var-file"`), 0o666))
	require.NoError(t, os.WriteFile(second, []byte(`{"x": "second var-file"}`), 0o666))
	files := map[string]string{"main.locktree.hcl": showsX}
	opts := config.Options{Environ: testEnviron}
	steps := []struct {
		want string
		add  func()
	}{
		{"default", func() {}},
		{"env", func() { opts.Environ = append(opts.Environ, "LOCKTREE_VAR_x=env") }},
		{"a.auto", func() { files["a.auto.ltvars"] = `x = "a.auto"` }},
		{"b.auto", func() { files["b.auto.ltvars.json"] = `{"x": "b.auto"}` }},
		{"var-file", func() { opts.Inputs = []config.Input{{File: outside}} }},
		{"second var-file", func() { opts.Inputs = append(opts.Inputs, config.Input{File: second}) }},
		{"var", func() { opts.Inputs = append(opts.Inputs, config.Input{Var: "x=var"}) }},
		{"last = var", func() { opts.Inputs = append(opts.Inputs, config.Input{Var: " x=last = var"}) }},
		{"var-file", func() { opts.Inputs = append(opts.Inputs, config.Input{File: outside}) }}, // as written, not by kind
	}
	for _, s := range steps {
		s.add()
		c, diags := config.Load(writeDir(t, files), opts)
		require.False(t, diags.HasErrors(), "%v", diags)
		require.JSONEq(t, `"`+s.want+`"`, string(c.Outputs[0].Value))
	}
}

func TestFilesThatAreNoneOfOursAreIgnored(t *testing.T) {
	dir := writeDir(t, map[string]string{
		"main.locktree.hcl": showsX, "other.tf": "}", ".hidden.locktree.hcl": "}", "#main.locktree.hcl": "}",
		"main.locktree.hcl~": "}", "x.ltvars": "}", ".y.auto.ltvars": "}", "sub.locktree.hcl/nested.locktree.hcl": "}",
	})
	_, diags := config.Load(dir, config.Options{Environ: testEnviron})
	require.Empty(t, diags)
}

func TestVarFileMistakes(t *testing.T) {
	main := preamble + `
variable "secret" {
  type      = string
  sensitive = true
  default   = "x"
}
variable "list" {
  type    = list(string)
  default = []
}
`
	for name, c := range map[string]struct{ file, want string }{
		"undeclared":       {"lsit = []", `There is no variable "lsit", so its value is not used. Did you mean "list"?`},
		"call":             {"list = upper(\"x\")", "must be a constant"},
		"wrong type":       {"list = 3", "The value of var.list, from vars/given.ltvars:1, does not fit its type"},
		"syntax":           {"list = [\"canary", "has a syntax error in line 1, column "},
		"sensitive syntax": {"secret = canary.canary", "The value of var.secret at vars/given.ltvars:1 must be a constant"},
		"sensitive type":   {"secret = [\"canary\"]", "The value of var.secret, from vars/given.ltvars:1, does not fit its type"},
		// All of these were "Not a constant".
		"no such element":  {"list = [[1, 2][7]]", "has no result: the given key does not identify an element in this collection value"},
		"two types":        {"list = true ? [] : \"\"", "has no result: the true and false result expressions must have consistent types"},
		"sensitive result": {"secret = [\"canary\"][7]", "at vars/given.ltvars:1 has no result. The reason is not shown because the variable is sensitive"},
		// The last one counted.
		"key twice": {"list = [{ a = \"canary\", \"a\" = 2 }]", "this object has that key already, in line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeDir(t, map[string]string{"main.locktree.hcl": main, "vars/given.ltvars": c.file})
			cfg, diags := config.Load(dir, config.Options{Environ: testEnviron, Inputs: []config.Input{{File: filepath.Join(dir, "vars/given.ltvars")}}})
			text := render(t, cfg, diags)
			require.Contains(t, text, c.want)
			require.NotContains(t, text, "canary")
		})
	}
	// A variable whose file cannot be read was also said to have no value.
	unread := writeDir(t, map[string]string{"main.locktree.hcl": main + "variable \"needed\" {}\n", "x.auto.ltvars": "needed = {\n  a = 1\n  a = 2\n}\n"})
	_, diags := config.Load(unread, config.Options{Environ: testEnviron})
	require.Len(t, diags, 1)
	require.Equal(t, "Key given twice", diags[0].Summary)
	// One line holds the mistake and the secret beside it: it must not be quoted.
	dir := writeDir(t, map[string]string{"main.locktree.hcl": main, "x.auto.ltvars.json": `{"list": 3, "secret": "canary"}`})
	cfg, diags := config.Load(dir, config.Options{Environ: testEnviron})
	text := render(t, cfg, diags)
	require.Contains(t, text, "does not fit its type")
	require.NotContains(t, text, "canary")

	_, diags = config.Load(writeDir(t, map[string]string{"main.locktree.hcl": main}), config.Options{Inputs: []config.Input{{File: "/nowhere.ltvars"}}, Environ: testEnviron})
	require.Contains(t, diags.Error(), "No such file")
}

func TestNoDirectoryIsADiagnosticAndNoFileIsNone(t *testing.T) {
	c, diags := config.Load(filepath.Join(t.TempDir(), "nowhere"), config.Options{})
	require.NotNil(t, c)
	require.Contains(t, diags.Error(), "No such file or directory")
	_, diags = config.Load(t.TempDir(), config.Options{})
	require.Contains(t, diags.Error(), "locktree init")
}

// A module may stand beside the configuration; its files are its own, whatever
// links it holds.
func TestModulesAreReadFromTheirOwnDirectories(t *testing.T) {
	dir := writeDir(t, map[string]string{
		"prod/main.locktree.hcl": preamble + "module \"m\" {\nsource = \"../shared\"\n}\noutput \"o\" { value = [module.m.o, module.m.p] }\n",
		"prod/secret":            "canary",
		"shared/m.locktree.hcl":  "output \"o\" { value = file(\"${path.module}/own\") }\noutput \"p\" { value = try(file(\"${path.module}/link\"), file(\"secret\"), \"none\") }\n",
		"shared/own":             "own",
	})
	require.NoError(t, os.Symlink("../prod/secret", filepath.Join(dir, "shared", "link")))
	c, diags := config.Load(filepath.Join(dir, "prod"), config.Options{Environ: testEnviron})
	require.False(t, diags.HasErrors(), "%v", diags)
	require.JSONEq(t, `["own", "none"]`, string(c.Outputs[0].Value))
	require.Contains(t, c.Sources, filepath.Join(dir, "shared", "m.locktree.hcl"))
}

// Values that are meant for Terraform were ignored without a word.
func TestTerraformsValuesAreNotIgnoredInSilence(t *testing.T) {
	files := fstest.MapFS{"m.locktree.hcl": {Data: []byte(preamble + "variable \"a\" {\n  default = 1\n}\n")}, "terraform.tfvars": {Data: []byte("a = 2\n")}}
	_, diags := config.LoadFS(files, ".", config.Options{Environ: append(slices.Clone(testEnviron), "TF_VAR_a=3", "TF_VAR_other=4")})
	require.False(t, diags.HasErrors(), "%v", diags)
	require.Len(t, diags, 2)
	require.Contains(t, diags[0].Detail, "TF_VAR_a is set, and only Terraform reads it. Call it LOCKTREE_VAR_a.")
	require.Contains(t, diags[1].Detail, "Call it NAME.auto.ltvars")
}
