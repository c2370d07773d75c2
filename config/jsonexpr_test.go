package config

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/hcl/v2"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// What is parsed for evaluation means what hcl/json makes of it.
func TestJSONExpressionsMeanWhatTheyMeant(t *testing.T) {
	for _, value := range []string{
		`null`, `true`, `-1.5`, `""`, `"text"`, `"$${x} %%{y}"`, `"\u00e9\n"`, `[]`, `{}`, `[[], {}, null]`, `"${1 + 1}"`, `"a${1 + 1}b"`,
		`{"${upper("k")}": ["${[for x in [1, 2] : x * 2]}", "%{ for x in [1, 2] }${x};%{ endfor }"], "plain": {"//": 1}}`,
	} {
		file, diags := hcljson.Parse([]byte(`{"a": `+strings.ReplaceAll(value, `upper("k")`, `upper(\"k\")`)+`}`), "x.json")
		require.False(t, diags.HasErrors(), "%s: %v", value, diags)
		attrs, diags := file.Body.JustAttributes()
		require.False(t, diags.HasErrors(), "%s: %v", value, diags)
		ctx := &hcl.EvalContext{Functions: map[string]function.Function{"upper": stdlib.UpperFunc}}
		want, diags := attrs["a"].Expr.Value(ctx)
		require.False(t, diags.HasErrors(), "%s: %v", value, diags)
		got, diags := native(attrs["a"].Expr).Value(ctx)
		require.False(t, diags.HasErrors(), "%s: %v", value, diags)
		require.True(t, want.RawEquals(got), "%s: %#v, %#v", value, want, got)
	}
}

// hcl/json panics on a key that is sensitive.
func TestKeysOfJSONObjects(t *testing.T) {
	load := func(object string) hcl.Diagnostics {
		_, diags := loadFS(fstest.MapFS{"x.locktree.json": {Data: []byte(`{"locktree": {"stack": "s"}, "variable": {"s": {"default": "x", "sensitive": true}},
  "locals": {"a": ` + object + `}, "output": {"o": {"value": "${local.a.x}"}}}`)}}, ".", Options{Environ: testEnviron})
		return diags
	}
	require.Contains(t, summaries(load(`{"${var.s}": 1}`)), "ensitive")
	require.Contains(t, summaries(load(`{"x": 1, "x": 2}`)), "Duplicate object attribute")
	require.Empty(t, load(`{"x": 1}`))
}
