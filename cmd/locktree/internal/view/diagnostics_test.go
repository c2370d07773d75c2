package view_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

// A name that was mistyped fifty times was fifty errors of the same words.
func TestDiagnosticsOfTheSameWordsAreFolded(t *testing.T) {
	file := &hcl.File{Bytes: []byte(strings.Repeat("acl = acl.opn\n", 50))}
	var diags hcl.Diagnostics
	for i := range 50 {
		at := hcl.Range{Filename: "a.locktree.hcl", Start: hcl.Pos{Line: i + 1, Column: 7, Byte: i*14 + 6}, End: hcl.Pos{Line: i + 1, Column: 14, Byte: i*14 + 13}}
		diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Unknown reference", Detail: "There is no acl.opn.", Subject: &at},
			&hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "Other", Detail: fmt.Sprint("Differs: ", i), Subject: &at})
	}
	v, _, err := capture()
	v.Diagnostics(diags, map[string]*hcl.File{"a.locktree.hcl": file})
	require.Equal(t, 3, strings.Count(err.String(), "Error: Unknown reference"))
	require.Equal(t, 50, strings.Count(err.String(), "Warning: Other"))
	require.Contains(t, err.String(), "There is no acl.opn.\n\n47 more like this, the next on a.locktree.hcl line 4.\n")
	v, _, err = capture()
	v.Diagnostics(append(diags[:4:4], diags[5]), nil)
	require.Equal(t, 2, strings.Count(err.String(), "Error: Unknown reference"))
	require.NotContains(t, err.String(), "more like this")
}

// An error on a line of two megabytes showed the line, and one about a value of that length the value.
func TestDiagnosticsOfLongLinesNameThePlace(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	for _, src := range []string{
		"a = 1\nb = [\"" + long + "\", acl.nope, \"" + long + "\"]\n", "a = 1\nb = acl.nope\nc = \"" + long + "\"\n",
		"a = 1\nb = \"" + long + "${acl.nope}", "a = 1\nb = acl.nope + acl." + long,
	} {
		file := &hcl.File{Bytes: []byte(src)}
		at := hcl.Range{Filename: "a.locktree.hcl", Start: hcl.Pos{Line: 2, Column: 9, Byte: strings.Index(src, "acl.nope")}}
		at.End = hcl.Pos{Line: 2, Column: 17, Byte: at.Start.Byte + len("acl.nope")}
		context := hcl.Range{Filename: at.Filename, Start: hcl.Pos{Line: 1}, End: hcl.Pos{Line: 3, Byte: len(src)}}
		d := &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Wrong " + long, Detail: "There is no " + long + ".", Subject: &at, Context: &context,
			Expression:  &hclsyntax.ScopeTraversalExpr{Traversal: hcl.Traversal{hcl.TraverseRoot{Name: "v"}}},
			EvalContext: &hcl.EvalContext{Variables: map[string]cty.Value{"v": cty.StringVal(long)}}}
		files := map[string]*hcl.File{at.Filename: file}
		v, _, text := capture(func(s *view.Stream) { s.Color = true })
		v.Diagnostics(hcl.Diagnostics{d}, files)
		require.Less(t, text.Len(), 10_000)
		require.True(t, utf8.Valid(text.Bytes()))
		require.Contains(t, text.String(), "In a.locktree.hcl, line 2, column 9: There is no éé")
		require.Contains(t, text.String(), `v is "éé`)

		j := view.DiagnosticsJSON(hcl.Diagnostics{d}, files)[0]
		require.Nil(t, j.Snippet)
		require.Equal(t, at.Start.Byte, j.Range.Start.Byte, "the place is that of the file")
	}
}

// A configuration under review wrote to the terminal of who validated it: its lines were quoted as they are.
func TestQuotedSourceIsInert(t *testing.T) {
	src := "é = \"\x1b]0;owned\a\x00\u202e\x9b\u009b\" + acl.nope\r\n"
	at := hcl.Range{Filename: "a.locktree.hcl", Start: hcl.Pos{Line: 1, Byte: strings.Index(src, "acl")}, End: hcl.Pos{Line: 1, Byte: strings.Index(src, "\r")}}
	v, _, text := capture(func(s *view.Stream) { s.Color = true })
	v.Diagnostics(hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Wrong", Detail: "It is.", Subject: &at}}, map[string]*hcl.File{at.Filename: {Bytes: []byte(src)}})
	require.Contains(t, text.String(), "é = \"?]0;owned????"+"????\" + \x1b[1;4macl.nope\x1b[0m\n")
	require.NotContains(t, text.String(), "\x1b]")
	require.False(t, strings.ContainsAny(text.String(), "\a\x00\u202e\u009b"))
}

// Ranges that reach beyond the file, as those of an unfinished file do, must not make the snippet fail.
func TestSnippetAtTheEdges(t *testing.T) {
	file := &hcl.File{Bytes: []byte("a = ")}
	for _, r := range []hcl.Range{
		{Start: hcl.Pos{Line: 1, Byte: 4}, End: hcl.Pos{Line: 1, Byte: 4}},
		{Start: hcl.Pos{Line: 1, Byte: 2}, End: hcl.Pos{Line: 9, Byte: 99}},
		{Start: hcl.Pos{Line: 2, Byte: 5}, End: hcl.Pos{Line: 2, Byte: 6}},
		{},
	} {
		s := view.Snippet(&hcl.Diagnostic{Subject: &r}, file)
		if s != nil {
			require.LessOrEqual(t, s.HighlightStartOffset, len(s.Code))
			require.LessOrEqual(t, s.HighlightEndOffset, len(s.Code))
		}
	}
	require.Nil(t, view.Snippet(&hcl.Diagnostic{Subject: &hcl.Range{}}, nil))
}
