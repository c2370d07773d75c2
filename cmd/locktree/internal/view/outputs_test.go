package view_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/stretchr/testify/require"
)

// testdata/terraform/outputs.txt is what Terraform 1.11.4 showed of the values of outputs.json after an apply. Outputs stood on one
// line each.
func TestOutputsAreLaidOutAsTerraformDoes(t *testing.T) {
	data, err := os.ReadFile("testdata/terraform/outputs.json")
	require.NoError(t, err)
	var values []struct {
		Name         string
		Type, Before json.RawMessage
		Sensitive    bool
	}
	require.NoError(t, json.Unmarshal(data, &values))
	want, err := os.ReadFile("testdata/terraform/outputs.txt")
	require.NoError(t, err)
	shown := "Outputs:\n\n"
	for _, v := range values {
		text := view.OutputValue(plan.Output{Name: v.Name, Type: v.Type, Value: v.Before, Sensitive: v.Sensitive})
		if v.Sensitive {
			text = "<sensitive>" // which is Terraform's text here; ours is the same everywhere
		}
		shown += fmt.Sprintf("%s = %s\n", v.Name, text)
	}
	require.Equal(t, string(want), shown)
}

// What a hand or a foreign program wrote into the record must not reach the terminal.
func TestOutputsAreShownSafely(t *testing.T) {
	bad, err := json.Marshal(map[string]any{"k\x1b[31m": []any{"a\x1b[31m", "b\n\x1b[31m\u202ec"}})
	require.NoError(t, err)
	o := &plan.Output{Name: "x", Value: bad}
	var got strings.Builder
	view.OutputChanges(&got, []plan.OutputChange{{Name: "x", Action: plan.Create, After: o},
		{Name: "x", Action: plan.Update, Before: &plan.Output{Value: json.RawMessage(`{"k":["b\nc"]}`)}, After: o}})
	v, shown, _ := capture(nil)
	evil := plan.Output{Name: "x\x1b[31m", Value: json.RawMessage(`1`)}
	view.OutputChanges(&got, []plan.OutputChange{{Name: evil.Name, Action: plan.Create, After: &evil}})
	v.Show(view.Outputs{evil})
	for _, text := range []string{got.String(), view.OutputValue(*o), shown.String()} {
		require.NotContains(t, text, "\x1b")
		require.NotContains(t, text, "\u202e")
		require.Contains(t, text, `\x1b[31m`)
	}
	require.Equal(t, "(unreadable)", view.OutputValue(plan.Output{Value: json.RawMessage(`{`)}))
}
