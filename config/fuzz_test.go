package config

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/hcl/v2"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

// FuzzLoad: no input makes Load or the writer of its diagnostics panic; an error
// has a place and a reason; without one every node can be encoded.
func FuzzLoad(f *testing.F) {
	cases, err := filepath.Glob("../testdata/config/*.txtar")
	require.NoError(f, err)
	for _, name := range cases {
		archive, err := txtar.ParseFile(name)
		require.NoError(f, err)
		for _, file := range archive.Files {
			if _, ok := configStem(filepath.Base(file.Name)); ok {
				f.Add(file.Data, strings.HasSuffix(file.Name, ".json"))
			}
		}
	}
	for _, list := range functionCases {
		for _, c := range list {
			f.Add([]byte(preamble+"output \"o\" { value = "+c.expr+" }"), false)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte, inJSON bool) {
		// Nested for expressions are the one thing whose time nothing bounds.
		if strings.Count(string(src), "for ") > 2 || len(src) > 64<<10 {
			t.Skip()
		}
		name := "x" + nativeSuffix
		if inJSON {
			name = "x" + jsonSuffix
		}
		c, diags := loadFS(fstest.MapFS{name: {Data: src}}, ".", Options{Version: "1.2.3", Environ: testEnviron})
		var b strings.Builder
		require.NoError(t, hcl.NewDiagnosticTextWriter(&b, c.Sources, 80, true).WriteDiagnostics(diags))
		for _, d := range diags {
			require.NotNil(t, d.Subject)
			require.NotEmpty(t, d.Summary)
			require.NotEmpty(t, d.Detail)
		}
		if diags.HasErrors() {
			require.Empty(t, c.Hash)
			require.Empty(t, c.Ensembles)
			return
		}
		require.NotEmpty(t, c.Hash) // which has encoded every payload
	})
}

// FuzzFormat: formatting never panics, and what it returns is stable.
func FuzzFormat(f *testing.F) {
	f.Add([]byte("a {\nb=\"${x}\"\n}\n"))
	f.Add([]byte("a = \"${\"${b}\"}\"\n"))
	f.Add([]byte("a = \"${[\n1]}\"\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		once, diags := Format(src, "x.locktree.hcl")
		if diags.HasErrors() {
			require.Equal(t, src, once)
			return
		}
		_, diags = Format(once, "x.locktree.hcl")
		require.False(t, diags.HasErrors(), "%q became %q", src, once)
	})
}
