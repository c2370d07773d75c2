package change

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// host shows results and does nothing more.
type host struct {
	stack.Silent
	v view.Output
}

func newHost(form string, out io.Writer) *host {
	if form == "json" {
		return &host{v: view.NewStream(out, "0.1.0", time.Now)}
	}
	return &host{v: view.NewHuman(view.Stream{Writer: out, Width: 78}, view.Stream{Writer: out, Width: 78})}
}

func (h *host) Show(r view.Result)                                     { h.v.Show(r) }
func (h *host) Message(text string)                                    { h.v.Message(text) }
func (h *host) Approve(context.Context, string, string, string) error  { return nil }
func (h *host) Uninterrupted(context.Context) (over func(), err error) { return func() {}, nil }
func (h *host) Changing(bool)                                          {}
func (h *host) Grouped() bool                                          { return false }

// Every ten seconds the work under way is named, and none that is done. It is a change of a long transaction, or a lock that is drained
// until it is removed.
func TestStillUnderWay(t *testing.T) {
	for form, lines := range map[string][]string{
		"human": {"mutex.b: Still creating... [10s elapsed]", "mutex.b: Still creating... [20s elapsed]", "mutex.c: Still draining... [10s elapsed]"},
		"json":  {`"type":"apply_progress"`, `"elapsed_seconds":20`, `"type":"drain_progress"`},
	} {
		t.Run(form, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				p := newProgress(newHost(form, &out), "main")
				stop := p.showStill()
				p.event(event.Started{Addr: "mutex.a", Path: "/a", Action: plan.Create})
				p.event(event.Started{Addr: "mutex.b", Path: "/b", Action: plan.Create})
				p.event(event.Draining{Addr: "mutex.c", Path: "/c", Usage: &kind.Usage{}})
				time.Sleep(5 * time.Second)
				p.event(event.Applied{Addr: "mutex.a", Path: "/a", Action: plan.Create, Elapsed: 5 * time.Second})
				time.Sleep(10 * time.Second)
				p.event(event.Started{Addr: "mutex.c", Path: "/c", Action: plan.Delete})
				time.Sleep(6 * time.Second)
				p.event(event.Failed{Addr: "mutex.b", Path: "/b", Action: plan.Create})
				time.Sleep(4 * time.Second)
				p.event(event.Failed{Addr: "mutex.c", Path: "/c", Action: plan.Delete})
				time.Sleep(time.Minute)
				stop()
				for _, line := range lines {
					require.Contains(t, out.String(), line)
				}
				require.Contains(t, out.String(), "mutex.c: Still destroying... [5s elapsed]")
				require.Equal(t, 1, strings.Count(out.String(), "Still draining"), out.String())
				require.NotContains(t, out.String(), "30s elapsed")
				require.NotContains(t, out.String(), "mutex.a: Still")
			})
		})
	}
}
