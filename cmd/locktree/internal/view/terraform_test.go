package view_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// HashiCorp's library for these documents reads a plan, and writes it again. The tags are names that it writes. The other fields need no
// tag: encoding/json matches them by their own names.
type terraformPlan struct {
	FormatVersion   string                       `json:"format_version"`
	ResourceDrift   []*terraformChange           `json:"resource_drift"`
	ResourceChanges []*terraformChange           `json:"resource_changes"`
	OutputChanges   map[string]*terraformOutcome `json:"output_changes"`
	Configuration   *struct{}
	Complete        *bool
	Checks          []struct {
		Address   struct{ Module, Name string }
		Status    string
		Instances []struct{ Problems []struct{ Message string } }
	}
}

type terraformState struct {
	FormatVersion string `json:"format_version"`
	Values        struct {
		RootModule *terraformModule `json:"root_module"`
	}
}

type terraformModule struct {
	Address   string
	Resources []struct {
		Address, Mode, Type, Name string
		Values                    map[string]any
	}
	ChildModules []*terraformModule `json:"child_modules"`
}

type terraformChange struct {
	Address, Mode, Type, Name string
	PreviousAddress           string `json:"previous_address"`
	Index                     any
	Change                    *terraformOutcome
}

type terraformOutcome struct {
	Actions       []string
	Before, After any
	ReplacePaths  []any `json:"replace_paths"`
	Importing     *struct{ ID string }
}

// terraformJSON builds the program around hashicorp/terraform-json. The program is a module of its own, so users of locktree do not download it.
var terraformJSON = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "terraform-json-")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "terraform")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = "testdata/terraform"
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if program, err := terraformJSON(); err == nil {
		os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(code)
}

// understood has the library read a document, and decodes what it understood.
func understood(t *testing.T, kind, document string, into any) {
	t.Helper()
	program, err := terraformJSON()
	require.NoError(t, err)
	cmd := exec.Command(program, kind)
	cmd.Stdin = strings.NewReader(document)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	require.NoError(t, json.Unmarshal(out, into))
}

// terraformActions are the action lists in Terraform's documentation. Programs compare with them.
var terraformActions = []string{"no-op", "create", "read", "update", "delete", "delete create", "create delete", "forget"}

func TestTerraformsLibraryReadsOurPlans(t *testing.T) {
	checks := []plan.Check{{Addr: "check.small", Verdict: plan.CheckPass},
		{Addr: `module.team["a.b"].check.large`, Verdict: plan.CheckFail, Problems: []string{"Too many."}}}
	for name, p := range map[string]*plan.Plan{"rich": richPlan(), "moved": movedPlan(), "failing": failingPlan()} {
		t.Run(name, func(t *testing.T) {
			doc := document(planview.Saved{Plan: planview.Plan{Plans: []*plan.Plan{p}, Checks: checks}})
			var own struct{ Applyable, Errored bool } // of newer formats than the library's
			require.NoError(t, json.Unmarshal([]byte(doc), &own))
			require.Equal(t, name == "failing", own.Errored)
			require.Equal(t, name != "failing", own.Applyable)

			var read terraformPlan
			understood(t, "plan", doc, &read)
			require.Equal(t, "1.4", read.FormatVersion)
			require.NotNil(t, read.Configuration)
			require.Equal(t, name != "moved", *read.Complete, "the moved plan is a targeted one")
			require.Len(t, read.ResourceChanges, len(p.Changes))
			for i, c := range read.ResourceChanges {
				checkChange(t, c, &p.Changes[i])
			}
			if name == "rich" { // drift: changes by hand
				require.Len(t, read.ResourceDrift, 2)
				require.Equal(t, []string{"delete"}, read.ResourceDrift[0].Change.Actions)
				changed := read.ResourceDrift[1]
				require.Equal(t, []string{"update"}, changed.Change.Actions)
				require.Equal(t, "thumbnails", changed.Index)
				require.EqualValues(t, 4, changed.Change.Before.(map[string]any)["permits"], "what is declared")
				require.EqualValues(t, 8, changed.Change.After.(map[string]any)["permits"], "what is there")
				require.NotContains(t, doc, hash)
			}
			require.Len(t, read.OutputChanges, len(p.Outputs))
			for _, o := range read.OutputChanges {
				require.Contains(t, terraformActions, strings.Join(o.Actions, " "))
			}
			require.Len(t, read.Checks, 2)
			require.Equal(t, "pass", read.Checks[0].Status)
			require.Equal(t, "small", read.Checks[0].Address.Name)
			require.Equal(t, `module.team["a.b"]`, read.Checks[1].Address.Module)
			require.Equal(t, "large", read.Checks[1].Address.Name)
			require.Equal(t, "Too many.", read.Checks[1].Instances[0].Problems[0].Message)
		})
	}
}

// Resources of modules stand in their modules, which are nested.
func TestTerraformsLibraryReadsModules(t *testing.T) {
	tree := &plan.Tree{Ensemble: "main", Root: "/", Stack: "s"}
	for _, addr := range []string{"mutex.a", `module.a["module.x[\"y\"]."].module.b.mutex.deep`, "module.c.mutex.flat"} {
		tree.Nodes = append(tree.Nodes, node(addr, "/a", kind.Mutex.New()))
	}
	var read terraformState
	understood(t, "state", document(planview.Live{tree}), &read)
	require.Equal(t, "1.0", read.FormatVersion)
	root := read.Values.RootModule
	require.Len(t, root.Resources, 1)
	require.Equal(t, "managed", root.Resources[0].Mode)
	require.Equal(t, "mutex.a", root.Resources[0].Type+"."+root.Resources[0].Name)
	require.Equal(t, "/a", root.Resources[0].Values["path"])
	require.Len(t, root.ChildModules, 2)
	require.EqualValues(t, `module.a["module.x[\"y\"]."]`, root.ChildModules[0].Address)
	inner := root.ChildModules[0].ChildModules[0]
	require.EqualValues(t, `module.a["module.x[\"y\"]."].module.b`, inner.Address)
	require.Equal(t, "deep", inner.Resources[0].Name)
	require.EqualValues(t, "module.c", root.ChildModules[1].Address)
}

func checkChange(t *testing.T, c *terraformChange, of *plan.Change) {
	t.Helper()
	require.EqualValues(t, of.Addr, c.Address)
	require.Contains(t, c.Address, c.Type+"."+c.Name)
	require.Equal(t, "managed", c.Mode)
	require.Contains(t, terraformActions, strings.Join(c.Change.Actions, " "), c.Address)
	require.Equal(t, of.Before == nil, c.Change.Before == nil, c.Address)
	require.Equal(t, of.After == nil, c.Change.After == nil, c.Address)
	if of.Before != nil && of.Before.Payload != nil {
		require.Equal(t, of.Before.Path, c.Change.Before.(map[string]any)["path"], c.Address)
	}
	if of.After != nil {
		require.Equal(t, of.After.Path, c.Change.After.(map[string]any)["path"], c.Address)
	}
	if of.PreviousAddr != "" {
		require.EqualValues(t, of.PreviousAddr, c.PreviousAddress)
	}
	if of.Importing != "" {
		require.NotNil(t, c.Change.Importing)
		require.Equal(t, of.Importing, c.Change.Importing.ID)
	}
	for _, path := range c.Change.ReplacePaths {
		require.Contains(t, of.ForcesReplace, path.([]any)[0])
	}
}
