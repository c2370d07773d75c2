package main

import (
	"context"
	"os"
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

// The first interrupt asks, the second ends: nobody should have to look for the
// process and kill it.
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
		signals <- os.Interrupt // the same one, as timeout(1) sends it
		synctest.Wait()
		require.Equal(t, -1, code)
		time.Sleep(time.Second)
		signals <- os.Interrupt
		<-done
		require.Equal(t, exit.Failed, code)
		require.Contains(t, text.String(), "Two interrupts received. Exiting immediately.")
	})
}

// A thousand changes of one transaction are not a thousand lines every ten seconds.
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
