package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestFormat(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"aligns and indents": {"a {\nlong = 1\n  b=2 # why\n}\n", "a {\n  long = 1\n  b    = 2 # why\n}\n"},
		"unwraps":            {"a = \"${local.x}\"\nb { c = \"${each.key}\" }\n", "a = local.x\nb { c = each.key }\n"},
		"keeps text":         {"a = \"${local.x}-\"\nb = \"${local.x}${local.y}\"\nc = \"x\"\n", "a = \"${local.x}-\"\nb = \"${local.x}${local.y}\"\nc = \"x\"\n"},
		"keeps strip marks":  {"a = \"${~ local.x ~}\"\n", "a = \"${~local.x~}\"\n"},
		"unwraps strings":    {"a = \"${upper(\"b\")}\"\n", "a = upper(\"b\")\n"},
		"quotes labels":      {"mutex ledger {}\nmutex /* a */ \"b\" {}\n", "mutex \"ledger\" {}\nmutex \"b\" {}\n"},
		"keeps odd labels":   {"mutex \"a$${x}\\\"b\" {}\n", "mutex \"a$${x}\\\"b\" {}\n"},
		"keeps comments":     {"// one\na = 1 /* two */\n", "// one\na = 1 /* two */\n"},
	} {
		t.Run(name, func(t *testing.T) {
			out, diags := Format([]byte(c.in), "x.locktree.hcl")
			require.Empty(t, diags)
			require.Equal(t, c.want, string(out))
		})
	}
}

func TestFormatLeavesWhatItCannotReadAlone(t *testing.T) {
	for name, src := range map[string]string{
		"x.locktree.hcl":  "a = \n",
		"y.locktree.json": `{"a": }`,
		"z.locktree.hcl":  strings.Repeat("a = [", 200),
	} {
		out, diags := Format([]byte(src), name)
		require.True(t, diags.HasErrors(), name)
		require.Equal(t, src, string(out))
	}
	out, diags := Format([]byte(`{ "a":1 }`), "y.locktree.json")
	require.Empty(t, diags)
	require.Equal(t, `{ "a":1 }`, string(out))
}

// What was formatted once is not changed by formatting it again, and means the
// same.
func TestFormatIsIdempotentAndKeepsTheMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := preamble + drawTree(t)
		once, diags := Format([]byte(src), "x.locktree.hcl")
		require.Empty(t, diags)
		twice, diags := Format(once, "x.locktree.hcl")
		require.Empty(t, diags)
		require.Equal(t, string(once), string(twice))
		before, diags := loadText(src, Options{Environ: testEnviron})
		require.False(t, diags.HasErrors(), "%v\n%s", diags, src)
		after, diags := loadText(string(once), Options{Environ: testEnviron})
		require.False(t, diags.HasErrors(), "%v\n%s", diags, once)
		require.Equal(t, before.Hash, after.Hash)
	})
}
