package planview_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// manyLocks is a plan that creates locks of three blocks, one of them because of a move, and deletes one.
func manyLocks(shards int) *plan.Plan {
	p := &plan.Plan{Ensemble: "main", Root: "/"}
	add := func(action plan.Action, addr plan.Addr) *plan.Change {
		path := fmt.Sprintf("/%04d", len(p.Changes))
		n := &plan.Node{Path: path, Addr: addr, Payload: &kind.Payload{Params: kind.Mutex.New()}}
		c := plan.Change{Action: action, Addr: addr, Path: path, Kind: kind.Mutex, After: n}
		if action == plan.Delete {
			c.Before, c.After = n, nil
		}
		p.Changes = append(p.Changes, c)
		return &p.Changes[len(p.Changes)-1]
	}
	for i := range shards {
		add(plan.Create, plan.Addr(fmt.Sprintf("mutex.shard[\"%03d\"]", i)))
	}
	for i := range 3 {
		add(plan.Create, plan.Addr(fmt.Sprintf("mutex.few[\"%d\"]", i)))
	}
	add(plan.Create, `mutex.shard["moved"]`).PreviousAddr = "mutex.before"
	add(plan.Delete, "mutex.gone")
	return p
}

// A plan of 100,000 locks had 800,000 lines.
func TestManyChangesAreGroupedOnATerminal(t *testing.T) {
	show := func(terminal bool, p planview.Plan) string {
		var out strings.Builder
		to := view.Stream{Writer: &out, Terminal: terminal, Width: 78}
		view.NewHuman(to, to).Show(p)
		return out.String()
	}
	few, many := manyLocks(195), manyLocks(196)
	text := show(true, planview.Plan{Plans: []*plan.Plan{many}, NoAdvice: true})
	require.Contains(t, text, `
  # mutex.shard will be created, 196 times
  + mutex.shard["000"]
  + mutex.shard["001"]
  + mutex.shard["002"]
    # (and 193 more)
`)
	for _, whole := range []string{`# mutex.few["0"] will be created`, `# mutex.few["2"] will be created`, `# mutex.shard["moved"] will be created`, `# (moved from mutex.before)`, "# mutex.gone will be destroyed"} {
		require.Contains(t, text, whole)
	}
	require.Contains(t, text, "-full shows each.")
	require.NotContains(t, text, "003")
	require.Less(t, strings.Count(text, "\n"), 60)
	for name, whole := range map[string]string{
		"as many as can be read": show(true, planview.Plan{Plans: []*plan.Plan{few}, NoAdvice: true}),
		"a pipe":                 show(false, planview.Plan{Plans: []*plan.Plan{many}, NoAdvice: true}),
		"-full":                  show(true, planview.Plan{Plans: []*plan.Plan{many}, NoAdvice: true, Full: true}),
	} {
		require.Contains(t, whole, `# mutex.shard["194"] will be created`, name)
		require.NotContains(t, whole, "-full", name)
	}
	concise := show(true, planview.Plan{Plans: []*plan.Plan{many}, NoAdvice: true, Concise: true})
	require.Contains(t, concise, "# mutex.shard will be created, 196 times")
}

func TestChangesThatWereMadeTogetherAreCounted(t *testing.T) {
	var out strings.Builder
	v := view.NewHuman(view.Stream{Writer: &out}, view.Stream{Writer: &out})
	var all planview.Together
	for i := range 4 {
		all.Add("main", event.Applied{Addr: `mutex.shard["a"]`, Path: "/a", Action: plan.Delete, Elapsed: time.Duration(i) * time.Second})
		v.Show(all)
	}
	one := "mutex.shard[\"a\"]: Destruction complete after %ds [path=/a]\n"
	require.Equal(t, fmt.Sprintf(one+one+one+one+one+one, 0, 0, 1, 0, 1, 2)+"mutex.shard: Destruction complete after 3s, 4 times\n", out.String())
}
