package config

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const endlessLoops = "[for i in range(1000) : [for j in range(1000) : [for k in range(1000) : [for l in range(1000) : 1]]]]"

// What takes the last step may forget the error: then all that came behind it was left out of the
// configuration, and nobody was told.
func TestEffortIsNotUsedUpInSilence(t *testing.T) {
	for name, src := range map[string]string{
		"can":             "locals { a = can(" + endlessLoops + ") }\n",
		"not chosen":      "locals { a = true ? \"x\" : \"${length(" + endlessLoops + ")}\" }\n",
		"a check":         "check \"c\" {\n  assert {\n    condition     = length(" + endlessLoops + ") > 0\n    error_message = \"no\"\n  }\n}\n",
		"before the rest": "locals { a = can(" + endlessLoops + ") }\nmutex \"m\" { name = local.a ? \"x\" : \"y\" }\n",
	} {
		t.Run(name, func(t *testing.T) {
			diags := loadHostile("x.locktree.hcl", preamble+src)
			require.True(t, diags.HasErrors())
			require.Contains(t, summaries(diags), "Too many steps")
		})
	}
}

// convert.sortTypes of cty is quadratic: this took three minutes.
func TestConditionBetweenLongListsSaysWhatToWrite(t *testing.T) {
	const wide = "  wide = [for p in setproduct(range(100), range(1000)) : \"x\"]\n"
	_, diags := loadText(preamble+"locals {\n"+wide+"  a = true ? local.wide : []\n}\n", Options{Environ: testEnviron})
	require.Contains(t, summaries(diags), "tolist")
	mustLoad(t, "locals {\n"+wide+"  a = true ? tolist(local.wide) : tolist([])\n}\n")
	mustLoad(t, "locals {\n"+wide+"  a = true ? local.wide : [for w in local.wide : \"y\"]\n  b = true ? local.wide : null\n}\n")
	mustLoad(t, "locals { a = [for i in range(1000) : true ? [1, \"a\"] : []] }\n")
}

// One expression that takes all the steps there are was the last one a console answered.
func TestConsoleAnswersAfterAnEndlessExpression(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.locktree.hcl"), []byte("locktree { stack = \"s\" }\n"), 0o666))
	c, diags := OpenConsole(dir, Options{})
	defer c.Close()
	require.False(t, diags.HasErrors(), "%v", diags)
	c.m.effort.left = 0
	got, diags := c.Eval("1 + 1")
	require.Empty(t, diags)
	require.Equal(t, "2", got)
}

// Operands that are counted are evaluated as they were.
func TestCountedOperandsMeanWhatTheyMeant(t *testing.T) {
	c, diags := loadFS(fstest.MapFS{"x.locktree.hcl": {Data: []byte(preamble + `
locals {
  none = []
  some = [{ a = 1 }, { a = 2 }]
}
output "o" {
  value = [length(local.none) > 0 ? local.none[0] : "none", local.some[*].a, local.some == local.none, local.some != [],
    true ? [1, "a"] : [], [for s in local.some : s == { a = 1 } ? "one" : "other"]]
}
`)}}, ".", Options{Environ: testEnviron})
	require.False(t, diags.HasErrors(), "%v", diags)
	require.JSONEq(t, `["none",[1,2],false,true,["1","a"],["one","other"]]`, string(c.Outputs[0].Value))
}
