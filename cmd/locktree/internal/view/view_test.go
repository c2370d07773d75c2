package view_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

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
	v, out, err := capture()
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

func TestVersion(t *testing.T) {
	v, out, _ := capture()
	v.Show(view.Version{Version: "1.2.3", Platform: "linux_amd64", Revision: "abc", Modified: true, PayloadFormat: 1})
	require.Equal(t, "locktree v1.2.3\non linux_amd64\nbuilt from abc, changed since\nznode payload format 1\n", out.String())
	out.Reset()
	view.NewDocuments(out, view.Stream{}, "").Show(view.Version{Version: "1.2.3", Platform: "linux_amd64", PayloadFormat: 1})
	require.JSONEq(t, `{"locktree_version":"1.2.3","platform":"linux_amd64","revision":"","modified":false,"payload_format":1}`, out.String())
}

// The line is removed before the next output, and never wraps.
func TestTheLineOfProgressIsRemoved(t *testing.T) {
	var screen strings.Builder
	to := view.Stream{Writer: &screen, Terminal: true, Width: 60}
	v := view.NewHuman(to, to)
	v.Progress(&view.Progress{What: "Connecting to zk1:2181", Elapsed: 2500 * time.Millisecond})
	v.Progress(&view.Progress{What: `Reading ensemble "main"`, Unit: "nodes", Done: 100, Total: 400, Elapsed: 3 * time.Second})
	v.Message("a message")
	v.Progress(&view.Progress{What: "Reading " + strings.Repeat("a", 100), Elapsed: time.Second})
	v.Progress(nil)
	v.Progress(nil)
	v.Show(view.Version{Version: "1", Platform: "p"})
	const gone = "\r\x1b[K"
	require.Equal(t, "Connecting to zk1:2181: 2s"+gone+`Reading ensemble "main": 100 of 400 nodes, about 9s left`+gone+"a message\n"+
		"Reading "+strings.Repeat("a", 51)+gone+"locktree v1\non p\nznode payload format 0\n", screen.String())

	var pipe strings.Builder
	v = view.NewHuman(view.Stream{Writer: &pipe}, view.Stream{Writer: &pipe})
	v.Progress(&view.Progress{What: "Connecting"})
	require.Empty(t, pipe.String())
}
