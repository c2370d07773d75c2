package recipes_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/effort"
)

// The schedule is a function of the seed and of nothing else, or a failing seed could not be replayed.
func TestASeedDecidesItsWholeSchedule(t *testing.T) {
	for seed := range uint64(50) {
		require.Equal(t, newSchedule(seed).String(), newSchedule(seed).String())
		require.NotEqual(t, newSchedule(seed).String(), newSchedule(seed+1).String())
	}
}

// Where servers end sessions early and people delete nodes, no client can know in time: the simulation excuses such
// grants. Without the excuse its invariants must fail, or they would not look.
func TestTheInvariantsFindWhatIsExcused(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	found := map[string]int{}
	for seed := uint64(0); seed < 120 && len(found) < 3; seed++ {
		w := simulateStrictly(t, newSchedule(seed))
		for _, wrong := range w.wrong {
			for _, what := range []string{"is gone", "are believed at once", "makes"} {
				if strings.Contains(wrong, what) {
					found[what]++
				}
			}
		}
	}
	require.Positive(t, found["is gone"], "holders of deleted nodes were not noticed")
	require.Positive(t, found["are believed at once"]+found["makes"], "two believers were not noticed")
	t.Log(found)
}
