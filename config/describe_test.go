package config_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"

	"github.com/locktree/locktree/config"
)

// The schema is read by documentation and editors: a change of the language has
// to show up in the diff of this file.
func TestTheSchemaIsWhatItWas(t *testing.T) {
	const golden = "../testdata/config/schema.json"
	got, err := json.MarshalIndent(config.Schema(), "", "  ")
	require.NoError(t, err)
	got = append(got, '\n')
	if *update {
		require.NoError(t, os.WriteFile(golden, got, 0o666))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func eachBlock(blocks []*config.BlockSchema, f func(*config.BlockSchema)) {
	for _, b := range blocks {
		f(b)
		eachBlock(b.Blocks, f)
	}
}

// Nobody can look up what has no name, type or sentence.
func TestEveryArgumentIsDescribed(t *testing.T) {
	eachBlock(config.Schema().Blocks, func(b *config.BlockSchema) {
		require.True(t, strings.HasSuffix(b.Doc, "."), b.Name)
		for _, a := range b.Arguments {
			require.NotEmpty(t, a.Type, "%s.%s", b.Name, a.Name)
			require.True(t, strings.HasSuffix(a.Doc, "."), "%s.%s: %s", b.Name, a.Name, a.Doc)
			require.False(t, a.Required && a.Default != nil, "%s.%s cannot be missing", b.Name, a.Name)
		}
	})
}

// What the tables of package kind say must arrive: a default or a forced
// replacement that is documented wrong is worse than none.
func TestTheSchemaSaysWhatTheKindsSay(t *testing.T) {
	byName := map[string]*config.BlockSchema{}
	for _, b := range config.Schema().Blocks {
		byName[b.Name] = b
	}
	for _, k := range kind.All() {
		b := byName[k.Name]
		require.NotNil(t, b, k.Name)
		require.True(t, b.Module)
		require.Equal(t, k.Container, len(b.Contains) == len(kind.All()))
		args := map[string]config.ArgumentSchema{}
		for _, a := range b.Arguments {
			args[a.Name] = a
		}
		for _, f := range k.New().Fields() {
			a := args[f.Name]
			require.Equal(t, f.Default, a.Default)
			require.Equal(t, f.Replace, a.ForcesReplace)
			require.Equal(t, f.OneOf, a.OneOf)
			require.Equal(t, f.Number, a.Max != nil)
			if a.Max != nil {
				require.Equal(t, []int{f.Min, f.Max}, []int{*a.Min, *a.Max})
			}
		}
	}
	require.False(t, byName["ensemble"].Module)
	require.False(t, byName["import"].Module)
}

// The defaults the schema names are the ones Load uses.
func TestDefaultsOfTheSchemaHold(t *testing.T) {
	c := mustLoad(t, "mutex \"m\" {}\nvariable \"v\" { default = null }\nremoved { from = mutex.x }\noutput \"o\" { value = var.v }\n")
	e := c.Ensembles[0]
	defaults := map[string]any{}
	eachBlock(config.Schema().Blocks, func(b *config.BlockSchema) {
		for _, a := range b.Arguments {
			defaults[b.Name+"."+a.Name] = a.Default
		}
	})
	require.Equal(t, defaults["ensemble.root"], e.Root)
	require.Equal(t, defaults["lifecycle.destroy"], e.Tree.Intent.Removals[0].Destroy)
	require.Equal(t, defaults["output.sensitive"], c.Outputs[0].Sensitive)
	require.Equal(t, defaults["variable.nullable"], string(c.Outputs[0].Value) == "null")
	require.Equal(t, defaults["acl.allow_lockout"], e.Tree.Nodes[0].AllowLockout)
}
