package config_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
)

// Both paths start at the configuration, so that a plan is the same wherever it is
// made; a file outside of its module is refused by either.
func TestPathsAreOfTheModuleAndOfTheConfiguration(t *testing.T) {
	files := fstest.MapFS{
		"main.locktree.hcl":     {Data: []byte(preamble + "module \"m\" {\n  source = \"./sub\"\n}\noutput \"o\" {\n  value = \"${path.root} ${path.module} ${module.m.p}\"\n}\n")},
		"sub/main.locktree.hcl": {Data: []byte("output \"p\" {\n  value = \"${path.root} ${path.module}\"\n}\n")},
		"outside.txt":           {Data: []byte("x")},
	}
	c, diags := config.LoadFS(files, ".", config.Options{Environ: testEnviron})
	require.False(t, diags.HasErrors(), "%v", diags)
	require.JSONEq(t, `". . . sub"`, string(c.Outputs[0].Value))

	files["sub/main.locktree.hcl"] = &fstest.MapFile{Data: []byte("output \"p\" {\n  value = file(\"${path.root}/outside.txt\")\n}\n")}
	_, diags = config.LoadFS(files, ".", config.Options{Environ: testEnviron})
	require.Contains(t, summaries(diags), "only files in the directory of the module can be read")
}

// A module block in a namespace is told where it belongs.
func TestAModuleInANamespaceIsRefusedWithAWayOut(t *testing.T) {
	_, diags := loadText(preamble+"namespace \"n\" {\n  module \"m\" {\n    source = \"./m\"\n  }\n}\n", config.Options{Environ: testEnviron})
	require.Contains(t, summaries(diags), "at the top of a file")
}
