//go:build linux

package conformance

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

var update = flag.Bool("update", false, "ask the real ZooKeeper again and rewrite testdata/golden.txt")

func TestGoldenAnswersAreThoseOfTheRealServer(t *testing.T) {
	s := realzk.Start(t, realzk.Options{Config: map[string]string{
		"extendedTypesEnabled": "true", "enforceQuota": "true", "forceSync": "no",
	}})
	if *update {
		require.NoError(t, os.WriteFile("testdata/golden.txt", []byte(formatGolden(record(t, TCP(s.Addr)))), 0o644))
		return
	}
	Scripted(t, TCP(s.Addr))
}

func TestGoldenAnswersAreThoseOfTheServerInMemory(t *testing.T) {
	start := func(t *testing.T) *zktest.Server {
		return zktest.Start(t, zktest.WithExtendedTypes(), zktest.WithQuotaEnforcement())
	}
	t.Run("over TCP", func(t *testing.T) { Scripted(t, TCP(start(t).Addr())) })
	t.Run("over a pipe", func(t *testing.T) { Scripted(t, pipe(start(t))) })
}
