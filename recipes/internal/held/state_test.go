package held

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/zktest"
)

func steps[S interface {
	~int
	String() string
}](legal map[S][]S, first, last S) map[string][]string {
	all := map[string][]string{}
	for from := first; from <= last; from++ {
		for next := first; next <= last; next++ {
			if s := from; step(legal, &s, next) {
				all[from.String()] = append(all[from.String()], s.String())
			}
		}
	}
	return all
}

func (s useState) String() string { return [...]string{"used", "released", "exchanged"}[s] }

// A holding that is over stays over, and no lease is exchanged twice.
func TestAHoldingAndALeaseMakeOnlyLegalMoves(t *testing.T) {
	require.Equal(t, map[string][]string{
		"starting":        {"held", "over"},
		"held":            {"being exchanged", "over"},
		"being exchanged": {"held", "over"},
	}, steps(holdMoves, starting, over))
	// A lease is given back once. Only after that can it be exchanged for another lease.
	require.Equal(t, map[string][]string{
		"used":     {"released"},
		"released": {"exchanged"},
	}, steps(useMoves, used, exchanged))
}

// The lock kept only the timer of one node, and stopped it. The others ran on for a session timeout, with all that they refer to.
func TestALeaseOfSeveralHiddenNodesLeavesNoTimerBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		c, err := session.Dial(t.Context(), session.Config{Servers: []string{"zk"}, Dialer: srv.DialContext})
		require.NoError(t, err)
		s, looks := c.Newest(), 0
		h := &Lock{owner: &znode.SessionNodes{Session: s}}
		h.own = make([]func(), 3)
		for i := range h.own {
			h.keep(0, i, &znode.Watch{Hidden: true}, func() { looks++ })
		}
		h.stopWatching()
		time.Sleep(s.Timeout())
		synctest.Wait()
		require.Zero(t, looks)
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
