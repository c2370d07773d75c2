package config_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
)

// TestMistakes shows the mistakes that people make, in testdata/mistakes.txtar, and
// compares what is said with what stands there. A name is a mistake; behind it, with
// "shown" in front, stands what is said. Beside it stands the file that every
// configuration needs, and a module m.
func TestMistakes(t *testing.T) {
	const name, shown = "../testdata/mistakes.txtar", "shown: "
	archive, err := txtar.ParseFile(name)
	require.NoError(t, err)
	want := map[string]string{}
	for _, f := range archive.Files {
		if of, ok := strings.CutPrefix(f.Name, shown); ok {
			want[of] = string(f.Data)
		}
	}
	var all []txtar.File
	for _, f := range archive.Files {
		if strings.HasPrefix(f.Name, shown) {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			c, diags := config.LoadFS(fstest.MapFS{
				"locktree.locktree.hcl": {Data: []byte(preamble)}, "main.locktree.hcl": {Data: f.Data},
				"m/m.locktree.hcl": {Data: []byte("variable \"name\" {}\noutput \"name\" { value = var.name }\n")},
			}, ".", config.Options{Environ: testEnviron})
			got := render(t, c, diags)
			all = append(all, f, txtar.File{Name: shown + f.Name, Data: []byte(got)})
			require.True(t, diags.HasErrors())
			if os.Getenv("GOLDEN") == "" {
				require.Equal(t, want[f.Name], got)
			}
		})
	}
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile(name, txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: all}), 0o666))
	}
}
