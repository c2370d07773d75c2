package main

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
)

// The demo is what a newcomer sees first, so it is held to its promises: it does
// the whole job, its tokens only grow, and it leaves nothing behind.
func TestDemo(t *testing.T) {
	var out bytes.Buffer
	code := start(t.Context(), []string{"demo"}, []string{"NO_COLOR=1", "TMPDIR=" + t.TempDir()}, strings.NewReader(""), &out, &out)
	text := out.String()
	require.Zero(t, code, text)
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
	var out bytes.Buffer
	code := start(t.Context(), []string{"demo", "-serve", "-listen=0.0.0.0:1"}, []string{"NO_COLOR=1", "TMPDIR=" + t.TempDir()}, strings.NewReader(""), &out, &out)
	require.Equal(t, exit.Failed, code)
	require.Contains(t, out.String(), "The page would be open to everybody")
	require.NotContains(t, out.String(), "please report this")
}
