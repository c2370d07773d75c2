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
	"github.com/locktree/locktree/recipes/kind"
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

// heldUp is a stream that takes what is written only when it is let go.
type heldUp struct {
	strings.Builder
	free chan struct{}
}

func (h *heldUp) Write(b []byte) (int, error) {
	<-h.free
	return h.Builder.Write(b)
}

// What an interrupt is answered with is said beside the command: a command that ended at once took its answer along.
func TestInterruptIsAnsweredBeforeTheCommandEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		stderr := &heldUp{free: make(chan struct{})}
		a := &app{terminal: terminal{stdout: &strings.Builder{}, stderr: stderr}}
		stop, ended := a.interruptible(ctx), make(chan struct{})
		interrupt()
		go func() {
			defer close(ended)
			stop()
		}()
		synctest.Wait()
		select {
		case <-ended:
			require.Fail(t, "the command ended, and nothing was said")
		default:
		}
		close(stderr.free)
		<-ended
		require.Contains(t, stderr.String(), "Interrupt received.")

		a.interruptible(t.Context())() // nor does it wait for an interrupt that does not come
	})
}

// Where a transaction takes long, every ten seconds what is under way is named,
// and nothing that is done.
func TestStillUnderWay(t *testing.T) {
	for kind, lines := range map[string][]string{
		"human": {"mutex.b: Still creating... [10s elapsed]", "mutex.b: Still creating... [20s elapsed]"},
		"json":  {`"type":"apply_progress"`, `"elapsed_seconds":20`},
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				a := &app{terminal: terminal{stdout: &out, stderr: &out}, underWay: make(chan struct{}, 1)}
				if kind == "json" {
					a.json = streamJSON
				}
				p := a.progress("main")
				stop := p.watched()
				p.event(event.Started{Addr: "mutex.a", Path: "/a", Action: plan.Create})
				p.event(event.Started{Addr: "mutex.b", Path: "/b", Action: plan.Create})
				time.Sleep(5 * time.Second)
				p.event(event.Applied{Addr: "mutex.a", Path: "/a", Action: plan.Create, Elapsed: 5 * time.Second})
				time.Sleep(16 * time.Second)
				p.event(event.Failed{Addr: "mutex.b", Path: "/b", Action: plan.Create})
				time.Sleep(time.Minute)
				stop()
				for _, line := range lines {
					require.Contains(t, out.String(), line)
				}
				require.NotContains(t, out.String(), "30s elapsed")
				require.NotContains(t, out.String(), "mutex.a: Still")
			})
		})
	}
}

// A lock that is drained may be used for a long time: that, too, is said, until it
// is removed.
func TestStillDraining(t *testing.T) {
	for form, line := range map[string]string{"human": "mutex.a: Still draining... [10s elapsed]", "json": `"type":"drain_progress"`} {
		t.Run(form, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				a := &app{terminal: terminal{stdout: &out, stderr: &out}, underWay: make(chan struct{}, 1)}
				if form == "json" {
					a.json = streamJSON
				}
				p := a.progress("main")
				stop := p.watched()
				p.event(event.Draining{Addr: "mutex.a", Path: "/a", Usage: &kind.Usage{}})
				time.Sleep(15 * time.Second)
				p.event(event.Started{Addr: "mutex.a", Path: "/a", Action: plan.Delete})
				time.Sleep(10 * time.Second)
				stop()
				require.Contains(t, out.String(), line)
				require.Equal(t, 1, strings.Count(out.String(), "Still draining"), out.String())
				require.Contains(t, out.String(), "Still destroying... [5s elapsed]")
			})
		})
	}
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
