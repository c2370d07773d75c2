package config_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

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
		{"var-file", func() { opts.Inputs = append(opts.Inputs, config.Input{File: outside}) }}, // in the order given, not by kind
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

func TestMistakesInVariableFilesAreDiagnosed(t *testing.T) {
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
		// The error for each of these was "Not a constant".
		"no such element":  {"list = [[1, 2][7]]", "has no result: the given key does not identify an element in this collection value"},
		"two types":        {"list = true ? [] : \"\"", "has no result: the true and false result expressions must have consistent types"},
		"sensitive result": {"secret = [\"canary\"][7]", "at vars/given.ltvars:1 has no result. The reason is not shown because the variable is sensitive"},
		// The last value counted.
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
	// One line holds the mistake and a secret beside it: the line must not be quoted.
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

// A module may stand beside the configuration. It reads only its own files, even through links.
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

// drawText draws from all of Unicode: letters with accents in both forms, characters that merge with their neighbours, and those that NFC
// always changes (the kelvin sign). Half surrogate pairs become U+FFFD, and the byte FF becomes U+FFFFF.
func drawText(t *rapid.T) string {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{"cafe\u0301", "caf\u00e9", "300\u212a", "\u0301", "\u1100\u1161\u11a8", "\u1161", "\ufb01", "\u0344", "=\u0338", "\ufeff", "\u0600", "${", "%{", "\\u0301", "\"", "\ufffd", "\xff", "\xed\xa0\x80"}),
		rapid.StringN(0, 4, -1), rapid.Map(rapid.Rune(), func(r rune) string { return string(norm.NFD.String(string(r))) }),
		rapid.Map(rapid.SliceOfN(rapid.RuneFrom(nil, unicode.Mn, unicode.Hangul), 1, 3), func(r []rune) string { return string(r) }))
	text := strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "parts"), "")
	return strings.Map(func(r rune) rune { // invalid bytes become U+FFFD
		if r == 0 || r == '\r' || r == '\n' {
			return '-'
		}
		return r
	}, strings.ReplaceAll(text, "\xff", "\U000fffff"))
}

// prepends reports whether a character makes one grapheme cluster with any character behind it.
func prepends(r rune) bool {
	return unicode.Is(unicode.Prepended_Concatenation_Mark, r) || strings.ContainsRune("\u0d4e\U000111c2\U000111c3\U000113d1\U0001193f\U00011941\U00011a3a\U00011a84\U00011a85\U00011a86\U00011a87\U00011a88\U00011a89\U00011d46\U00011f02", r)
}

// hclText is text as a literal of the native syntax, with the characters as such or as escapes.
func hclText(text string, escaped bool) string {
	var b strings.Builder
	for at, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[at:], "\ufffd") {
			b.WriteString(map[bool]string{true: `\ud800`, false: text[at : at+1]}[escaped])
		} else if r < ' ' || r == '"' || r == '\\' || r == '$' || r == '%' || escaped {
			fmt.Fprintf(&b, "\\U%08x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

// A name, a key or a password reached ZooKeeper in Unicode's form NFC whatever its bytes were, and half a surrogate pair as U+FFFD. The
// result was a lock beside the one that programs hold, and the digest of another password. Text from every source keeps its bytes, or is refused
// with the reason.
func TestTextIsItsBytesOrRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t)
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		if rapid.Bool().Draw(t, "broken") {
			text, quoted = text+"\xff", append(quoted[:len(quoted)-1], "\xff\""...)
		}
		escaped := `"`
		for at, r := range text {
			if r == utf8.RuneError && !strings.HasPrefix(text[at:], "\ufffd") {
				escaped += `\ud800`
				continue
			}
			for _, unit := range utf16.AppendRune(nil, r) {
				escaped += fmt.Sprintf(`\u%04x`, unit)
			}
		}
		escaped += `"`
		template := strings.NewReplacer("${", "$${", "%{", "%%{").Replace(string(quoted))
		show, declare := "output \"o\" {\n  value = %s\n}\n", "variable \"v\" {}\n"
		type input struct {
			main  string
			files map[string]string
			opts  config.Options
		}
		all := map[string]input{
			"source":         {main: fmt.Sprintf(show, hclText(text, false))},
			"escapes":        {main: fmt.Sprintf(show, hclText(text, true))},
			"heredoc":        {main: fmt.Sprintf(show, "trimsuffix(<<EOT\n"+strings.NewReplacer("${", "$${", "%{", "%%{").Replace(text)+"\nEOT\n, \"\\n\")")},
			"JSON":           {files: map[string]string{"o.locktree.json": `{"output": {"o": {"value": ` + template + `}}}`}},
			"a key":          {main: fmt.Sprintf(show, "keys({ "+hclText(text, true)+" = 1 })[0]")},
			"environment":    {main: fmt.Sprintf(show, "nonsensitive(env(\"V\"))"), opts: config.Options{Environ: []string{"V=" + text}}},
			"variable":       {main: declare + fmt.Sprintf(show, "var.v"), opts: config.Options{Environ: []string{"LOCKTREE_VAR_v=" + text}}},
			"-var":           {main: declare + fmt.Sprintf(show, "var.v"), opts: config.Options{Inputs: vars("v=" + text)}},
			"expression":     {main: "variable \"v\" {\n  type = list(string)\n}\n" + fmt.Sprintf(show, "var.v[0]"), opts: config.Options{Inputs: vars("v=[" + hclText(text, false) + "]")}},
			"variables":      {main: declare + fmt.Sprintf(show, "var.v"), files: map[string]string{"a.auto.ltvars": "v = " + hclText(text, false)}},
			"JSON variables": {main: declare + fmt.Sprintf(show, "var.v"), files: map[string]string{"a.auto.ltvars.json": `{"v": ` + string(quoted) + `}`}},
			"file":           {main: fmt.Sprintf(show, "file(\"f\")"), files: map[string]string{"f": text}},
			"jsondecode":     {main: fmt.Sprintf(show, "jsondecode(file(\"f\"))"), files: map[string]string{"f": escaped}},
		}
		for _, from := range slices.Sorted(maps.Keys(all)) {
			in, text := all[from], text
			if from == "file" { // where a byte order mark is skipped
				text = strings.TrimPrefix(text, "\ufeff")
			}
			files := fstest.MapFS{"main.locktree.hcl": {Data: []byte(preamble + in.main)}}
			for name, content := range in.files {
				files[name] = &fstest.MapFile{Data: []byte(content)}
			}
			in.opts.Environ = append(in.opts.Environ, testEnviron...)
			c, diags := config.LoadFS(files, ".", in.opts)
			if config.TextError(text) != nil || from == "JSON" && strings.HasPrefix(text, "\ufeff") {
				require.True(t, diags.HasErrors(), "%s: %q", from, text)
				require.Regexp(t, "not valid UTF-8|form NFC|merges with the one before|Invalid character encoding|Cannot encode character|byte order mark", summaries(diags), "%s: %q", from, text)
				continue
			}
			if diags.HasErrors() && strings.HasPrefix(from, "JSON") && strings.ContainsFunc(text, prepends) {
				require.Contains(t, summaries(diags), "Invalid JSON string") // HCL takes the quotation mark behind it as a part of it
				continue
			}
			require.False(t, diags.HasErrors(), "%s: %q: %v", from, text, diags)
			var got string
			require.NoError(t, json.Unmarshal(c.Outputs[0].Value, &got))
			require.Equal(t, text, got, from)
		}
	})
}

