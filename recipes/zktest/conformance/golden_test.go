//go:build linux

package conformance

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

func TestGoldenAnswersAreThoseOfTheRealServer(t *testing.T) {
	t.Parallel()
	s := realzk.Start(t, realzk.Options{Config: map[string]string{
		"extendedTypesEnabled": "true", "enforceQuota": "true", "forceSync": "no",
	}})
	if len(as(t, TCP(s.Addr))) > 0 {
		require.Empty(t, os.Getenv("GOLDEN"), "golden answers are those of %sx, and this is another release", goldenVersion)
		Scripted(t, TCP(s.Addr))
		return
	}
	parts := record(t, TCP(s.Addr))
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile("testdata/golden.txt", []byte(formatGolden(parts)), 0o644))
		return
	}
	require.Equal(t, golden, formatGolden(parts))
}

func TestGoldenAnswersAreThoseOfTheServerInMemoryOverAPipe(t *testing.T) {
	Scripted(t, pipe(zktest.Start(t, zktest.WithExtendedTypes(), zktest.WithQuotaEnforcement())))
}
