package config

import (
	"encoding/json"
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
	for _, expr := range []string{
		`[for i in range(1000) : [for j in range(1000) : [for k in range(1000) : i * j * k]]]`, `"${1e400}${-1e-400}"`,
		`"%{ for i in range(9) }%{ for j in range(9) }${i}${j}%{ endfor }%{ endfor }"`, `setproduct(range(1000), range(1000), ["a"])`,
		`format("%1000000s%*d", "a", 1000000, 1)`, `flatten([for i in range(999) : [range(999), range(999)]])`,
		`jsondecode("[[[[1e999]]]]")`, `{ for p in setproduct(range(9), range(9)) : "k${p[0]}" => [for q in p : try(q.x, p)]... }`,
	} {
		f.Add([]byte(preamble+"output \"o\" { value = "+expr+" }"), false)
		text, err := json.Marshal("${" + expr + "}")
		require.NoError(f, err)
		f.Add([]byte(`{"locktree": {"stack": "s"}, "output": {"o": {"value": [{"${1 + 1}": `+string(text)+`}]}}}`), true)
	}
	f.Fuzz(func(t *testing.T, src []byte, inJSON bool) {
		if len(src) > 64<<10 { // shapes are looked for, not sizes
			return
		}
		name := "x" + nativeSuffix
		if inJSON {
			name = "x" + jsonSuffix
		}
		c, diags := loadWithin(maxEffort/100, fstest.MapFS{name: {Data: src}}, Options{Version: "1.2.3", Environ: testEnviron})
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
