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

// host shows results, and nothing else happens around it.
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
				p := newProgress(newHost(kind, &out), "main")
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
				p := newProgress(newHost(form, &out), "main")
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