// A file with a password was not checked, so it and the environment could name two passwords by the same text.
func TestPasswordsAreTheirBytesOrRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := "p" + drawText(t)
		if rapid.Bool().Draw(t, "alone") && len(text) > 1 {
			text = text[1:]
		}
		dir, err := os.MkdirTemp("", "text")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("\xef\xbb\xbf"+text+"\r\n"), 0o600))
		block := "  auth \"digest\" {\n    username = \"u\"\n    %s\n  }\n"
		for _, in := range []struct{ from, auth, env string }{
			{"environment", fmt.Sprintf(block, `password = env("P")`), "P=" + text},
			{"file", fmt.Sprintf(block, `password_file = "secret"`), ""},
			{"ZOOKEEPER_PASSWORD", "", "ZOOKEEPER_PASSWORD=" + text},
			{"ZOOKEEPER_PASSWORD_FILE", "", "ZOOKEEPER_PASSWORD_FILE=secret"},
		} {
			main := "locktree {\n  stack = \"s\"\n}\nensemble \"main\" {\n" + in.auth + "}\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "main.locktree.hcl"), []byte(main), 0o600))
			env := []string{in.env}
			if in.auth == "" {
				env = append(env, "ZOOKEEPER_USERNAME=u")
			}
			c, diags := config.Load(dir, config.Options{Environ: env})
			if config.TextError(text) != nil {
				require.Regexp(t, "not valid UTF-8|form NFC|merges with the one before", summaries(diags), "%s: %q", in.from, text)
				continue
			}
			require.False(t, diags.HasErrors(), "%s: %q: %v", in.from, text, diags)
			require.Equal(t, "u:"+text, string(c.Ensembles[0].Auth[0].Credentials), in.from)
		}
	})
}

// A checkout with Windows line ends planned an update of every text of several lines, and a byte order mark broke JSON.
func TestLineEndsAndMarksMeanNothing(t *testing.T) {
	files := map[string]string{
		"main.locktree.hcl":  preamble + "variable \"v\" {}\nvariable \"w\" {}\nnamespace \"n\" {\n  description = <<-EOT\n    one\n    two\n  EOT\n}\noutput \"o\" {\n  value = [var.v, var.w, file(\"f\")]\n}\n",
		"o.locktree.json":    "{\n\"output\": {\n\"p\": {\"value\": 1}}}\n",
		"v.auto.ltvars":      "v = <<EOT\none\ntwo\nEOT\n",
		"w.auto.ltvars.json": "{\n\"w\": 1}\n",
		"f":                  "one\ntwo\n",
	}
	load := func() *config.Config {
		c, diags := config.Load(writeDir(t, files), config.Options{Environ: testEnviron})
		require.False(t, diags.HasErrors(), "%v", diags)
		return c
	}
	want := dump(load(), false)
	for name, text := range files {
		files[name] = "\xef\xbb\xbf" + strings.ReplaceAll(text, "\n", "\r\n")
	}
	require.Equal(t, want, dump(load(), false))
}
