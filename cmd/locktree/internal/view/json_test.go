package view_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
)

func TestPlanStream(t *testing.T) {
	var out bytes.Buffer
	v := view.NewStream(&out, "1.2.3", clock)
	v.Show(view.Plan{Plans: []*plan.Plan{richPlan()}, Files: sources(), SavedTo: "p.bin"})
	golden(t, "plan.jsonl", out.String())
	out.Reset()
	view.NewStream(&out, "1.2.3", clock).Show(view.Plan{Plans: []*plan.Plan{movedPlan()}})
	golden(t, "plan_moves.jsonl", out.String())
}

// Whoever reads the stream line by line finds an object with the five fields
// every message has, the version first.
func TestStreamIsOneObjectALine(t *testing.T) {
	var out bytes.Buffer
	v := view.NewStream(&out, "1.2.3", clock)
	v.Message("two\nlines")
	v.Diagnostics(view.Explain(view.Failf("No", "really\nnot")), nil)
	n := 0
	for scan := bufio.NewScanner(&out); scan.Scan(); n++ {
		var m map[string]any
		require.NoError(t, json.Unmarshal(scan.Bytes(), &m))
		for _, key := range []string{"@level", "@message", "@module", "@timestamp", "type"} {
			require.Contains(t, m, key)
		}
		if n == 0 {
			require.Equal(t, "version", m["type"])
			require.Equal(t, view.UIVersion, m["ui"])
		}
	}
	require.Equal(t, 3, n)
}

func TestPlanDocument(t *testing.T) {
	var out bytes.Buffer
	view.NewDocuments(&out, view.Stream{}, "1.2.3").Show(view.Saved{view.Plan{Plans: []*plan.Plan{richPlan()}}})
	golden(t, "plan.json", out.String())
}

// diagnosed evaluates an expression that fails and mentions a sensitive value.
func diagnosed(t *testing.T) (hcl.Diagnostics, map[string]*hcl.File) {
	t.Helper()
	src := []byte("# one\nmutex \"a\" {\n  permits = var.secret + local.n + local.missing\n}\n")
	file, diags := hclsyntax.ParseConfig(src, "x.locktree.hcl", hcl.InitialPos)
	require.False(t, diags.HasErrors())
	expr := file.Body.(*hclsyntax.Body).Blocks[0].Body.Attributes["permits"].Expr
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{
		"var":   cty.ObjectVal(map[string]cty.Value{"secret": cty.StringVal("CANARY").Mark("sensitive")}),
		"local": cty.ObjectVal(map[string]cty.Value{"n": cty.NumberIntVal(7)}),
	}}
	_, diags = expr.Value(ctx)
	require.True(t, diags.HasErrors())
	diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Bad", Detail: "Because.", Subject: expr.Range().Ptr(), Expression: expr, EvalContext: ctx},
		&hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "Odd", Detail: "Nowhere in particular."})
	return diags, map[string]*hcl.File{"x.locktree.hcl": file}
}

func TestValidation(t *testing.T) {
	diags, files := diagnosed(t)
	v, out, err := capture(nil)
	v.Show(view.Validation{diags, files})
	golden(t, "invalid.txt", out.String()+err.String())
	out.Reset()
	view.NewDocuments(out, view.Stream{}, "1.2.3").Show(view.Validation{diags, files})
	golden(t, "invalid.json", out.String())
	require.NotContains(t, out.String()+err.String(), "CANARY")

	out.Reset()
	err.Reset()
	v.Show(view.Validation{nil, nil})
	require.Equal(t, "Success! The configuration is valid.\n", out.String())
	require.Empty(t, err.String())
	out.Reset()
	view.NewDocuments(out, view.Stream{}, "1.2.3").Show(view.Validation{nil, nil})
	require.JSONEq(t, `{"format_version":"1.0","valid":true,"error_count":0,"warning_count":0,"diagnostics":[]}`, out.String())
}

// Ranges that reach beyond the file, as those of an unfinished file do, must not
// make the snippet fail.
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

func TestVersion(t *testing.T) {
	v, out, _ := capture(nil)
	v.Show(view.Version{Version: "1.2.3", Platform: "linux_amd64", Revision: "abc", Modified: true, PayloadFormat: 1})
	require.Equal(t, "locktree v1.2.3\non linux_amd64\nbuilt from abc, changed since\nznode payload format 1\n", out.String())
	out.Reset()
	view.NewDocuments(out, view.Stream{}, "").Show(view.Version{Version: "1.2.3", Platform: "linux_amd64", PayloadFormat: 1})
	require.JSONEq(t, `{"locktree_version":"1.2.3","platform":"linux_amd64","revision":"","modified":false,"payload_format":1}`, out.String())
}

// C1 controls, marks that turn text around and characters without a width stood in JSON as they were.
func TestJSONHasNoInvisibleCharacters(t *testing.T) {
	const hidden = "\u007f\u0085\u009b31m\u200b\u202e\u2066\ufeff\U000e0041\u00a0"
	id := "a" + hidden + "é日\U0001f512\\u0041\"z"
	tree := liveTree()
	tree.Nodes[2].Live.Usage = &kind.Usage{Holders: []kind.Party{{ID: id}}, Junk: []string{id}}
	var out, lines bytes.Buffer
	view.NewDocuments(&out, view.Stream{}, "1.2.3").Show(view.Status{Trees: []*plan.Tree{tree}, Declared: []*plan.Tree{{}}, Servers: []string{""}, Drift: []*plan.Plan{{}}})
	view.NewStream(&lines, "1.2.3", clock).Message(id)
	raw, err := json.Marshal(id)
	require.NoError(t, err)
	for _, doc := range [][]byte{out.Bytes(), lines.Bytes(), view.VisibleJSON(raw), view.VisibleJSON([]byte("\"\xff\""))} {
		require.NotContains(t, strings.Map(func(r rune) rune {
			if r != '\n' && !unicode.IsPrint(r) {
				return '!'
			}
			return r
		}, strings.ReplaceAll(string(doc), "!", "")), "!")
		require.True(t, utf8.Valid(doc))
	}
	var status struct {
		Ensembles []struct {
			Locks []struct{ Holders []struct{ ID string } }
		}
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &status))
	require.Equal(t, id, status.Ensembles[0].Locks[1].Holders[0].ID, "the value is the same")
	require.Contains(t, out.String(), "é日\U0001f512", "what can be seen stays")
}
