package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// parts are pieces of a file that a cut could tear: what looks like the end of a
// block stands in comments, heredocs, brackets and blocks.
var parts = []string{
	"mutex \"a\" {\n}\n", "namespace \"n\" {\n  mutex \"m\" {\n  }\n}\n", "# }\n", "// {\n", "/* {\n}\n*/\n", "\n\n",
	"a = <<X\n}\n{\nX\n", "a = <<-X\n  ${\"}\"}\n  %{ if true }\n}\n  %{ endif }\n  X\n", "locals {\n  a = [\n1,\n2\n]\n}\n",
	"locals {\n  s = \"/* } ${ { a = \"}\" }.a } \"\n}\n", "mutex \"c\" {}\r\n", "b = 6 / 2 * 3 # /*\n", "locals {\n  x = (1 +\n2)\n}\n",
	"locals {\n  t = \"%{ if true }x%{ else }y%{ endif }\"\n}\n",
}

// Cut or whole, wherever the cuts fall: the same blocks at the same places.
func TestSplitFilesParseAsWholeOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 30).Draw(t, "parts"), ""))
		piece := rapid.IntRange(1, 60).Draw(t, "piece")
		chunks, d := splitBy(src, "x", piece)
		require.Nil(t, d)
		whole, diags := hclsyntax.ParseConfig(src, "x", hcl.InitialPos)
		redefined := diags.HasErrors() // an argument twice: the only mistake here, and one of the whole
		var got []string
		at := 0
		for _, c := range chunks {
			require.Equal(t, at, c.start.Byte)
			at = c.end
			file, diags := c.parse(src, "x")
			if !redefined {
				require.False(t, diags.HasErrors(), "%v in %q", diags, src[c.start.Byte:c.end])
			}
			got = append(got, places(file)...)
		}
		require.Equal(t, len(src), at)
		require.Equal(t, places(whole), got)
	})
}

func places(f *hcl.File) []string {
	var out []string
	for _, b := range f.Body.(*hclsyntax.Body).Blocks {
		out = append(out, fmt.Sprint(b.Type, b.Labels, b.Range(), b.Body.Range()))
	}
	return out
}

// A file larger than a piece: mistakes in it keep their line and their block.
func TestMistakesInLargeFilesKeepTheirPlaces(t *testing.T) {
	var b strings.Builder
	b.WriteString(preamble)
	for i := range 20_000 {
		fmt.Fprintf(&b, "mutex \"m%d\" {\n}\n", i)
	}
	line := strings.Count(b.String(), "\n") + 2
	b.WriteString("mutex \"last\" {\n  nam = 1\n}\n/* the end")
	c, diags := loadText(b.String(), Options{Environ: testEnviron})
	require.Len(t, c.Sources, 1)
	require.Greater(t, len(c.Sources["main.locktree.hcl"].Nav.(*navigator).chunks), 3)
	text := render(t, c, diags)
	require.Contains(t, text, fmt.Sprintf("line %d", line+2), text)
	c, diags = loadText(strings.TrimSuffix(b.String(), "/* the end"), Options{Environ: testEnviron})
	require.Contains(t, render(t, c, diags), fmt.Sprintf("on main.locktree.hcl line %d, in mutex \"last\":", line))
}
