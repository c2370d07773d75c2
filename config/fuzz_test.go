package config_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
)

// FuzzLoad checks that no input makes Load or the writer of its diagnostics panic. An error has a place and a reason; without an error
// every node can be encoded.
func FuzzLoad(f *testing.F) {
	cases, err := filepath.Glob("../testdata/config/*.txtar")
	require.NoError(f, err)
	for _, name := range cases {
		archive, err := txtar.ParseFile(name)
		require.NoError(f, err)
		for _, file := range archive.Files {
			if strings.Contains(file.Name, ".locktree.") {
				f.Add(file.Data, strings.HasSuffix(file.Name, ".json"))
			}
		}
	}
	for _, list := range functionCases {
		for _, c := range list {
			f.Add([]byte(preamble+"output \"o\" { value = "+c.expr+" }"), false)
		}
	}
	for expr := range recordedByTerraform(f) {
		f.Add([]byte(preamble+"output \"o\" { value = "+expr+" }"), false)
	}
	for _, expr := range []string{
		`[for i in range(9) : [for j in range(9) : i + j]]`, `"${1e400}${-1e-400}"`,
		`"%{ for i in range(9) }%{ for j in range(9) }${i}${j}%{ endfor }%{ endfor }"`, `setproduct(range(9), range(9), ["a"])`,
		`format("%10s%*d", "a", 10, 1)`, `flatten([for i in range(9) : [range(9), range(9)]])`,
		`jsondecode("[[[[1e999]]]]")`, `{ for p in setproduct(range(9), range(9)) : "k${p[0]}" => [for q in p : try(q.x, p)]... }`,
	} {
		f.Add([]byte(preamble+"output \"o\" { value = "+expr+" }"), false)
		text, err := json.Marshal("${" + expr + "}")
		require.NoError(f, err)
		f.Add([]byte(`{"locktree": {"stack": "s"}, "output": {"o": {"value": [{"${1 + 1}": `+string(text)+`}]}}}`), true)
	}
	f.Fuzz(func(t *testing.T, src []byte, inJSON bool) {
		if len(src) > 8<<10 || multiplies(src) { // the fuzzer looks for shapes, not sizes
			return
		}
		name := "x.locktree.hcl"
		if inJSON {
			name = "x.locktree.json"
		}
		var c *config.Config
		var diags hcl.Diagnostics
		done := make(chan bool)
		go func() {
			defer close(done)
			c, diags = config.LoadFS(fstest.MapFS{name: {Data: src}}, ".", config.Options{Version: "1.2.3", Environ: testEnviron})
		}()
		select {
		case <-done:
		case <-time.After(time.Minute):
			require.Fail(t, "Load hangs, and no loop says why")
		}
		var b strings.Builder
		require.NoError(t, hcl.NewDiagnosticTextWriter(&b, c.Sources, 80, true).WriteDiagnostics(diags))
		for _, d := range diags {
			require.NotNil(t, d.Subject)
			require.NotEmpty(t, d.Summary)
			require.NotEmpty(t, d.Detail)
		}
		if diags.HasErrors() {
			require.Empty(t, c.Ensembles)
			return
		}
		dump(c, true) // which encodes every payload
	})
}

var (
	loops  = regexp.MustCompile(`\b(for|range|setproduct|format|formatlist|indent|pow)\b|\*`)
	digits = regexp.MustCompile(`[0-9]{3}|[eE][-+]?[0-9]{2}`)
)

// multiplies reports whether a configuration may itself ask for minutes of work. A few loops over a few elements pass, and everything
// without loops.
func multiplies(src []byte) bool {
	src = bytes.ReplaceAll(src, []byte(preamble), nil)
	n := len(loops.FindAll(src, 5))
	return n > 4 || n > 0 && digits.Match(src)
}
