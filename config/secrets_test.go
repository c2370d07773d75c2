package config_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
)

// Secrets were searched for in finished messages and removed. The secret "name" made every message about a name unreadable, and so said
// what the secret is. Keys of sensitive maps were not searched for.
func TestSecretThatIsACommonWordNeitherDamagesAMessageNorIsInIt(t *testing.T) {
	configuration := preamble + `
variable "word" { sensitive = true }
variable "keys" {
  type      = map(number)
  sensitive = true
}
variable "plain" { type = object({ permits = number }) }
variable "rule" {
  sensitive = true
  validation {
    condition     = length(var.rule) > 100
    error_message = "Too short: ${var.rule}"
  }
}
principal "p" {
  scheme = "digest"
  id     = var.word
}
acl "a" {
  grant {
    to    = [{ name = "x", scheme = var.word, id = "y" }]
    allow = "lock"
  }
}
mutex "m" {
  argumnt     = 1
  max_waiters = { (var.word) = 1 }
}
module "m" {
  source = "./m"
  keys   = { (var.word) = [] }
}
output "o" { value = var.nmae }
locals {
`
	for i, expr := range []string{
		`{ for k in [var.word, var.word] : k => 1 }`, `{ for k in [env("WORD"), env("WORD")] : k => 1 }`, `try({ for k in [var.word, var.word] : k => 1 })`,
		`true ? { (var.word) = 1 } : { b = [] }`, `true ? { (env("WORD")) = { c = 1 } } : { b = [] }`, `try(true ? [{ (var.word) = 1 }] : [{ b = [] }])`,
		`tomap({ (var.word) = 1, b = [] })`, `merge({ (var.word) = 1 }, 3)`, `setsubtract({ (var.word) = [] }, [1])`,
		`"${[for k in [var.word, var.word] : k + 1]}"`, `{ a = 1 }[var.word]`, `var.word.foo`, `var.word + 1`, `-var.word`, `var.word ? 1 : 2`,
		`digest("${var.word}:", "x")`, `regex(var.word, "(")`, `file(var.word)`, `env(var.word)`, `jsondecode(var.word)`,
		`nonsensitive(tonumber(var.word))`, `[for w in [var.word] : tonumber(w)]`, `znodepath("a", "..", var.word)`,
	} {
		configuration += fmt.Sprintf("  l%d = %s\n", i, expr)
	}
	configuration += "}\n"
	files := fstest.MapFS{
		"main.locktree.hcl":   {Data: []byte(configuration)},
		"m/m.locktree.hcl":    {Data: []byte("variable \"keys\" { type = map(number) }\n")},
		"s.auto.ltvars":       {Data: []byte("plain = {}\n")},
		"other.locktree.json": {Data: []byte(`{ "locals": { "j": { "${var.word}": 1, "b": "${{ for k in [var.word, var.word] : k => 1 }}" } } }`)},
	}
	messages := func(word string) string {
		c, diags := config.LoadFS(files, ".", config.Options{
			Environ: append(slices.Clone(testEnviron), "WORD="+word),
			Inputs:  vars("word="+word, "rule="+word, "keys={ "+strconv.Quote(word)+" = [] }"),
		})
		return render(t, c, diags)
	}
	want := messages("xyzzy")
	require.NotContains(t, want, "xyzzy")
	require.Contains(t, want, `An argument named "argumnt" is not expected in a mutex block.`)
	require.Contains(t, want, `attribute "permits" is required`)
	require.Contains(t, want, "The value of var.keys, from the option -var, does not fit its type")
	require.Contains(t, want, "A key of an object in JSON syntax cannot be sensitive.") // where hcl/json panics
	for _, word := range []string{"name", "value", "argument", "sensitive", "element", "keys"} {
		require.Equal(t, want, messages(word), word)
	}
}

