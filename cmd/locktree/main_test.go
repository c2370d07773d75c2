package main

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
)

// The first interrupt asks the program to end, and the second ends it. No user must have to look for the process and kill it.
func TestSecondInterruptExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		signals := make(chan os.Signal)
		var text strings.Builder
		code := -1
		done := make(chan struct{})
		go func() {
			defer close(done)
			onSignals(signals, cancel, &text, func(c int) { code = c })
		}()
		signals <- os.Interrupt
		synctest.Wait()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.Equal(t, -1, code)
		require.Empty(t, text.String())
		signals <- os.Interrupt // the same one again, as timeout(1) sends it
		synctest.Wait()
		require.Equal(t, -1, code)
		time.Sleep(time.Second)
		signals <- os.Interrupt
		<-done
		require.Equal(t, exit.Failed, code)
		require.Contains(t, text.String(), "Two interrupts received. Exiting immediately.")
	})
}

// A thousand changes of one transaction do not print a thousand lines every ten seconds.
func TestStillNamesAFew(t *testing.T) {
	var out strings.Builder
	v := view.NewHuman(view.Stream{Writer: &out, Width: 78}, view.Stream{Writer: &out, Width: 78})
	start := time.Unix(0, 0)
	open := make([]planview.Ongoing, 1000)
	for i := range open {
		open[i] = planview.Ongoing{Started: event.Started{Addr: "mutex.a", Action: plan.Delete}, Since: start}
	}
	v.Show(planview.Still{Ensemble: "main", Open: open, Now: start.Add(70 * time.Second)})
	require.Equal(t, 5, strings.Count(out.String(), "mutex.a: Still destroying... [1m10s elapsed]\n"))
	require.Contains(t, out.String(), "995 more changes are under way\n")
}

// A newcomer sees the demo first, so it must keep its promises: it does the whole job, its tokens only grow, and it leaves nothing behind.
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

// The demo reported an address that serve refuses as a bug.
func TestDemoThatMayNotServeIsNoBug(t *testing.T) {
	text := tool(t, exit.Failed, ".", []string{"NO_COLOR=1", "TMPDIR=" + t.TempDir()}, "demo", "-serve", "-listen=0.0.0.0:1")
	require.Contains(t, text, "The page would be open to everybody")
	require.NotContains(t, text, "please report this")
}
