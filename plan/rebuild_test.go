package plan_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/plan"
)

// An index may lose all or any of its entries: the next plan says so and counts as
// a change, and after it the index is what it was.
func TestWhateverAnIndexLosesIsWrittenAgain(t *testing.T) {
	path := plan.IndexPath(testRoot, testStack)
	rapid.Check(t, func(t *rapid.T) {
		tree := trees().Draw(t, "tree")
		m := newModel(testRoot, testStack)
		m.apply(t, plan.Diff(m.read(t, testRoot, testStack), tree, plan.Options{Identities: us}))
		if len(tree.Nodes) == 0 {
			return
		}
		want, _ := plan.DecodeIndex(m.nodes[path].data)
		lost := rapid.SliceOfNDistinct(rapid.SampledFrom(slices.Sorted(maps.Keys(want.Resources))), 1, -1, rapid.ID).Draw(t, "lost")
		var doc map[string]any
		require.NoError(t, json.Unmarshal(m.nodes[path].data, &doc))
		for _, key := range lost {
			delete(doc["res"].(map[string]any), key)
		}
		m.nodes[path].data, _ = json.Marshal(doc)
		current := m.read(t, testRoot, testStack)
		if rapid.Bool().Draw(t, "all") {
			current.Index, current.IndexTrouble = nil, "cut off"
		}
		p := plan.Diff(current, tree, plan.Options{Identities: us})
		require.True(t, p.HasChanges())
		require.Equal(t, plan.Counts{}, p.Summary())
		require.Equal(t, plan.ProblemIndex, p.Problems[len(p.Problems)-1].Code)
		m.apply(t, p)
		got, err := plan.DecodeIndex(m.nodes[path].data)
		require.NoError(t, err)
		require.Equal(t, want.Resources, got.Resources)
		require.False(t, plan.Diff(m.read(t, testRoot, testStack), tree, plan.Options{Identities: us}).HasChanges())
	})
}

// What moves left behind goes with an apply that has something else to do: not with
// one that was not asked about it.
func TestTombstoneStaysOutsideTheTargets(t *testing.T) {
	m := applied(t, base())
	moved := base()
	moved.Nodes[3].Path = "/locks/solo2"
	m.apply(t, replan(t, m, moved))
	require.NotNil(t, m.nodes["/locks/solo"])
	moved.Nodes[0].Payload.Protect = true
	p := plan.Diff(m.read(t, testRoot, testStack), moved, plan.Options{Identities: us, Targets: []string{string(moved.Nodes[0].Addr)}})
	require.True(t, p.HasChanges())
	for i := range p.Changes {
		require.NotEqual(t, plan.Delete, p.Changes[i].Action)
	}
	require.Contains(t, actions(replan(t, m, moved)), "- /locks/solo", "with everything else it goes")
}
