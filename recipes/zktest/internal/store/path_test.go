package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/recipes/internal/paths"
	"github.com/locktree/locktree/recipes/zktest/internal/store"
)

// The client's rules and the server's share no line of code.
func TestTheClientsRulesForPathsAndTheServersAgree(t *testing.T) {
	element := rapid.OneOf(rapid.SampledFrom([]string{"", "a", ".", "..", "...", ".a", "\x00", "\x1f", "\x7f", "\u009f", "\ud7ff", "\ue000", "\uf900", "\uffef", "\ufff0", "😀", "\xff"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom([]string{"", "/", "/", "/"}).Draw(t, "start")
		for i, name := range rapid.SliceOfN(element, 0, 4).Draw(t, "names") {
			if i > 0 {
				path += "/"
			}
			path += name
		}
		require.Equal(t, paths.Bad(path, false) == "", store.ValidPath(path), "%q", path)
	})
}
