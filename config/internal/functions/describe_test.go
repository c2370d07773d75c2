package functions

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheReferenceNamesTheFunctions(t *testing.T) {
	const page, begin = "../../../docs/language.md", "\nFunctions: "
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	_, after, found := strings.Cut(rest, "\n")
	require.True(t, found)
	got := before + begin + strings.Join(slices.Sorted(maps.Keys(Table(Module{}, nil))), ", ") + ".\n" + after
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile(page, []byte(got), 0o644))
		return
	}
	require.Equal(t, string(text), got)
}
