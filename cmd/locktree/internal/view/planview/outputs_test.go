package planview

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// testdata/outputs.txt is the output of Terraform 1.11.4 for the values of outputs.json: plans that create, change and delete them, and the
// end of an apply. Outputs stood on one line each, and a changed map was shown as both maps in full.
func TestOutputsAreLaidOutAsTerraformDoes(t *testing.T) {
	data, err := os.ReadFile("testdata/outputs.json")
	require.NoError(t, err)
	var values []struct {
		Name                string
		Type, Before, After json.RawMessage
		Sensitive           bool
	}
	require.NoError(t, json.Unmarshal(data, &values))
	recorded, err := os.ReadFile("testdata/outputs.txt")
	require.NoError(t, err)
	want := map[string]string{}
	for part := range strings.SplitSeq("\n"+string(recorded), "\n-- ") {
		name, text, _ := strings.Cut(part, " --\n")
		want[name] = text + "\n"
	}
	for name, action := range map[string]plan.Action{"create": plan.Create, "update": plan.Update, "delete": plan.Delete} {
		var changes []plan.OutputChange
		for _, v := range values {
			c := plan.OutputChange{Name: v.Name, Action: action}
			before := &plan.Output{Name: v.Name, Type: v.Type, Value: v.Before, Sensitive: v.Sensitive}
			switch {
			case action == plan.Create:
				c.After = before
			case action == plan.Delete:
				c.Before = before
			case string(v.After) == "null":
				c.Action, c.Before = plan.Delete, before
			case string(v.Before) == string(v.After) && !v.Sensitive:
				c.Action = plan.NoOp
			default:
				c.Before, c.After = before, &plan.Output{Name: v.Name, Value: v.After, Sensitive: v.Sensitive}
			}
			changes = append(changes, c)
		}
		var got strings.Builder
		outputChanges(view.Stream{Writer: &got}, []*plan.Plan{{Outputs: changes}})
		require.Equal(t, want[name], strings.TrimPrefix(got.String(), "\n"), name)
	}
	shown := "Outputs:\n\n"
	for _, v := range values {
		text := OutputValue(plan.Output{Name: v.Name, Type: v.Type, Value: v.Before, Sensitive: v.Sensitive})
		if v.Sensitive {
			text = "<sensitive>" // Terraform prints this here; we print "(sensitive value)" everywhere
		}
		shown += fmt.Sprintf("%s = %s\n", v.Name, text)
	}
	require.Equal(t, strings.TrimSpace(want["applied"]), strings.TrimSpace(shown))
}

// Control characters in the record must not reach the terminal.
func TestOutputsAreShownSafely(t *testing.T) {
	bad, err := json.Marshal(map[string]any{"k\x1b[31m": []any{"a\x1b[31m", "b\n\x1b[31m\u202ec"}})
	require.NoError(t, err)
	o := &plan.Output{Name: "x", Value: bad}
	var got strings.Builder
	outputChanges(view.Stream{Writer: &got}, []*plan.Plan{{Outputs: []plan.OutputChange{{Name: "x", Action: plan.Create, After: o},
		{Name: "x", Action: plan.Update, Before: &plan.Output{Value: json.RawMessage(`{"k":["b\nc"]}`)}, After: o}}}})
	evil := plan.Output{Name: "x\x1b[31m", Value: json.RawMessage(`1`)}
	outputChanges(view.Stream{Writer: &got}, []*plan.Plan{{Outputs: []plan.OutputChange{{Name: evil.Name, Action: plan.Create, After: &evil}}}})
	var shown strings.Builder
	view.NewHuman(view.Stream{Writer: &shown}, view.Stream{}).Show(Outputs{evil})
	for _, shown := range []string{got.String(), OutputValue(*o), shown.String()} {
		require.NotContains(t, shown, "\x1b")
		require.NotContains(t, shown, "\u202e")
		require.Contains(t, shown, `\x1b[31m`)
	}
	require.Equal(t, "(unreadable)", OutputValue(plan.Output{Value: json.RawMessage(`{`)}))
}

// A list of a hundred thousand paths is compared place by place: the table of all pairs would not fit into memory.
func TestLongListsAreCompared(t *testing.T) {
	var before, after []any
	for i := range 100_000 {
		before, after = append(before, fmt.Sprint("/a/", i)), append(after, fmt.Sprint("/b/", i))
	}
	output := func(v []any) *plan.Output {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		return &plan.Output{Name: "o", Value: data}
	}
	var out strings.Builder
	outputChanges(view.Stream{Writer: &out}, []*plan.Plan{{Outputs: []plan.OutputChange{{Name: "o", Action: plan.Update, Before: output(before), After: output(after[:99_999])}}}})
	require.Contains(t, out.String(), `      - "/a/99999",`)
	require.Contains(t, out.String(), `      + "/b/0",`)
}

// While a password is rotated, a user has two entries that read the same. The plan shows which of them comes or goes.
func TestDigestsOfOneUserAreToldApart(t *testing.T) {
	of := func(hash string) kind.ACL { return kind.ACL{Scheme: "digest", ID: "ops:" + hash, Perms: kind.PermAll} }
	ci := kind.ACL{Scheme: "digest", ID: "ci:1", Perms: kind.PermRead}
	for _, c := range []struct {
		before, after kind.List
		want          []string
	}{
		{kind.List{of("1"), ci}, kind.List{of("1"), of("2"), ci}, []string{`+ "digest:ops:cdrwa", # another digest of that user`, "  # (2 unchanged entries hidden)"}},
		{kind.List{of("1"), of("2"), ci}, kind.List{of("2"), ci}, []string{`- "digest:ops:cdrwa", # another digest of that user`, "  # (2 unchanged entries hidden)"}},
		{kind.List{of("1"), ci}, kind.List{of("2"), ci}, []string{`~ "digest:ops:cdrwa", # another digest of that user`, "  # (1 unchanged entry hidden)"}},
		{kind.List{of("1")}, kind.List{of("1"), ci}, []string{`+ "digest:ci:r",`, "  # (1 unchanged entry hidden)"}},
		{kind.List{of("1"), ci}, kind.List{of("1")}, []string{`- "digest:ci:r",`, "  # (1 unchanged entry hidden)"}},
	} {
		require.Equal(t, c.want, listChange(&plan.ACLDiff{Before: c.before, After: c.after}))
	}
}
