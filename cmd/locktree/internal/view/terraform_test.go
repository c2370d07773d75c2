package view

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/locktree/locktree/plan"
	"github.com/stretchr/testify/require"
)

// What programs written for Terraform's show -json read of a plan, in the types
// they read it with: a field of another type makes them fail.
type terraformPlan struct {
	FormatVersion    string                       `json:"format_version"`
	TerraformVersion string                       `json:"terraform_version"`
	PlannedValues    *terraformState              `json:"planned_values"`
	ResourceDrift    []*terraformChange           `json:"resource_drift"`
	ResourceChanges  []*terraformChange           `json:"resource_changes"`
	OutputChanges    map[string]*terraformOutcome `json:"output_changes"`
	Config           *terraformConfig             `json:"configuration"`
	Applyable        *bool                        `json:"applyable"`
	Complete         *bool                        `json:"complete"`
	Errored          *bool                        `json:"errored"`
}

type terraformState struct {
	RootModule struct {
		Resources []terraformResource `json:"resources"`
	} `json:"root_module"`
}

type terraformConfig struct {
	RootModule *struct{} `json:"root_module"`
}

type terraformResource struct {
	Address, Mode, Type, Name string
	ProviderName              string         `json:"provider_name"`
	Index                     any            `json:"index"`
	SchemaVersion             uint64         `json:"schema_version"`
	Values                    map[string]any `json:"values"`
}

type terraformChange struct {
	Address         string            `json:"address"`
	PreviousAddress string            `json:"previous_address"`
	ModuleAddress   string            `json:"module_address"`
	Mode            string            `json:"mode"`
	Type            string            `json:"type"`
	Name            string            `json:"name"`
	Index           any               `json:"index"`
	ProviderName    string            `json:"provider_name"`
	ActionReason    string            `json:"action_reason"`
	Change          *terraformOutcome `json:"change"`
}

type terraformOutcome struct {
	Actions         []string   `json:"actions"`
	Before          any        `json:"before"`
	After           any        `json:"after"`
	AfterUnknown    any        `json:"after_unknown"`
	BeforeSensitive any        `json:"before_sensitive"`
	AfterSensitive  any        `json:"after_sensitive"`
	ReplacePaths    [][]string `json:"replace_paths"`
	Importing       *struct {
		ID string `json:"id"`
	} `json:"importing"`
}

// The action lists Terraform's documentation names; programs compare with them.
var terraformActions = []string{"no-op", "create", "read", "update", "delete", "delete create", "create delete", "forget"}

func TestShowJSONReadsAsTerraforms(t *testing.T) {
	for name, p := range map[string]*plan.Plan{"rich": richPlan(), "moved": movedPlan(), "failing": failingPlan()} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			NewDocuments(&out, Stream{}, "1.2.3").Plan(Plan{Plans: []*plan.Plan{p}, Operation: "apply"})
			var read terraformPlan
			require.NoError(t, json.Unmarshal(out.Bytes(), &read))
			require.Equal(t, "1.2", read.FormatVersion)
			require.NotNil(t, read.Config)
			require.NotNil(t, read.Config.RootModule)
			require.Equal(t, name == "failing", *read.Errored)
			require.Equal(t, name != "failing", *read.Applyable)
			require.Equal(t, name != "moved", *read.Complete, "the moved plan is a targeted one")
			require.Len(t, read.ResourceChanges, len(p.Changes))
			for i, c := range read.ResourceChanges {
				checkChange(t, c, &p.Changes[i])
			}
			for _, r := range read.PlannedValues.RootModule.Resources {
				require.True(t, strings.Contains(r.Address, r.Type+"."+r.Name), r.Address)
				require.Equal(t, "managed", r.Mode)
				require.NotEmpty(t, r.Values["path"])
			}
			require.Len(t, read.OutputChanges, len(p.Outputs))
			for _, o := range read.OutputChanges {
				require.Contains(t, terraformActions, strings.Join(o.Actions, " "))
			}
		})
	}
}

func checkChange(t *testing.T, c *terraformChange, of *plan.Change) {
	t.Helper()
	require.Equal(t, of.Addr, c.Address)
	require.Contains(t, terraformActions, strings.Join(c.Change.Actions, " "), c.Address)
	require.Equal(t, of.Before == nil, c.Change.Before == nil, c.Address)
	require.Equal(t, of.After == nil, c.Change.After == nil, c.Address)
	if of.PreviousAddr != "" {
		require.Equal(t, of.PreviousAddr, c.PreviousAddress)
	}
	if of.Importing != "" {
		require.NotNil(t, c.Change.Importing)
		require.Equal(t, of.Importing, c.Change.Importing.ID)
	}
	for _, path := range c.Change.ReplacePaths {
		require.True(t, slices.Contains(of.ForcesReplace, path[0]))
	}
}

// The module of an address, keys with brackets and dots in them included.
func TestModuleOfAnAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"mutex.a":                  "",
		"namespace.module.mutex.a": "",
		"module.team.mutex.a":      "module.team",
		`module.team["a.b\"].x"].mutex.c["module"]`:  `module.team["a.b\"].x"]`,
		`module.a.module.b["k"].namespace.n.mutex.c`: `module.a.module.b["k"]`,
	} {
		require.Equal(t, want, moduleOf(addr), addr)
	}
	var out bytes.Buffer
	p := smallPlan("main")
	p.Changes[0].Addr = `module.team["x"].mutex.a`
	NewStream(&out, "1.2.3", clock).Plan(Plan{Plans: []*plan.Plan{p}, Operation: "apply"})
	require.Contains(t, out.String(), `"module":"module.team[\"x\"]","resource":"mutex.a"`)
}
