package held_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/zktest"
)

// What is over stays over, and nothing is exchanged twice.
func TestAHoldingMakesOnlyLegalMoves(t *testing.T) {
	require.Equal(t, map[string][]string{
		"starting":        {"held", "over"},
		"held":            {"being exchanged", "over"},
		"being exchanged": {"held", "over"},
	}, held.Moves())
}

// A lease is given back once, and becomes another lease only then.
func TestALeaseMakesOnlyLegalMoves(t *testing.T) {
	require.Equal(t, map[string][]string{
		"used":     {"released"},
		"released": {"exchanged"},
	}, held.UseMoves())
}

// The timer of one node was kept, and the others ran on for a session timeout, with all that they refer to.
func TestALeaseOfSeveralHiddenNodesLeavesNoTimerBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		c, err := session.Dial(t.Context(), session.Config{Servers: []string{"zk"}, Dialer: srv.DialContext})
		require.NoError(t, err)
		require.Zero(t, held.LooksAtHidden(c.Newest(), 3))
		require.NoError(t, c.Close())
	})
}

func TestTheStateOfAHoldingHasOneWriter(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var writers []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for range regexp.MustCompile(`\b(h|l|old|next)\.state = |\*now = next\b`).FindAll(text, -1) {
			writers = append(writers, file)
		}
	}
	require.Equal(t, []string{"held.go"}, writers)
}
