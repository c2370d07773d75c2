package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
)

const consoleConfig = `
locktree { stack = "s" }
ensemble "main" { servers = ["zk:1"] }
variable "secret" {
  default   = "hunter2hunter2"
  sensitive = true
}
variable "pools" {
  type    = map(object({ permits = optional(number, 1) }))
  default = { "a b" = { permits = 8 }, c = {} }
}
locals { twice = 2 * 21 }
principal "all" { scheme = "world" }
acl "open" {
  allow_world = true
  grant {
    to    = [principal.all]
    allow = "admin"
  }
}
namespace "pay" {
  acl = acl.open
  semaphore "pool" {
    for_each = var.pools
    permits  = each.value.permits
  }
}
`

func openConsole(t *testing.T, src string) *config.Console {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.locktree.hcl"), []byte(src), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "note.txt"), []byte("one\ntwo\n"), 0o600))
	c, diags := config.OpenConsole(dir, config.Options{})
	t.Cleanup(c.Close)
	require.Empty(t, diags)
	return c
}

func TestConsoleWritesValuesInTheLanguage(t *testing.T) {
	c := openConsole(t, consoleConfig)
	for expr, want := range map[string]string{
		"local.twice":             "42",
		"1.50":                    "1.5",
		`"a${local.twice}\n$${"`:  `"a42\n$${"`,
		"null":                    "null",
		"[]":                      "[]",
		"{}":                      "{}",
		"[1, true]":               "[\n  1,\n  true,\n]",
		"tomap({ a = [] })":       "tomap({\n  a = []\n})",
		"toset([\"x\"])":          "toset([\n  \"x\",\n])",
		"{ \"a b\" = { c = 1 } }": "{\n  \"a b\" = {\n    c = 1\n  }\n}",
		"file(\"note.txt\")":      "<<EOT\none\ntwo\nEOT",
		"\"EOT\\n\"":              "<<EOT_\nEOT\nEOT_",
		"var.secret":              "(sensitive value)",
		"[var.secret, 1]":         "[\n  (sensitive value),\n  1,\n]",
		"acl.open":                "acl.open",
		"ensemble.main":           "ensemble.main",
		`namespace.pay.semaphore.pool["a b"].permits`:      "8",
		`[for p in namespace.pay.semaphore.pool : p.path]`: "[\n  \"/pay/pool-a b\",\n  \"/pay/pool-c\",\n]",
	} {
		got, diags := c.Eval(expr)
		require.Empty(t, diags, expr)
		require.Equal(t, want, got, expr)
	}
}

// A mistake is explained as one in a file is, and the next expression starts anew.
func TestConsoleExplainsMistakes(t *testing.T) {
	c := openConsole(t, consoleConfig)
	for expr, want := range map[string]string{
		"local.twise":          `Did you mean "twice"?`,
		"1 +":                  "",
		"each.key":             "for_each",
		`tonumber(var.secret)`: "",
	} {
		for range 4 { // more often than a file's mistake would be repeated
			got, diags := c.Eval(expr)
			require.True(t, diags.HasErrors(), expr)
			require.Empty(t, got)
			require.Contains(t, diags[0].Detail, want, expr)
			require.NotContains(t, diags.Error(), "hunter2")
			require.Equal(t, expr, string(c.Sources()["<console>"].Bytes))
		}
	}
	got, diags := c.Eval("local.twice")
	require.Empty(t, diags)
	require.Equal(t, "42", got)
}

func TestConsoleNeedsAConfiguration(t *testing.T) {
	c, diags := config.OpenConsole(filepath.Join(t.TempDir(), "nowhere"), config.Options{})
	defer c.Close()
	require.True(t, diags.HasErrors())
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.locktree.hcl"), []byte("locktree {\n"), 0o600))
	broken, diags := config.OpenConsole(dir, config.Options{})
	defer broken.Close()
	require.True(t, diags.HasErrors())
	require.NotEmpty(t, broken.Sources())
}