// tonumber(env("WORD")) and its like printed the value: the arguments of a call were checked, and not the call.
func TestNoErrorOfAnyFunctionQuotesASecret(t *testing.T) {
	var arguments []string
	for _, secret := range []string{`env("WORD")`, `sensitive(env("WORD"))`, `digest("u", "p")`, `var.word`, `local.object.word`, `upper(env("WORD"))`} {
		arguments = append(arguments, secret, secret+", 1", "1, "+secret, `{ x = 1 }, `+secret, `{ x = 1 }, {}, `+secret, secret+", 1, 1", `"a", "b", `+secret,
			"["+secret+"]", "[["+secret+"], 1]", "{ ("+secret+") = 1 }", `{ a = `+secret+` }, `+secret, `"`+"${"+secret+`}x"`, "["+secret+"], [1, 2]")
	}
	words := []string{"xyzzyplugh", config.DigestID("u", "p")}
	var leaked []string
	for _, name := range config.Functions() {
		if name == "nonsensitive" { // which shows on purpose what it is given
			continue
		}
		configuration := preamble + "variable \"word\" { sensitive = true }\n" + "locals {\n  object = { word = var.word }\n"
		for i, given := range arguments {
			call := fmt.Sprintf("%s(%s)", name, given)
			for j, expr := range []string{call, "tonumber(" + call + ")", "try(" + call + ")", "[for w in [" + call + "] : w + 1]", "{ for k in [" + call + "] : k => w }", call + ".none", "[" + call + "][7]"} {
				configuration += fmt.Sprintf("  l%d_%d = %s\n", i, j, expr)
			}
		}
		files := fstest.MapFS{"main.locktree.hcl": {Data: []byte(configuration + "}\n")}}
		_, diags := config.LoadFS(files, ".", config.Options{Environ: append(slices.Clone(testEnviron), "WORD="+words[0]), Inputs: vars("word=" + words[0])})
		require.True(t, diags.HasErrors(), name)
		var b strings.Builder
		require.NoError(t, hcl.NewDiagnosticTextWriter(&b, nil, 0, false).WriteDiagnostics(diags))
		text := strings.ToLower(b.String())
		for _, word := range words {
			reversed := []byte(word)
			slices.Reverse(reversed)
			for _, form := range []string{word, string(reversed), base64.StdEncoding.EncodeToString([]byte(word)), fmt.Sprintf("%x", word)} {
				if strings.Contains(text, strings.ToLower(form)) {
					leaked = append(leaked, name)
				}
			}
		}
	}
	require.Empty(t, leaked)
}

// HCL takes the marks off the collection of a loop and puts them on its result. In between, mistakes quoted numbers of a sensitive list and
// keys of a sensitive map, as "with v as 1234567".
func TestMistakeInALoopOverSecretsQuotesNone(t *testing.T) {
	const variables = `variable "pins" {
  type      = list(number)
  sensitive = true
  default   = [8675309, 8675310]
}
variable "m" {
  type      = map(string)
  sensitive = true
  default   = { "canary" = "x", "CANARY" = "y" }
}
`
	for _, expr := range []string{
		`[for v in var.pins : v.foo]`, `[for v in var.pins : tobool("${v}x")]`, `[for v in var.pins : v + null]`, `[for v in var.pins : v ? 1 : 2]`,
		`[for v in var.pins : 1 if v]`, `{ for v in var.pins : null => v }`, `{ for v in var.pins : "${v - v + 8675309}" => v }`,
		`[for v in [for w in var.pins : w] : v.foo]`, `"%{ for v in var.pins }${v + null}%{ endfor }"`, `[for i, v in var.pins : tonumber("${v}x")]`,
		`[for k, v in var.m : k + 1]`, `{ for k, v in var.m : lower(k) => v }`, `[for k in keys(var.m) : k.foo]`, `[for k in keys(var.m) : tobool(k)]`,
		`{ for k in [for q in keys(var.m) : q] : k => k + 1 }`, `[for e in [{ a = keys(var.m)[0] }] : e.a + 1]`, `[for k, v in var.m : { (k) = 1 }.foo]`,
		`[for k, v in var.m : file(k)]`, `[for k, v in var.m : env(k)]`,
	} {
		_, diags := loadText(preamble+variables+"locals { a = "+expr+" }\n", config.Options{Environ: testEnviron})
		require.True(t, diags.HasErrors(), expr)
		var b strings.Builder
		require.NoError(t, hcl.NewDiagnosticTextWriter(&b, nil, 0, false).WriteDiagnostics(diags))
		for _, d := range diags {
			for at := d.EvalContext; at != nil; at = at.Parent() {
				for name, v := range at.Variables {
					require.True(t, name != "v" && name != "k" && name != "w" && name != "q" || v.ContainsMarked(), "%s: %s is shown", expr, name)
				}
			}
		}
		require.NotContains(t, b.String(), "8675", expr)
		require.NotContains(t, strings.ToLower(b.String()), "canary", expr)
	}
	c := mustLoad(t, variables+`
output "o" {
  value = nonsensitive([[for v in var.pins : v + 1 if v > 8675309], { for k, v in var.m : k => upper(v) }, "%{ for v in var.pins }${v};%{ endfor }", [for i, v in var.pins : i]])
}
output "hidden" {
  value     = [for v in var.pins : v]
  sensitive = true
}
`)
	outputs := map[string]string{}
	for _, o := range c.Outputs {
		outputs[o.Name] = string(o.Value)
	}
	require.JSONEq(t, `[[8675311],{"canary":"X","CANARY":"Y"},"8675309;8675310;",[0,1]]`, outputs["o"])
}
