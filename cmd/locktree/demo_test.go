package main

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
)

// The demo is what a newcomer sees first, so it is held to its promises: it does
// the whole job, its tokens only grow, and it leaves nothing behind.
func TestDemo(t *testing.T) {
	text := tool(t, exit.OK, ".", []string{"NO_COLOR=1", "TMPDIR=" + t.TempDir()}, "demo")
	for _, want := range []string{
		"Plan: 5 to add, 0 to change, 0 to destroy.",
		"Apply complete! Resources: 5 added, 0 changed, 0 destroyed.",
		"No changes.",
		"4 locks, 4 held, 1 waiting.",
		"IN USE: held by program-1",
		"Error: Lock is in use",
		"Destroy complete! Resources: 5 destroyed.",
		"What to try next:",
	} {
		require.Contains(t, text, want)
	}
	for lock, grants := range map[string]int{"mutex": 6, "rwlock": 3, "semaphore": 3, "election": 3} {
		tokens := regexp.MustCompile(`(?m)^  `+lock+` +program-\d .* token (\d+)$`).FindAllStringSubmatch(text, -1)
		require.Len(t, tokens, grants, lock)
		if lock != "mutex" && lock != "election" {
			continue
		}
		last := 0
		for _, m := range tokens {
			token, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			require.Greater(t, token, last, "%s: a later holder needs a larger token", lock)
			last = token
		}
	}
}

// An address that serve refuses was called a bug of the demo.
func TestDemoThatMayNotServeIsNoBug(t *testing.T) {
	text := tool(t, exit.Failed, ".", []string{"NO_COLOR=1", "TMPDIR=" + t.TempDir()}, "demo", "-serve", "-listen=0.0.0.0:1")
	require.Contains(t, text, "The page would be open to everybody")
	require.NotContains(t, text, "please report this")
}
